"""Text that an agent or its project wrote, made fit for a prompt or the journal: valid, without control codes, capped."""

from __future__ import annotations

import re

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def tame(text: str, characters: int) -> str:
    """The text without unpaired surrogates and control characters; of too long a text its head and tail, and the gap."""
    clean = _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))
    if len(clean) <= characters:
        return clean
    head = characters // 3
    tail = characters - head
    return f"{clean[:head]}\n[... {len(clean) - characters:,} characters left out ...]\n{clean[-tail:]}"
