"""A reviewer's verdict: the last line of its final answer, or none at all. Never guessed, never ACCEPT by default."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

_LINES: dict[str, Literal["ACCEPT", "CHANGES"]] = {"VERDICT: ACCEPT": "ACCEPT", "VERDICT: CHANGES": "CHANGES"}
_EMPHASIS = str.maketrans("", "", "*_`")


@dataclass(frozen=True, kw_only=True)
class Verdict:
    verdict: Literal["ACCEPT", "CHANGES"]
    reasons: str
    """The text above the verdict line."""


def read_verdict(final_text: str) -> Verdict | None:
    """The verdict of a final answer, or None.

    The last line that says anything must be `VERDICT: ACCEPT` or `VERDICT: CHANGES`, letter for letter. Markdown
    around the words (`**`, `_`, backticks, a closing fence) says nothing and is passed over; a full stop, other words
    on the line, lower case or text below it is no verdict.
    """
    lines = final_text.splitlines()
    while lines and not lines[-1].translate(_EMPHASIS).strip():
        lines.pop()
    if not lines:
        return None
    verdict = _LINES.get(lines[-1].translate(_EMPHASIS).strip())
    return None if verdict is None else Verdict(verdict=verdict, reasons="\n".join(lines[:-1]).strip())
