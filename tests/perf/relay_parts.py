"""The processes of the relay's speed tests: `python -m tests.perf.relay_parts engine|pump|relay ...`.

Each prints the port that it listens on, then answers every line on its standard input with what it has used so far,
as JSON, and ends when its standard input does.

    engine FIRST_MS EACH_MS   a chunk says when the engine had the request and when it sent the chunk (same machine,
                              same monotonic clock), so that a client knows what lay outside the engine
    pump PORT                 bytes both ways between a client and PORT, nothing else
    relay PORT FOLDER         bench's relay before PORT; `next` on standard input opens the next session
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import resource
import sys
import threading
import time
from pathlib import Path

from bench.contracts import SessionLabel
from bench.measure.relay import Relay

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
WORDS = ("the ", "cache ", "holds ", "a ", "prefix ", "of ", "tokens, ", "and ", "\\n", "reuse ")


def framed(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def event(text: str, finish: str = "null") -> bytes:
    return (
        'data: {"id":"chatcmpl-a1b2c3d4e5f6","object":"chat.completion.chunk","created":1700000000,"model":"small",'
        f'"choices":[{{"index":0,"delta":{{"content":"{text}"}},"finish_reason":{finish}}}]}}\n\n'
    ).encode()


END = framed(event("", '"stop"')) + framed(
    b'data: {"id":"chatcmpl-a1b2c3d4e5f6","object":"chat.completion.chunk","created":1700000000,"model":"small",'
    b'"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":50,"total_tokens":60,'
    b'"prompt_tokens_details":{"cached_tokens":4}},"timings":{"prompt_n":6,"prompt_ms":20.0,"predicted_ms":250.0}}\n\n'
)
END += framed(b"data: [DONE]\n\n") + b"0\r\n\r\n"


class Answering(asyncio.Protocol):
    """One connection of the engine: `"max_tokens": N` chunks, paced."""

    def __init__(self, first_seconds: float, each_seconds: float) -> None:
        self.first_seconds, self.each_seconds = first_seconds, each_seconds
        self.got, self.left = b"", 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.got += data
        head, end, body = self.got.partition(b"\r\n\r\n")
        if not end or len(body) < int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0]):
            return
        self.at = time.monotonic()
        self.left = self.tokens = json.loads(body)["max_tokens"]
        self.loop = asyncio.get_running_loop()
        self.transport.write(HEAD)
        if self.each_seconds or self.first_seconds:
            self.due = self.loop.time() + self.first_seconds
            self.loop.call_at(self.due, self.token)
        else:
            self.transport.write(b"".join(self.chunk() for _ in range(self.tokens)) + END)
            self.transport.close()

    def chunk(self) -> bytes:
        self.left -= 1
        if self.left == self.tokens - 1:
            return framed(event(f"{self.at!r} {time.monotonic()!r}"))
        return framed(event(WORDS[self.left % len(WORDS)]))

    def token(self) -> None:
        self.transport.write(self.chunk())
        if self.left:
            self.due += self.each_seconds
            self.loop.call_at(self.due, self.token)
        else:
            self.transport.write(END)
            self.transport.close()


async def engine(first_ms: str, each_ms: str) -> None:
    seconds = float(first_ms) / 1e3, float(each_ms) / 1e3
    server = await asyncio.get_running_loop().create_server(lambda: Answering(*seconds), "127.0.0.1", 0, backlog=512)
    await serve(server)


async def pump(port: str) -> None:
    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()
            writer.write_eof()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, out = await asyncio.open_connection("127.0.0.1", int(port))
        back = asyncio.ensure_future(copy(reader, out))
        await copy(there, writer)
        back.cancel()
        for one in (out, writer):
            one.close()

    await serve(await asyncio.start_server(connected, "127.0.0.1", 0, backlog=512))


async def serve(server: asyncio.Server) -> None:
    say({"port": server.sockets[0].getsockname()[1]})
    while await asyncio.to_thread(sys.stdin.readline):
        say(used())


def relay(port: str, folder: str) -> None:
    def open_next(number: int):
        place = Path(folder) / f"{number:04d}"
        place.mkdir()
        label = SessionLabel(run_id="speed", session=number, role="builder", task=None, attempt=1, retry=0)
        return label, running.open_session(label, place)

    with Relay("127.0.0.1", int(port), api_key="sk-0123456789abcdef") as running:
        label, address = open_next(1)
        say({"port": address.port})
        for line in sys.stdin:
            if line == "next\n":
                running.close_session(label)
                label, address = open_next(label.session + 1)
                say({"port": address.port})
            elif line == "busy\n":  # a harness that never rests: the worst neighbour that the relay's thread can have
                threading.Thread(target=spin, daemon=True).start()
                say({})
            else:
                running.exchanges(label)
                say(used())


def spin() -> None:
    while True:
        json.loads(json.dumps({"a": [1, 2, 3] * 50}))


def used() -> dict[str, float]:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    status = Path("/proc/self/statm")
    resident = int(status.read_text().split()[1]) * resource.getpagesize() if status.exists() else None
    return {"cpu_seconds": usage.ru_utime + usage.ru_stime, "resident_bytes": resident}


def say(value: object) -> None:
    print(json.dumps(value), flush=True)


if __name__ == "__main__":
    kind, *rest = sys.argv[1:]
    if kind == "relay":
        relay(*rest)
    else:
        asyncio.run({"engine": engine, "pump": pump}[kind](*rest))
