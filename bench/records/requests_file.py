"""requests.jsonl: every request of a run as the figures saw it, one JSON line each; made of the evidence, for readers."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, fields
from pathlib import Path

from bench.errors import EvidenceError
from bench.records.schema import RequestRecord
from bench.records.snapshot import write_atomically

NAME = "requests.jsonl"
_KEYS = {item.name for item in fields(RequestRecord)}


def lines_of(requests: Iterable[RequestRecord]) -> bytes:
    """The content of the file: the same requests give the same bytes."""
    text = "".join(
        json.dumps(asdict(one), ensure_ascii=False, allow_nan=False, separators=(",", ":")) + "\n" for one in requests
    )
    return text.encode("utf-8", "replace")  # an engine's text may hold half a character


def write_requests(folder: Path, requests: Iterable[RequestRecord]) -> None:
    """Writes the file of a run, whole or not at all."""
    write_atomically(folder / NAME, lines_of(requests))


def read_requests(folder: Path) -> tuple[RequestRecord, ...]:
    """The requests of a run in order. Raises EvidenceError where there is no such file or it is damaged."""
    place = folder / NAME
    found = []
    try:
        with place.open("rb") as stream:
            for number, line in enumerate(stream, 1):
                data = json.loads(line)
                if not isinstance(data, dict) or set(data) != _KEYS:
                    raise EvidenceError(f"{place}: line {number} is no request of this format")
                found.append(RequestRecord(**data))
    except FileNotFoundError:
        raise EvidenceError(f"{folder.name}: no {NAME}; it is written together with the record") from None
    except (OSError, ValueError) as error:
        raise EvidenceError(f"{place}: line {len(found) + 1} cannot be read ({error})") from error
    return tuple(found)
