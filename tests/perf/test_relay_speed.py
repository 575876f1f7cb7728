"""What the relay costs, beside a direct connection and a bare pump of bytes, each a process of its own.

Nothing is asserted about time; aims stand in the docstrings, what came out in the tables and in `extra_info`.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from statistics import median, quantiles

import pytest

from tests.whole.running import REPOSITORY

FIRST_MS, EACH_MS = 20, 5
ROUNDS = 500


class Part:
    """One of the processes of `relay_parts.py`."""

    def __init__(self, *arguments: object) -> None:
        argv = [sys.executable, "-m", "tests.perf.relay_parts", *map(str, arguments)]
        self._process = subprocess.Popen(argv, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.port: int = self._heard()["port"]

    def _heard(self) -> dict:
        return json.loads(self._process.stdout.readline())

    def tell(self, word: str = "used") -> dict:
        self._process.stdin.write(word + "\n")
        self._process.stdin.flush()
        return self._heard()

    def next_session(self) -> None:
        self.port = self.tell("next")["port"]

    def close(self) -> None:
        self._process.stdin.close()
        assert self._process.wait(30) == 0
        self._process.stdout.close()


@pytest.fixture
def part() -> Iterator[Callable[..., Part]]:
    started: list[Part] = []

    def start(*arguments: object) -> Part:
        started.append(Part(*arguments))
        return started[-1]

    yield start
    for one in reversed(started):
        one.close()


def request(tokens: int) -> bytes:
    body = json.dumps(
        {
            "model": "small",
            "stream": True,
            "max_tokens": tokens,
            "messages": [{"role": "user", "content": "why? " * 80}],
        }
    ).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def ask(port: int, asked: bytes) -> float:
    """Has one answer to its end; returns how much of the time to the first token lay outside the engine, in ms."""
    got, first_at = b"", 0.0
    with socket.create_connection(("127.0.0.1", port)) as connection:
        sent_at = time.monotonic()
        connection.sendall(asked)
        while data := connection.recv(65_536):
            if not first_at and b'"finish_reason"' in got + data:
                first_at = time.monotonic()
            got += data
    assert got.endswith(b"0\r\n\r\n"), got[-200:]
    had_at, made_at = map(float, got.partition(b'"content":"')[2].partition(b'"')[0].split())
    return (first_at - sent_at - (made_at - had_at)) * 1e3


def at_once(streams: int, rounds: int, port: int, asked: bytes) -> float:
    """Seconds for `rounds` answers to each of so many clients."""
    started_at = time.monotonic()
    with ThreadPoolExecutor(streams) as pool:
        for done in [pool.submit(lambda: [ask(port, asked) for _ in range(rounds)]) for _ in range(streams)]:
            done.result()
    return time.monotonic() - started_at


def show(benchmark, capsys, title: str, rows: dict[str, dict[str, float]]) -> None:
    benchmark.extra_info.update(rows)
    with capsys.disabled():
        print(f"\n{title}")
        for name, cells in rows.items():
            shown = "  ".join(f"{key} {value:,.3f}".rstrip("0").rstrip(".") for key, value in cells.items())
            print(f"  {name:24} {shown}")


def test_time_to_first_token(benchmark, capsys, part, tmp_path):
    """Aim: the relay adds at most 0.3 ms at the median and 1.5 ms at p99 to what a direct connection takes.

    A request each by turns, on an engine that says itself how long it took. The busy neighbour is a thread in the
    relay's process that never rests, as no harness does.
    """
    engine = part("engine", FIRST_MS, EACH_MS)
    ways = {"direct": engine, "pump": part("pump", engine.port), "relay": part("relay", engine.port, tmp_path)}
    (tmp_path / "busy").mkdir()
    ways["relay, busy neighbour"] = part("relay", engine.port, tmp_path / "busy")
    ways["relay, busy neighbour"].tell("busy")
    asked = request(2)
    outside: dict[str, list[float]] = {name: [] for name in ways}

    def run():
        for _ in range(ROUNDS):
            for name, way in ways.items():
                outside[name].append(ask(way.port, asked))

    benchmark.pedantic(run, rounds=1)
    rows = {}
    for name, values in outside.items():
        rows[name] = {"median_ms": median(values), "p99_ms": quantiles(values, n=100)[98]}
        for key in ("median_ms", "p99_ms"):
            rows[name][f"added_{key}"] = rows[name][key] - rows["direct"][key]
    show(benchmark, capsys, "Time to first token outside the engine", rows)


@pytest.mark.parametrize("paced", [False, True], ids=["in one go", "paced"])
def test_cpu_of_a_response_of_fifty_chunks(benchmark, capsys, part, tmp_path, paced):
    """Aim: at most 0.5 ms a response in one go, evidence included, where the bare pump needs 0.26.

    Paced, each chunk wakes the relay: what the system takes for that is then most of it, and the pump's as well.
    """
    engine = part("engine", *((FIRST_MS, EACH_MS) if paced else (0, 0)))
    ways = {"pump": part("pump", engine.port), "relay": part("relay", engine.port, tmp_path)}
    rounds, asked = (15 if paced else 250), request(50)
    used: dict[str, list[float]] = {name: [] for name in ways}

    def run():
        for _ in range(4):
            for name, way in ways.items():
                before = way.tell()["cpu_seconds"]
                at_once(4, rounds, way.port, asked)
                used[name].append((way.tell()["cpu_seconds"] - before) / (4 * rounds) * 1e3)

    benchmark.pedantic(run, rounds=1)
    rows = {name: {"cpu_ms": median(values), "least_ms": min(values)} for name, values in used.items()}
    show(benchmark, capsys, f"CPU of one response of 50 chunks, {'paced' if paced else 'in one go'}", rows)


@pytest.mark.parametrize("paced", [False, True], ids=["in one go", "paced"])
def test_sixty_four_streams(benchmark, capsys, part, tmp_path, paced):
    """Aim: no less than 70 % of the bare pump's rate, at 50 tokens a stream."""
    engine = part("engine", *((FIRST_MS, EACH_MS) if paced else (0, 0)))
    ways = {
        "direct": engine,
        "pump": part("pump", engine.port),
        "relay": part("relay", engine.port, tmp_path),
    }
    asked, rounds = request(50), (3 if paced else 10)
    rates: dict[str, list[float]] = {name: [] for name in ways}

    def run():
        for _ in range(3):
            for name, way in ways.items():
                rates[name].append(64 * rounds * 50 / at_once(64, rounds, way.port, asked))

    benchmark.pedantic(run, rounds=1)
    rows = {name: {"tokens_a_second": median(values)} for name, values in rates.items()}
    for cells in rows.values():
        cells["percent_of_pump"] = 100 * cells["tokens_a_second"] / rows["pump"]["tokens_a_second"]
    show(benchmark, capsys, f"64 streams of 50 tokens, {'paced' if paced else 'in one go'}", rows)


@pytest.mark.parametrize("sessions", [True, False], ids=["sessions of 1,000", "one session"])
def test_memory_over_many_requests(benchmark, capsys, part, tmp_path, sessions):
    """Aim: under 100 MB at 100,000 requests. Stops after 50 seconds and says what the slope makes of 100,000."""
    engine = part("engine", 0, 0)
    relay = part("relay", engine.port, tmp_path)
    asked = request(2)
    resident: list[tuple[int, float]] = []

    def run():
        started_at, done = time.monotonic(), 0
        with ThreadPoolExecutor(4) as pool:
            while done < 100_000 and time.monotonic() - started_at < 50:
                port = relay.port
                list(pool.map(lambda _, to=port: ask(to, asked), range(1000)))
                done += 1000
                resident.append((done, relay.tell()["resident_bytes"] / 1e6))
                if sessions:
                    relay.next_session()

    benchmark.pedantic(run, rounds=1)
    (early, first), (last, most) = resident[min(1, len(resident) - 1)], resident[-1]
    slope = (most - first) / max(1, last - early)
    row = {"requests": last, "resident_mb": most, "mb_a_1000_requests": 1000 * slope}
    row["mb_at_100_000"] = most + slope * (100_000 - last)
    show(
        benchmark,
        capsys,
        "Memory of the relay's process",
        {"relay, " + ("sessions" if sessions else "one session"): row},
    )
