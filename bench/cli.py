"""The `runcard` command: looks at what runs left. Runs themselves are made with `pytest bench --workload NAME`."""

from __future__ import annotations

import argparse
import functools
import io
import json
import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from bench.errors import EvidenceError, RuncardError, UsageError
from bench.records import requests_file, store
from bench.records.schema import Purpose, RequestRecord, RunRecord, SessionRow
from bench.spec import REPOSITORY

_INTERRUPTED = 130
_DOCTOR_COLUMNS = 120
"""Longer lines are hard to read."""


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0; 1 where an audit found a difference or `doctor` something broken; 130 where `doctor` was stopped; 4, with one line on standard error, for a user's mistake."""
    arguments = _parser().parse_args(argv)
    try:
        return int(arguments.act(arguments) or 0)
    except RuncardError as error:
        print(f"runcard: {error}", file=sys.stderr)
        return 4
    except BrokenPipeError:
        sys.stderr.close()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="runcard",
        description=__doc__,
        epilog="examples:\n  runcard list\n  runcard show last\n  runcard show last --sessions\n  runcard show last --session 3\n  runcard show last --session 3 --full | less\n  runcard show last --json | jq '.cases[].outcome'\n  runcard audit last",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    show = commands.add_parser("show", help="one run's record as tables, or as JSON")
    show.add_argument("run", metavar="RUN", help="a run id, a run's folder, or `last`")
    show.add_argument("--json", action="store_true", help="print record.json itself")
    show.add_argument("--sessions", action="store_true", help="list the agent sessions instead")
    show.add_argument("--requests", action="store_true", help="list the requests to the model instead")
    show.add_argument(
        "--session",
        metavar="N",
        help="what was said in one session, turn by turn (000 is the preflight); with --requests, only its requests",
    )
    show.add_argument("--full", action="store_true", help="with --session: nothing folded")
    show.set_defaults(act=_show)
    audit = commands.add_parser("audit", help="compute a run's figures again from its evidence, and compare")
    audit.add_argument("run", metavar="RUN", help="a run id, a run's folder, or `last`")
    audit.set_defaults(act=_audit)
    ingesting = _ingest_parser(commands)
    listing = commands.add_parser("list", help="the runs that exist, oldest name first")
    listing.set_defaults(act=_list)
    doctor = commands.add_parser("doctor", help="attack the box from inside, and see what this machine lacks")
    doctor.add_argument("--json", action="store_true", help="print what was found as JSON")
    doctor.add_argument(
        "--unsafe-no-sandbox", action="store_true", help="show what gets through without a box; nothing is left changed"
    )
    doctor.set_defaults(act=_doctor)
    for command in (show, audit, ingesting, listing, doctor):
        command.add_argument(
            "--results",
            metavar="DIR",
            type=Path,
            default=REPOSITORY / "results",
            help="where runs are kept (default: results/)",
        )
    return parser


def _ingest_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    command = commands.add_parser(
        "ingest",
        help="make a record of a run that was not started by runcard",
        description="Copies an agent's session files and an engine's log into a run's folder, matches the responses "
        "that the agent claims with the requests that the engine finished, and computes the figures that this gives.",
    )
    command.add_argument(
        "--agent-sessions",
        metavar="DIR",
        type=Path,
        required=True,
        help="one file a session; sessions.yaml in it may say which role and task each one had",
    )
    command.add_argument(
        "--agent", default="pi", metavar="NAME", help="whose files they are: pi, mini-swe-agent, builtin (default: pi)"
    )
    command.add_argument(
        "--engine", metavar="PROFILE", help="the engine's profile (default: the one that fits the log)"
    )
    for name, text in (
        ("engine-log", "the engine's own log"),
        ("metrics", "readings of the engine's counters, as metrics.jsonl of a run"),
        ("journal", "what the orchestrator did, as journal.jsonl of a run"),
        ("memory", "samples of the machine's memory, as memory.jsonl of a run"),
    ):
        command.add_argument(f"--{name}", metavar="FILE", type=Path, required=name == "engine-log", help=text)
    command.add_argument("--name", metavar="ID", help="the run's id (default: made of date, model, engine and agent)")
    command.set_defaults(act=_ingest)
    return command


def _ingest(arguments: argparse.Namespace) -> None:
    from bench.ingest import Left, ingest
    from bench.report import tables

    left = Left(**{name: getattr(arguments, name) for name in Left.__dataclass_fields__})
    record, path = ingest(left, arguments.results)
    print(tables.summary(record))
    print(path)


def _show(arguments: argparse.Namespace) -> None:
    from bench.report import tables

    _refuse_two_views(arguments)
    folder = store.find_run(arguments.results, arguments.run)
    if arguments.requests:
        number = None if arguments.session is None else _number(folder, arguments.session)
        print(tables.requests(_requests(folder, number), simulated=_simulated(folder)))
        return
    if arguments.session is not None:
        _show_session(folder, _number(folder, arguments.session), full=arguments.full)
        return
    record = store.read_record(folder)
    if arguments.json:
        print(json.dumps(asdict(record), indent=1, ensure_ascii=False))
    elif arguments.sessions:
        print(tables.sessions(record))
    else:
        print(tables.summary(record))
        print(f"\n{tables.cases_line(record.cases)}")


def _refuse_two_views(arguments: argparse.Namespace) -> None:
    """Raises UsageError for options of `show` that say nothing together."""
    asked = {
        "--json": arguments.json,
        "--sessions": arguments.sessions,
        "--requests": arguments.requests,
        "--session N": arguments.session is not None,
    }
    views = [name for name, given in asked.items() if given]
    if len(views) > 1 and views != ["--requests", "--session N"]:
        raise UsageError(f"{' and '.join(views)} are different views of a run: give one of them")
    if arguments.full and views != ["--session N"]:
        raise UsageError("--full unfolds what was said in a session: give --session N with it, and no other view")


def _simulated(folder: Path) -> bool:
    """Whether the engine's times are simulated, as far as that is known: by its profile, which is kept first of all."""
    from bench.figures.run_folder import read_stored_profile

    try:
        return read_stored_profile(folder / "engine" / "profile.json").simulated
    except EvidenceError:
        return False


def _number(folder: Path, given: str) -> int:
    """A session's number, with zeros before it or without. Raises UsageError where no session can have it."""
    if given.isascii() and given.isdigit() and len(given) <= 9:
        return int(given)
    raise UsageError(f"{folder.name}: '{given[:40]}' is no number of a session; {_existing(folder)}")


def _existing(folder: Path) -> str:
    """`sessions: 000 to 012`; the numbers of an unfinished run, too."""
    numbers = sorted(int(place.name) for place in folder.glob("sessions/[0-9]*") if place.name.isdigit())
    if not numbers:
        return "the run kept no exchanges of sessions"
    whole = numbers == list(range(numbers[0], numbers[-1] + 1)) and len(numbers) > 1
    listed = f"{numbers[0]:03d} to {numbers[-1]:03d}" if whole else ", ".join(f"{one:03d}" for one in numbers)
    return f"sessions: {listed}"


def _show_session(folder: Path, number: int, *, full: bool) -> None:
    """Prints turn by turn as it reads: the evidence of a long session need not fit into memory."""
    from bench.agents.adapters import EVENTS_FILE
    from bench.figures.run_folder import read_stored_profile
    from bench.measure.transcript import iterate_turns
    from bench.report.transcript_text import Look, TranscriptText

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal of few letters shows the others as question marks
    place = folder / "sessions" / f"{number:03d}"
    if not place.is_dir():
        raise UsageError(f"{folder.name}: there is no session {number:03d}; {_existing(folder)}")
    terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if terminal else None
    writer = TranscriptText(Look(full=full, colour=terminal and not os.environ.get("NO_COLOR"), width=width))
    row = _session_row(folder, number)
    print("\n".join(writer.head(number, row, simulated=_simulated(folder))))
    try:
        profile = read_stored_profile(folder / "engine" / "profile.json")
    except EvidenceError as error:
        print(f"runcard: {error}; cached tokens may be missing", file=sys.stderr)
        profile = None
    turns = 0
    warn = functools.partial(print, "runcard:", file=sys.stderr)
    purposes = _purposes(folder, number)
    for turn in iterate_turns(place / "exchanges.jsonl", profile, purposes=purposes, warn=warn):
        print("\n".join(writer.turn(turn)))
        turns += 1
    if not turns:
        print("\n".join(writer.silent(_tail(place / EVENTS_FILE))))
    if not turns or (row is not None and row.outcome != "done"):
        print("\n".join(writer.ending(row, _tail(place / "stderr.txt"))))


def _session_row(folder: Path, number: int) -> SessionRow | None:
    """The session as the record lists it, of an unfinished run as its journal does; None where neither knows it."""
    from bench.loop.journal import read_journal
    from bench.loop.rows import session_rows

    try:
        rows = store.read_record(folder).sessions
    except EvidenceError:
        try:
            rows = session_rows(read_journal(folder / "journal.jsonl").entries)
        except EvidenceError:
            return None
    return next((row for row in rows if row.session == number), None)


def _purposes(folder: Path, number: int) -> dict[int, Purpose]:
    """What the session's requests were for, as far as the figures were computed already."""
    try:
        return {one.index: one.purpose for one in requests_file.read_requests(folder) if one.session == number}
    except EvidenceError:
        return {}


def _tail(path: Path) -> str:
    """The last lines of a file of evidence, 4,000 bytes at most; empty where there is none."""
    try:
        with path.open("rb") as stream:
            end = stream.seek(0, os.SEEK_END)
            stream.seek(max(0, end - 4000))
            text = stream.read().decode("utf-8", "replace")
    except OSError:
        return ""
    lines = text.splitlines()
    return "\n".join(lines[1 if end > 4000 and len(lines) > 1 else 0 :][-10:])


def _requests(folder: Path, session: int | None) -> list[RequestRecord]:
    listed = requests_file.read_requests(folder)
    sessions = sorted({one.session for one in listed})
    if session is not None and session not in sessions:
        raise UsageError(
            f"{folder.name}: session {session} made no request; sessions: {', '.join(map(str, sessions)) or 'none'}"
        )
    return [one for one in listed if session in (None, one.session)]


def _audit(arguments: argparse.Namespace) -> int:
    from bench.figures.audit import audit
    from bench.report import tables

    found = audit(store.find_run(arguments.results, arguments.run))
    print(f"{found.run_id}\ncompared: {', '.join(found.compared) or 'nothing'}")
    for text in found.taken:
        print(f"not computed again: {text}")
    for difference in found.differences:
        print(f"DIFFERS {tables.plain(difference.line)}")
    count = len(found.differences)
    print("the record is what its evidence gives" if not count else f"{count} differences between record and evidence")
    return 1 if count else 0


def _doctor(arguments: argparse.Namespace) -> int:
    from bench.doctor import as_json, as_text, diagnose, told_when_slow
    from bench.interrupts import Interrupts

    try:
        with Interrupts().caught(), told_when_slow(sys.stderr) as progress:
            found = diagnose(results=arguments.results, unsafe=arguments.unsafe_no_sandbox, progress=progress)
    except KeyboardInterrupt:
        print("doctor: stopped before it was done; nothing is left of it", file=sys.stderr)
        return _INTERRUPTED
    width = min(shutil.get_terminal_size().columns, _DOCTOR_COLUMNS) if sys.stdout.isatty() else 80
    print(as_json(found) if arguments.json else as_text(found, width=max(width, 60)))
    return found.exit_code


def _list(arguments: argparse.Namespace) -> None:
    from bench.report import tables

    found: list[RunRecord | str] = []
    for run_id in store.run_ids(arguments.results):
        try:
            found.append(store.read_record(arguments.results / run_id))
        except RuncardError as error:
            found.append(str(error))
    for line in tables.runs(found):
        print(line)


if __name__ == "__main__":
    sys.exit(main())
