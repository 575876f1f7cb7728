"""What a person sees while a run goes on: plain lines, and on a terminal one more line that moves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

Sink = Callable[[str, bool], None]


@contextmanager
def shown(stream: TextIO) -> Iterator[Sink]:
    """Gives `sink(text, transient)`; transient texts appear on a live terminal only. NO_COLOR is obeyed by rich."""
    if not stream.isatty():

        def plain(text: str, transient: bool) -> None:
            if not transient:
                print(text, file=stream, flush=True)

        yield plain
        return

    from rich.console import Console
    from rich.markup import escape
    from rich.status import Status

    console = Console(file=stream, highlight=False)
    print(file=stream)
    with Status("starting", console=console, refresh_per_second=4) as status:

        def live(text: str, transient: bool) -> None:
            if transient:
                status.update(escape(text))
            else:
                console.print(escape(text))
                status.update(escape(text))

        yield live
