"""The `runcard` command: looks at what runs left. Runs themselves are made with `pytest bench --workload NAME`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from bench.errors import RuncardError
from bench.records import store
from bench.spec import REPOSITORY


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0, or 4 with one line on standard error for a user's mistake."""
    arguments = _parser().parse_args(argv)
    try:
        arguments.act(arguments)
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
        epilog="examples:\n  runcard list\n  runcard show last\n  runcard show last --json | jq '.cases[].outcome'",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    show = commands.add_parser("show", help="one run's record as tables, or as JSON")
    show.add_argument("run", metavar="RUN", help="a run id, a run's folder, or `last`")
    show.add_argument("--json", action="store_true", help="print record.json itself")
    show.add_argument("--sessions", action="store_true", help="list the agent sessions instead")
    show.set_defaults(act=_show)
    listing = commands.add_parser("list", help="the runs that exist, oldest name first")
    listing.set_defaults(act=_list)
    for command in (show, listing):
        command.add_argument(
            "--results",
            metavar="DIR",
            type=Path,
            default=REPOSITORY / "results",
            help="where runs are kept (default: results/)",
        )
    return parser


def _show(arguments: argparse.Namespace) -> None:
    from bench.report import tables

    record = store.read_record(store.find_run(arguments.results, arguments.run))
    if arguments.json:
        print(json.dumps(asdict(record), indent=1, ensure_ascii=False))
    elif arguments.sessions:
        print(tables.sessions(record))
    else:
        print(tables.summary(record))
        print(f"\n{tables.cases_line(record.cases)}")


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
