"""Which API is spoken on which path: how its requests are read and how its answers are written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bench.engines.embedded.answer_writers import BodyWriter, Connection, Head, StreamWriter, Writer
from bench.engines.embedded.chat_request import ChatRequest, read_chat_request
from bench.engines.embedded.responses_request import read_responses_request
from bench.engines.embedded.responses_writer import ResponseBodyWriter, ResponseStreamWriter


@dataclass(frozen=True, kw_only=True)
class WireForm:
    """One API. Between its two ends all requests are the same."""

    prefix: str
    """How the ids of its answers begin."""

    prompt_key: str
    """The key of a request that holds the prompt."""

    read: Callable[[bytes], ChatRequest]
    """Raises Refusal (400)."""

    writer: Callable[[ChatRequest, Connection, Head], Writer]

    def response_id(self, launch: str, number: int) -> str:
        return f"{self.prefix}{launch}{self.prefix[-1]}{number:06d}"


def _chat_writer(request: ChatRequest, connection: Connection, head: Head) -> Writer:
    if request.stream:
        return StreamWriter(connection, head, include_usage=request.include_usage)
    return BodyWriter(connection, head)


def _responses_writer(request: ChatRequest, connection: Connection, head: Head) -> Writer:
    return ResponseStreamWriter(connection, head) if request.stream else ResponseBodyWriter(connection, head)


FORMS = {
    "/v1/chat/completions": WireForm(
        prefix="chatcmpl-", prompt_key="messages", read=read_chat_request, writer=_chat_writer
    ),
    "/v1/responses": WireForm(
        prefix="resp_", prompt_key="input", read=read_responses_request, writer=_responses_writer
    ),
}
