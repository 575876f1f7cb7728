"""The `runcard` command: looks at what runs left. Runs themselves are made with `pytest bench --workload NAME`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from bench.errors import RuncardError, UsageError
from bench.records import requests_file, store
from bench.records.schema import RequestRecord
from bench.spec import REPOSITORY


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0; 1 where an audit found a difference; 4, with one line on standard error, for a user's mistake."""
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
        epilog="examples:\n  runcard list\n  runcard show last\n  runcard show last --json | jq '.cases[].outcome'\n  runcard audit last",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    show = commands.add_parser("show", help="one run's record as tables, or as JSON")
    show.add_argument("run", metavar="RUN", help="a run id, a run's folder, or `last`")
    show.add_argument("--json", action="store_true", help="print record.json itself")
    show.add_argument("--sessions", action="store_true", help="list the agent sessions instead")
    show.add_argument("--requests", action="store_true", help="list the requests to the model instead")
    show.add_argument("--session", metavar="N", type=int, help="only those of one session; with --requests")
    show.set_defaults(act=_show)
    audit = commands.add_parser("audit", help="compute a run's figures again from its evidence, and compare")
    audit.add_argument("run", metavar="RUN", help="a run id, a run's folder, or `last`")
    audit.set_defaults(act=_audit)
    ingesting = _ingest_parser(commands)
    listing = commands.add_parser("list", help="the runs that exist, oldest name first")
    listing.set_defaults(act=_list)
    for command in (show, audit, ingesting, listing):
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

    folder = store.find_run(arguments.results, arguments.run)
    if arguments.session is not None and not arguments.requests:
        raise UsageError("--session N chooses among requests: give --requests, too")
    if arguments.requests:
        print(tables.requests(_requests(folder, arguments.session)))
        return
    record = store.read_record(folder)
    if arguments.json:
        print(json.dumps(asdict(record), indent=1, ensure_ascii=False))
    elif arguments.sessions:
        print(tables.sessions(record))
    else:
        print(tables.summary(record))
        print(f"\n{tables.cases_line(record.cases)}")


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


def _list(arguments: argparse.Namespace) -> None:
    from bench.report import tables

    for run_id in store.run_ids(arguments.results):
        try:
            record = store.read_record(arguments.results / run_id)
        except RuncardError as error:
            print(error)
            continue
        print(f"{run_id}  {record.end}  {tables.cases_line(record.cases)}")


if __name__ == "__main__":
    sys.exit(main())
