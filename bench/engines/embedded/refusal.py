"""How the embedded engine says no: an HTTP status and OpenAI's error object."""

from __future__ import annotations

from typing import Any


class Refusal(Exception):  # noqa: N818 - an answer that the protocol foresees, not a fault of this program
    """A request that is answered with an error instead of tokens."""

    def __init__(
        self,
        status: int,
        kind: str,
        message: str,
        *,
        code: str | int | None = None,
        param: str | None = None,
        retry_after_seconds: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.message = message
        self.code = code
        self.param = param
        self.retry_after_seconds = retry_after_seconds
        """What the header `Retry-After` says; None: there is none."""

    def body(self) -> dict[str, Any]:
        """The JSON answer."""
        return {"error": {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}}


class ClientGoneError(Exception):
    """The client closed its connection, or the engine is being stopped, before the answer was whole."""


def bad_request(message: str, *, param: str | None = None) -> Refusal:
    return Refusal(400, "invalid_request_error", message, param=param)


def context_exceeded(prompt_tokens: int, context_window: int, *, param: str) -> Refusal:
    """The prompt leaves no room for even one output token."""
    return Refusal(
        400,
        "invalid_request_error",
        f"This prompt has {prompt_tokens} tokens; the context window holds {context_window} tokens, output included.",
        code="context_length_exceeded",
        param=param,
    )


def out_of_memory(needed_bytes: int, free_bytes: int) -> Refusal:
    """The prompt's new state does not fit into what is free."""
    return Refusal(
        400,
        "insufficient_memory",
        f"Not enough memory for this prompt: its state needs {needed_bytes} bytes more, {free_bytes} bytes are free.",
        code="insufficient_memory",
    )
