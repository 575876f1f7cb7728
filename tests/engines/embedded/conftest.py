"""Starts real embedded engines, each a process of its own on a free port, and talks to them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

MODULE = [sys.executable, "-m", "bench.engines.embedded"]
HEADER = "run=demo; session=7; role={role}; task={task}; attempt={attempt}; retry={retry}"

SCRIPT = """\
about: Sessions that the tests play.
sessions:
  - role: builder
    task: T001
    turns:
      - think: "First I write the file, then I run it to see that the total comes out as the card demands."
        say: "Writing it now."
        do:
          - write: src/total.py
            from: files/total.py
          - run: "python3 src/total.py | sort -n"
      - think: "It runs. One name is unclear, so I mend it."
        do:
          - edit: src/total.py
            old: "values"
            new: "amounts"
          - read: src/total.py
      - say: "Both checks pass now."
  - role: builder
    task: T002
    turns:
      - say: "Long answer."
        do:
          - write: long.txt
            from: files/long.txt
  - role: builder
    task: T003
    retry: 0
    free_bytes: 80000
    free_bytes_from_turn: 1
    turns:
      - say: "Looking."
        do: [{read: a.txt}]
      - say: "This is never said while memory is short."
  - role: builder
    task: T003
    turns:
      - say: "Looking again."
        do: [{read: a.txt}]
      - say: "Now it fits."
  - role: reviewer
    turns:
      - say: "All checks pass.\\nVERDICT: ACCEPT"
"""

TOTAL = "values = [1, 2, 3]\n# Ünïcödé 'quotes' \"too\" \\ and \ttabs\nprint(sum(values))\n"
LONG = "".join(f"line {number} of a file that is long enough to see many steps\n" for number in range(400))


def _function(name: str, **properties: object) -> dict[str, object]:
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "function", "function": {"name": name, "description": f"{name}s", "parameters": schema}}


STRING = {"type": "string"}
TOOLS = [
    _function("read", path=STRING),
    _function("write", path=STRING, content=STRING),
    _function("edit", path=STRING, old=STRING, new=STRING),
    _function("bash", command=STRING),
]


@dataclass
class Reply:
    """A whole answer, streamed or not, in one shape."""

    body: dict
    content: str
    reasoning: str
    calls: list[dict]
    finish_reason: str | None
    usage: dict | None
    timings: dict
    events: list[dict] = field(default_factory=list)

    @property
    def counts(self) -> tuple[object, ...]:
        return (self.content, self.reasoning, [call["function"] for call in self.calls], self.finish_reason)

    def message(self, *, keep_reasoning: bool = True) -> dict:
        """The assistant message that an agent sends back."""
        message = {"role": "assistant", "content": self.content, "tool_calls": self.calls}
        return {**message, "reasoning_content": self.reasoning} if keep_reasoning else message


@dataclass
class Engine:
    process: subprocess.Popen
    url: str
    truth_file: Path
    log_file: Path
    client: httpx.Client

    def post(self, body: object, *, role="builder", task="T001", attempt=1, retry=0, **options) -> httpx.Response:
        header = HEADER.format(role=role, task=task, attempt=attempt, retry=retry)
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.client.post(
            "/v1/chat/completions", content=content, headers={"X-Runcard-Session": header}, **options
        )

    def body(self, messages: list[dict], *, stream=True, usage=True, tools=TOOLS, max_tokens=None) -> dict:
        body = {"model": "demo", "messages": messages, "tools": tools, "stream": stream, "max_tokens": max_tokens}
        return {**body, "stream_options": {"include_usage": True}} if stream and usage else body

    def ask(self, messages: list[dict], *, stream=True, usage=True, tools=TOOLS, max_tokens=None, **place) -> Reply:
        body = self.body(messages, stream=stream, usage=usage, tools=tools, max_tokens=max_tokens)
        response = self.post(body, **place)
        assert response.status_code == 200, response.text
        return _streamed(response.text) if stream else _whole(response.json())

    def truth(self) -> list[dict]:
        return [json.loads(line) for line in self.truth_file.read_text().splitlines()]

    def log(self) -> str:
        return self.log_file.read_text()

    def stop(self) -> int:
        self.client.close()
        self.process.terminate()
        return self.process.wait(10)


def _whole(body: dict) -> Reply:
    choice = body["choices"][0]
    message = choice["message"]
    return Reply(
        body=body,
        content=message["content"] or "",
        reasoning=message.get("reasoning_content", ""),
        calls=message.get("tool_calls", []),
        finish_reason=choice["finish_reason"],
        usage=body["usage"],
        timings=body["timings"],
    )


def _streamed(text: str) -> Reply:
    lines = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
    assert lines.pop() == "[DONE]"
    events = [json.loads(line) for line in lines]
    reply = Reply(
        body=events[0],
        content="",
        reasoning="",
        calls=[],
        finish_reason=None,
        usage=None,
        timings=events[-1]["timings"],
        events=events,
    )
    for event in events:
        assert event["id"] == events[0]["id"]
        reply.usage = event.get("usage", reply.usage)
        for choice in event["choices"]:
            delta = choice["delta"]
            reply.content += delta.get("content") or ""
            reply.reasoning += delta.get("reasoning_content") or ""
            reply.finish_reason = choice["finish_reason"] or reply.finish_reason
            for part in delta.get("tool_calls", []):
                if "id" in part:
                    assert part["index"] == len(reply.calls)
                    reply.calls.append({"id": part["id"], "type": "function", "function": dict(part["function"])})
                else:
                    reply.calls[part["index"]]["function"]["arguments"] += part["function"]["arguments"]
    assert [event for event in events if "timings" in event] == events[-1:]
    return reply


def make_script(root: Path) -> Path:
    folder = root / "scripts" / "demo"
    (folder / "files").mkdir(parents=True)
    (folder / "script.yaml").write_text(SCRIPT)
    (folder / "files" / "total.py").write_text(TOTAL)
    (folder / "files" / "long.txt").write_text(LONG)
    return folder


def start_engine(root: Path, script: Path, *options: str) -> Engine:
    number = len(list(root.glob("engine-*.log")))
    truth, log = root / f"truth-{number}.jsonl", root / f"engine-{number}.log"
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            [*MODULE, "--script", str(script), "--port", "0", "--truth", str(truth), *options], stderr=stderr
        )
    url = _wait_for_url(process, log)
    engine = Engine(process, url, truth, log, httpx.Client(base_url=url, timeout=30))
    _wait_until_ready(engine)
    return engine


@pytest.fixture
def script(tmp_path: Path) -> Path:
    return make_script(tmp_path)


@pytest.fixture
def launch(tmp_path: Path, script: Path) -> Iterator[Callable[..., Engine]]:
    """Starts an engine with further options; all are stopped at the end."""
    running: list[Engine] = []

    def start(*options: str) -> Engine:
        running.append(start_engine(tmp_path, script, *options))
        return running[-1]

    yield start
    for engine in running:
        engine.stop()


@pytest.fixture
def engine(launch: Callable[..., Engine]) -> Engine:
    """An engine that nobody has asked anything."""
    return launch()


@pytest.fixture(scope="session")
def used_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """One engine for all tests that do not mind what it was asked before."""
    root = tmp_path_factory.mktemp("used-engine")
    engine = start_engine(root, make_script(root))
    yield engine
    engine.stop()


def _wait_for_url(process: subprocess.Popen, log: Path) -> str:
    while process.poll() is None:
        found = re.search(r"listening on (http://\S+)", log.read_text())
        if found:
            return found[1]
        time.sleep(0.005)
    raise AssertionError(log.read_text())


def _wait_until_ready(engine: Engine) -> None:
    while engine.process.poll() is None:
        response = engine.client.get("/health")
        if response.status_code == 200:
            assert response.json() == {"status": "ok"}
            return
        assert response.status_code == 503
        time.sleep(0.005)
    raise AssertionError(engine.log())
