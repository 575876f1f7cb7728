"""One question to an engine over HTTP, with its key where it has one. The key is never shown, not even by `repr`."""

from __future__ import annotations

import http.client
import json
import socket
from contextlib import suppress
from dataclasses import dataclass
from threading import Timer
from typing import Any

_MAX_BODY_BYTES = 4_000_000
_SHORTEST_KEY = 8
"""A shorter key is no secret, and a word that answers may well hold."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One HTTP answer; `status` None: nothing answered."""

    status: int | None
    body: bytes = b""

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")

    def json(self) -> Any:
        """The parsed body; None where it is not JSON."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return None


class Endpoint:
    """Where an engine answers: host, port and, unseen, its key."""

    def __init__(self, host: str, port: int, *, api_key: str | None = None) -> None:
        self.host = host
        self.port = port
        self._api_key = api_key

    def __repr__(self) -> str:
        return f"Endpoint({self.host}:{self.port}, {'with' if self._api_key else 'without'} a key)"

    @property
    def has_key(self) -> bool:
        return self._api_key is not None

    def ask(self, method: str, path: str, body: object = None, *, seconds: float = 5.0) -> Answer:
        """One request over a connection of its own; `body` is sent as JSON.

        What has not answered whole after `seconds`, however its bytes trickle in, gives status None.
        """
        headers = {"Authorization": f"Bearer {self._api_key}"} if self._api_key else {}
        content = None
        if body is not None:
            content = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        connection = http.client.HTTPConnection(self.host, self.port, timeout=seconds)
        deadline = Timer(seconds, _break_off, (connection,))
        deadline.start()
        try:
            connection.request(method, path, content, headers)
            response = connection.getresponse()
            return Answer(status=response.status, body=self._struck(response.read(_MAX_BODY_BYTES)))
        except (OSError, http.client.HTTPException):
            # Refused, reset or half an answer: a server that is starting does all of these.
            return Answer(status=None)
        finally:
            deadline.cancel()
            connection.close()

    def _struck(self, body: bytes) -> bytes:
        """The body with the key struck out: what an engine tells of itself is shown and kept."""
        key = self._api_key or ""
        if len(key) < _SHORTEST_KEY:
            return body
        escaped = json.dumps(key)[1:-1]
        for form in (key, escaped, key.replace("/", "\\/"), escaped.replace("/", "\\/")):
            body = body.replace(form.encode(), b"*" * len(form))
        return body


def _break_off(connection: http.client.HTTPConnection) -> None:
    """Wakes whoever waits for this connection's bytes: a time limit of its own counts from each byte anew."""
    if connection.sock is not None:
        with suppress(OSError):
            connection.sock.shutdown(socket.SHUT_RDWR)
