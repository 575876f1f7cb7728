"""Which session asks: the harness's `X-Runcard-Session` header, read back."""

from __future__ import annotations

from dataclasses import dataclass

from bench.contracts import SESSION_HEADER
from bench.engines.embedded.refusal import bad_request


@dataclass(frozen=True, kw_only=True)
class SessionPlace:
    """A place in a script, apart from the turn."""

    role: str
    task: str | None
    attempt: int
    retry: int


def read_session_place(header: str | None) -> SessionPlace | None:
    """None without the header. Raises Refusal (400) for one that does not have the harness's form."""
    if header is None:
        return None
    fields = {}
    for part in header.split(";"):
        key, equals, value = part.strip().partition("=")
        if not equals or key in fields:
            raise _malformed(header)
        fields[key] = value
    try:
        return SessionPlace(
            role=fields["role"],
            task=None if fields["task"] == "-" else fields["task"],
            attempt=int(fields["attempt"]),
            retry=int(fields["retry"]),
        )
    except (KeyError, ValueError) as error:
        raise _malformed(header) from error


def _malformed(header: str) -> Exception:
    form = "run=ID; session=7; role=builder; task=T003; attempt=1; retry=0"
    return bad_request(f"Header {SESSION_HEADER} is {header[:200]!r}; expected the form {form!r}.")
