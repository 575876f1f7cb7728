"""The eight hidden cases of group `program`. Each checks one sentence of the brief and looks at nothing else.

`program.run(*arguments, stdin=…, files=…)` runs the project's csv_totals.py once in a box; an argument that names one
of `files` becomes its path there. Numbers are small whole ones wherever a case is not about numbers.
"""

from bench.scoring.case import case, expect


def totals(program, content, by="name", summed="points"):
    """Standard output for a file with this content, which the program must accept."""
    ran = program.run("--by", by, "--sum", summed, "input.csv", files={"input.csv": content.encode()})
    expect(ran.exit_code, 0, f"exit code for {content!a}")
    return ran.stdout


@case(
    "fields.quoted",
    brief="A field may stand in double quotes; within them a comma or a line break belongs to the field, and two "
    "double quotes stand for one.",
)
def test_quoted_fields(program):
    content = 'name,note,points\n"Ada, Countess","a ""b"", c",1\nBob,"two\nlines, and more",2\n"Ada, Countess",,"30"\n'
    expect(
        sorted(totals(program, content).splitlines()),
        [b'"Ada, Countess",31', b"Bob,2"],
        "totals where fields hold commas, quotes and a line break",
    )
    content = 'name,points\n"the ""one""",4\n"the ""one""",5\n'
    expect(totals(program, content), b'"the ""one""",9\n', "totals where the value of --by holds quotes")


@case(
    "fields.empty",
    brief="An empty field in the `--sum` column counts as 0, and an empty field in the `--by` column is a value like "
    "any other, printed as nothing before the comma.",
)
def test_empty_fields(program):
    content = "name,points,note\nAda,,x\nBob,2,\n,5,\n,6,\nBob,,\n"
    expect(
        sorted(totals(program, content).splitlines()),
        [b",11", b"Ada,0", b"Bob,2"],
        "totals where fields of both columns are empty",
    )


@case(
    "decimals.exact",
    brief="Totals are exact however many digits the numbers have: `0.1` and `0.2` make `0.3`, and nothing is rounded.",
)
def test_exact_decimals(program):
    content = (
        "name,points\nsmall,0.1\nsmall,0.2\n"
        "large,12345678901234567890123456789.01\nlarge,0.000000000000000000000000001\n"
    )
    expect(
        sorted(totals(program, content).splitlines()),
        [b"large,12345678901234567890123456789.010000000000000000000000001", b"small,0.3"],
        "totals of decimal fractions",
    )


@case(
    "column.unknown",
    brief="If a column is not in the first row, the program prints a message with the name of that column to standard "
    "error and nothing to standard output, and its exit code is 2.",
)
def test_unknown_column(program):
    files = {"input.csv": b"name,points\nAda,1\n"}
    for by, summed in (("surname", "points"), ("name", "surname")):
        ran = program.run("--by", by, "--sum", summed, "input.csv", files=files)
        expect(ran.exit_code, 2, f"exit code of --by {by} --sum {summed}")
        expect(ran.stdout, b"", "standard output")
        expect(b"surname" in ran.stderr, True, "standard error names the column")
    known = program.run("--by", "name", "--sum", "points", "input.csv", files=files)
    expect(known.exit_code, 0, "exit code where both columns are there")


@case(
    "number.bad",
    brief="If a field of the `--sum` column is neither empty nor a number, the program prints a message with that "
    "field to standard error and nothing to standard output, and its exit code is 3.",
)
def test_field_that_is_no_number(program):
    for field in ("many", "nan"):
        files = {"input.csv": f"name,points\nAda,1\nBob,{field}\nCy,2\n".encode()}
        ran = program.run("--by", "name", "--sum", "points", "input.csv", files=files)
        expect(ran.exit_code, 3, f"exit code where a field of --sum is {field}")
        expect(ran.stdout, b"", "standard output")
        expect(field.encode() in ran.stderr, True, "standard error tells the field")


@case(
    "input.stdin",
    brief="Without FILE the program reads standard input; with FILE it reads that file and nothing else.",
)
def test_standard_input(program):
    piped, filed = b"name,points\nAda,1\nAda,2\n", b"name,points\nBob,5\n"
    ran = program.run("--by", "name", "--sum", "points", stdin=piped)
    expect(ran.stdout, b"Ada,3\n", "totals of standard input")
    ran = program.run("--by", "name", "--sum", "points", "input.csv", stdin=piped, files={"input.csv": filed})
    expect(ran.stdout, b"Bob,5\n", "totals where there is standard input besides the file")


@case(
    "text.unicode",
    brief="Values of the `--by` column are texts that differ if any character differs: upper and lower case, letters "
    "with and without accents, and spaces all count, in every script.",
)
def test_every_script(program):
    # Two ways to write an accented letter are different characters, and so are a capital and a small one.
    names = ["Zoë", "Zoe\u0308", "Zoe", "zoe", " zoe", "北京", "Αθήνα", "🙂"]
    content = "name,größe\n" + "".join(f"{name},{at}\n{name},{at}\n" for at, name in enumerate(names))
    expect(
        sorted(totals(program, content, summed="größe").decode(errors="replace").splitlines()),
        sorted(f"{name},{2 * at}" for at, name in enumerate(names)),
        "totals of values in several scripts",
    )


@case(
    "order.sorted",
    brief="The rows are sorted by the value of the `--by` column, character by character in the order of their Unicode "
    "code points, however they stand in the input.",
)
def test_order_of_rows(program):
    names = ["pear", "Zebra", "apple", "10", "9", "apple pie", "Äpfel"]
    content = "name,points\n" + "".join(f"{name},{at}\n" for at, name in enumerate(names, 1))
    keys = [line.partition(",")[0] for line in totals(program, content).decode(errors="replace").splitlines()]
    expect(keys, ["10", "9", "Zebra", "apple", "apple pie", "pear", "Äpfel"], "order of the values in the output")
