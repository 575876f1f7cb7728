"""How the embedded engine is called: its options, their defaults, and one line on what is wrong with a call."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

_ABOUT = """\
An OpenAI-compatible server whose "model" plays a script: no weights, no GPU, exact counts, modelled times.

  POST /v1/chat/completions   streaming or not, tool calls, usage and timings in the answer
  POST /v1/responses          the same in OpenAI's Responses API; the whole input each time
  GET  /v1/models             the name and the context window
  GET  /health                503 until the script is loaded, then 200
  GET  /metrics               Prometheus text, names runcard_embedded:*
"""
_CLOSING = """\
A request's place in the script is its X-Runcard-Session header (role, task, attempt, retry) and the number of the
model's answers in it. A turn of the script may have a fault: the engine refuses, breaks off, stalls or ends there
(docs/adding.md lists them). Logs go to stderr, one line a request. A call or a script that is wrong ends with exit 2.
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; --help lists the options\n")


def read_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    """Ends the process with one line and exit 2 when the call is wrong."""
    parser = _Parser(
        prog="python -m bench.engines.embedded",
        description=_ABOUT,
        epilog=_CLOSING,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--script", type=Path, required=True, metavar="DIR", help="folder that holds script.yaml")
    add("--host", default="127.0.0.1", help="address to listen on (%(default)s)")
    add("--port", type=_whole(0, 65535), default=8080, metavar="N", help="0 takes a free one (%(default)s)")
    add("--name", default="embedded", help="the model's name in answers (%(default)s)")
    add("--version", action="version", version="runcard-embedded 1")
    size = parser.add_argument_group("what fits")
    add = size.add_argument
    add("--context-window", type=_whole(1), default=131_072, metavar="TOKENS", help="(%(default)s)")
    add("--memory-bytes", type=_whole(1), default=24_000_000_000, metavar="B", help="for all state (%(default)s)")
    add("--bytes-per-token", type=_whole(1), default=80_000, metavar="B", help="state of one token (%(default)s)")
    add("--block-tokens", type=_whole(1), default=64, metavar="N", help="tokens of one cached block (%(default)s)")
    add("--ram-cache-bytes", type=_whole(0), default=8_000_000_000, metavar="B", help="out of the memory (%(default)s)")
    add("--ssd-cache-bytes", type=_whole(0), default=64_000_000_000, metavar="B", help="modelled size (%(default)s)")
    add("--ssd-dir", type=Path, metavar="DIR", help="files of the SSD tier; without it there is no such tier")
    add("--ssd-keep", action="store_true", help="go on with the blocks of an earlier launch; default: a cold start")
    add("--parallel", type=_whole(1), default=4, metavar="N", help="requests that run at once (%(default)s)")
    pace = parser.add_argument_group("how it answers")
    add = pace.add_argument
    add("--draft-tokens", type=_whole(0, 64), default=4, metavar="N", help="drafted in one step (%(default)s)")
    add("--time-scale", type=_scale, default=0.0, metavar="X", help="0 only accounts time, 1 waits (%(default)s)")
    add("--truth", type=Path, metavar="FILE", help="append what was really done, a JSON line a request")
    given = parser.parse_args(argv)
    if given.ram_cache_bytes > given.memory_bytes:
        parser.error("--ram-cache-bytes is a part of --memory-bytes and cannot be larger")
    if given.ssd_keep and given.ssd_dir is None:
        parser.error("--ssd-keep needs --ssd-dir")
    return given


def _whole(least: int, most: int | None = None) -> Callable[[str], int]:
    def read(text: str) -> int:
        value = int(text) if text.isascii() and text.isdigit() else -1
        if value < least or (most is not None and value > most):
            span = f"from {least} to {most}" if most is not None else f"of at least {least}"
            raise argparse.ArgumentTypeError(f"expected a whole number {span}, got '{text}'")
        return value

    return read


def _scale(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 100:
        raise argparse.ArgumentTypeError(f"expected a number from 0 to 100, got '{text}'")
    return value
