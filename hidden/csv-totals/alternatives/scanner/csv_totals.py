"""A second correct program, built quite differently from the reference: it reads characters one by one, looks at its
arguments itself and adds whole numbers of the smallest decimal place. It shows that the cases ask for no one design."""

import sys

USAGE = "usage: csv_totals.py --by COLUMN --sum COLUMN [FILE]"


def fail(message, exit_code):
    sys.stderr.buffer.write(f"{message}\n".encode())
    sys.exit(exit_code)


def options_of(arguments):
    named, files = {}, []
    waiting = list(arguments)
    while waiting:
        argument = waiting.pop(0)
        name, equals, value = argument.partition("=")
        if name in ("--by", "--sum"):
            if not equals and not waiting:
                fail(USAGE, 2)
            named[name] = value if equals else waiting.pop(0)
        elif argument.startswith("--"):
            fail(USAGE, 2)
        else:
            files.append(argument)
    if len(named) != 2 or len(files) > 1:
        fail(USAGE, 2)
    return named["--by"], named["--sum"], files


def text_of(files):
    if not files:
        return sys.stdin.buffer.read().decode()
    try:
        with open(files[0], "rb") as stream:
            return stream.read().decode()
    except OSError as error:
        fail(f"{files[0]}: {error.strerror}", 2)


def rows_in(text):
    """Splits text into rows of fields. `begun` tells a row with one empty field from one without any character."""
    row, field, begun, within = [], [], False, False
    at = 0
    while at < len(text):
        char = text[at]
        at += 1
        if within:
            if char != '"':
                field.append(char)
            elif text[at : at + 1] == '"':
                field.append(char)
                at += 1
            else:
                within = False
        elif char == '"':
            within = begun = True
        elif char == ",":
            row.append("".join(field))
            field, begun = [], True
        elif char == "\n" or text[at - 1 : at + 1] == "\r\n":
            at += char == "\r"
            if begun:
                yield [*row, "".join(field)]
            row, field, begun = [], [], False
        else:
            field.append(char)
            begun = True
    if begun:
        yield [*row, "".join(field)]


def units_of(field):
    """The number as (whole units, decimal places): `-2.50` is (-250, 2)."""
    text = field.strip(" ")
    if text == "":
        return 0, 0
    sign, digits = (text[0], text[1:]) if text[0] in "+-" else ("", text)
    whole, _, rest = digits.partition(".")
    if whole + rest == "" or not set(whole + rest) <= set("0123456789"):
        fail(f"{field} is not a number", 3)
    return int(sign + whole + rest), len(rest)


def printed(units, places):
    digits = str(abs(units)).rjust(places + 1, "0")
    whole, rest = digits[: len(digits) - places], digits[len(digits) - places :].rstrip("0")
    return ("-" if units < 0 else "") + whole + ("." + rest if rest else "")


def main():
    sys.set_int_max_str_digits(0)
    by, summed, files = options_of(sys.argv[1:])
    rows = list(rows_in(text_of(files)))
    header = rows.pop(0) if rows else []
    for name in (by, summed):
        if name not in header:
            fail(f"no such column: {name}", 2)
    totals = {}
    for row in rows:
        row += [""] * (len(header) - len(row))
        units, places = units_of(row[header.index(summed)])
        have, deep = totals.get(row[header.index(by)], (0, 0))
        level = max(places, deep)
        totals[row[header.index(by)]] = have * 10 ** (level - deep) + units * 10 ** (level - places), level
    for value in sorted(totals):
        marked = any(mark in value for mark in ',"\r\n')
        name = '"' + value.replace('"', '""') + '"' if marked else value
        sys.stdout.buffer.write(f"{name},{printed(*totals[value])}\n".encode())


main()
