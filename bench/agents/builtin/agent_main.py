"""The embedded coding agent: one file, standard library only, one process a session, the project as working directory.

    python3 -I -S agent_main.py --url unix:///run/relay.sock --model NAME --max-tokens N --max-requests N < prompt

Every event is one JSON line on standard output; `adapter.py` beside it lists and reads them. Nothing is ever asked
twice: a benchmark must see an engine's fault, not its repetition. Exit codes: 0 done, 2 wrong call, 3 engine-error,
4 length or limit, 5 agent-error. It imports nothing of its package, which does not exist in a box, and runs on
Python 3.9; what it does not need at once it imports late, for a session may last a tenth of a second.
"""
# ruff: noqa: PTH103, PTH110, PTH116, PTH118, PTH120, PTH123

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import select
import signal
import stat
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from http.client import HTTPResponse
    from subprocess import Popen
    from typing import Any

NAME = "builtin"
VERSION = "1.0"
EXIT_CODES = {"done": 0, "engine-error": 3, "length": 4, "limit": 4, "agent-error": 5}
RESULT_CHARACTERS = 30_000  # a tool's answer is sent again with every later request of the session
FILE_BYTES = 10_000_000
ANSWER_BYTES = 32_000_000
BASH_SECONDS = 120
BASH_SECONDS_MAX = 600
FAILING_TURNS = 5  # so many identical turns in a row in which every call failed end the session

SYSTEM_PROMPT = """\
You are a coding agent. You work alone on the project in the current directory; nobody answers questions.
Tools: read, write, edit, bash. Paths are relative to the project; nothing outside it exists for you.
Look before you change. Run the project's own checks and read what they say.
Send long command output to a file and read only the part you need.
When the work is finished, answer without a tool call: that answer is your report."""

TOOLS = {  # name: parameters (`?`: may be left out), what it does
    "read": ("path offset? limit?", "Read a text file, or limit lines of it from line offset on (the first is 1)."),
    "write": ("path content", "Write a whole file; folders are made, an existing file is replaced."),
    "edit": ("path old new", "Replace text in a file; old must occur in it exactly once."),
    "bash": ("command timeout?", "Run a shell command for at most timeout (120, up to 600) seconds."),
}
WHOLE_NUMBERS = ("offset", "limit", "timeout")


def tool_schema(name: str) -> dict[str, Any]:
    """One tool as a request offers it."""
    parameters, description = TOOLS[name]
    keys = parameters.replace("?", "").split()
    schema = {
        "type": "object",
        "properties": {key: {"type": "integer" if key in WHOLE_NUMBERS else "string"} for key in keys},
        "required": [key for key in parameters.split() if not key.endswith("?")],
    }
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


def emit(event: str, **fields: Any) -> None:
    """One event, one line, at once. ASCII only, so that no reader depends on an encoding."""
    sys.stdout.buffer.write((json.dumps({"type": event, **fields}, separators=(",", ":")) + "\n").encode("ascii"))
    sys.stdout.buffer.flush()


class EngineFault(Exception):  # noqa: N818 - the fault is the engine's
    """The engine gave no whole answer. args: message, HTTP status or None, the engine's own error type or None."""


class Answer:
    """One assistant message, put together from the pieces of a stream (or from one whole body)."""

    def __init__(self) -> None:
        self.id: str | None = None
        self.text = ""
        self.reasoning: dict[str, str] = {}  # under the engine's own key, so that it finds its words again
        self.calls: list[dict[str, str]] = []
        self.finish_reason: str | None = None
        self.usage: dict[str, Any] | None = None
        self.fault: EngineFault | None = None

    def add(self, piece: Any) -> None:
        if not isinstance(piece, dict) or piece.get("error"):
            self.fault = self.fault or fault_of(piece, 200)
            return
        self.id = self.id or text_of(piece.get("id")) or None
        self.usage = mapping_of(piece.get("usage")) or self.usage
        choices = piece.get("choices")
        choice = mapping_of(choices[0]) if isinstance(choices, list) and choices else {}
        delta = mapping_of(choice.get("delta") or choice.get("message"))
        self.text += text_of(delta.get("content"))
        for key in ("reasoning_content", "reasoning"):
            if text_of(delta.get(key)):
                self.reasoning[key] = self.reasoning.get(key, "") + delta[key]
        calls = delta.get("tool_calls")
        for part in calls if isinstance(calls, list) else ():
            self.add_call(mapping_of(part))
        self.finish_reason = text_of(choice.get("finish_reason")) or self.finish_reason

    def add_call(self, part: dict[str, Any]) -> None:
        index = part.get("index")
        if not isinstance(index, int) or not 0 <= index <= len(self.calls):
            # Engines that send whole calls may leave the index out: a new id begins a new call.
            index = len(self.calls) if part.get("id") or not self.calls else len(self.calls) - 1
        if index == len(self.calls):
            self.calls.append({"id": text_of(part.get("id")) or f"call_{index}", "name": "", "arguments": ""})
        function = mapping_of(part.get("function"))
        self.calls[index]["name"] += text_of(function.get("name"))
        self.calls[index]["arguments"] += text_of(function.get("arguments"))

    def message(self) -> dict[str, Any]:
        """The message as later requests repeat it. Engines parse a history's arguments and answer 500 to cut ones."""
        message: dict[str, Any] = {"role": "assistant", "content": self.text, **self.reasoning}
        for call in self.calls:
            arguments = "{}" if arguments_of(call) is None else call["arguments"]
            function = {"name": call["name"], "arguments": arguments}
            message.setdefault("tool_calls", []).append({"id": call["id"], "type": "function", "function": function})
        return message


def ask(url: str, body: dict[str, Any], answer: Answer) -> None:
    """Sends one request and reads its answer to the end. Raises EngineFault; never tries again."""
    sys.modules.setdefault("ssl", None)  # type: ignore[arg-type]  # there is no TLS here, and ssl is a third of it
    import http.client
    import socket

    status: int | None = None
    content = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    # No time limit anywhere: the harness owns those.
    connection = http.client.HTTPConnection(url[7:].rstrip("/") if url.startswith("http://") else "localhost")
    try:
        if url.startswith("unix://"):
            connection.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            connection.sock.connect(url[7:])
        connection.request("POST", "/v1/chat/completions", content, {"Content-Type": "application/json"})
        response = connection.getresponse()
        status = response.status
        if status != 200:
            raise fault_of(response.read(1_000_000).decode("utf-8", "replace"), status)
        streamed = "event-stream" in (response.getheader("Content-Type") or "")
        for data in stream_data(response) if streamed else (response.read(ANSWER_BYTES),):
            answer.add(json.loads(data))
        if answer.fault:  # not before its end: who hangs up early hides from the relay what was wrong
            raise answer.fault
    except (OSError, http.client.HTTPException) as error:
        raise EngineFault(f"{type(error).__name__}: {error}", status, None) from error
    except (ValueError, RecursionError) as error:
        raise EngineFault(f"the answer is no JSON: {error}", status, None) from error
    finally:
        connection.close()
    if answer.finish_reason is None or (answer.finish_reason == "tool_calls" and not answer.calls):
        cut = "finish_reason" if answer.finish_reason is None else "tool call that its finish_reason speaks of"
        raise EngineFault(f"the answer ended without a {cut}", status, None)


def stream_data(response: HTTPResponse) -> Iterator[bytes]:
    """The data of each server-sent event up to `[DONE]` or the end; comments and other fields are passed over."""
    data: list[bytes] = []
    while True:
        line = response.readline(ANSWER_BYTES)
        if line.startswith(b"data:"):
            data.append(line[5:].strip())
        elif not line.strip() and data:
            if data == [b"[DONE]"]:
                return
            yield b"\n".join(data)
            data = []
        if not line:
            return


def fault_of(body: Any, status: int) -> EngineFault:
    """What an engine's error answer says: OpenAI's `error` object, a string, or any other text."""
    if isinstance(body, str):
        with contextlib.suppress(ValueError, RecursionError):
            body = json.loads(body)
    said = mapping_of(body).get("error") or body
    kind = text_of(mapping_of(said).get("type")) or text_of(mapping_of(said).get("code")) or None
    message = text_of(said) or text_of(mapping_of(said).get("message")) or json.dumps(said)
    return EngineFault(message[:4000], status, kind)


def text_of(value: Any) -> str:
    return value if isinstance(value, str) else ""


def mapping_of(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


class ToolFault(Exception):  # noqa: N818 - told to the model, and to nobody else
    """A tool call that cannot be carried out; its text is the model's answer."""


def run_tool(root: str, call: dict[str, str]) -> tuple[bool, str]:
    """Carries out one call in the project `root`. Returns whether it worked, and what the model is told."""
    tools: dict[str, Callable[..., tuple[bool, str]]] = {"read": read, "write": write, "edit": edit, "bash": bash}
    try:
        arguments = checked_arguments(call)
        return tools[call["name"]](root, **arguments)
    except (ToolFault, ValueError) as error:
        return False, f"error: {error}"
    except OSError as error:
        return False, f"error: {error.strerror or error}"


def arguments_of(call: dict[str, str]) -> dict[str, Any] | None:
    """The arguments of a call; None when they are no JSON object. An empty text counts as {}."""
    try:
        arguments = json.loads(call["arguments"].strip() or "{}")
    except (ValueError, RecursionError):
        return None
    return arguments if isinstance(arguments, dict) else None


def checked_arguments(call: dict[str, str]) -> dict[str, Any]:
    if call["name"] not in TOOLS:
        raise ToolFault(f"there is no tool '{call['name'][:80]}'; tools: {', '.join(TOOLS)}")
    given = arguments_of(call)
    if given is None:
        raise ToolFault(f"the arguments are no JSON object: {call['arguments'][:200]}")
    arguments: dict[str, Any] = {}
    for parameter in TOOLS[call["name"]][0].split():
        key = parameter.rstrip("?")
        value, kind = given.get(key), int if key in WHOLE_NUMBERS else str
        if value is None and key == parameter:
            raise ToolFault(f"{key} is missing; parameters of {call['name']}: {TOOLS[call['name']][0]}")
        if value is not None and type(value) is not kind:
            raise ToolFault(f"{key} must be {'a whole number' if kind is int else 'a string'}")
        if value is not None:
            arguments[key] = value
    return arguments


def inside(root: str, path: str) -> str:
    """The real path of `path`, links followed, which must lie in the project and be a regular file or not exist."""
    real = os.path.realpath(os.path.join(root, path))
    if real != root and not real.startswith(root.rstrip("/") + "/"):
        raise ToolFault(f"{path} lies outside the project; only files inside it can be used")
    if os.path.exists(real) and not stat.S_ISREG(os.stat(real).st_mode):
        raise ToolFault(f"{path} is no regular file")
    return real


def text_in(root: str, path: str) -> str:
    with open(inside(root, path), "rb") as file:
        data = file.read(FILE_BYTES + 1)
    if len(data) > FILE_BYTES:
        raise ToolFault(f"{path} is larger than {FILE_BYTES:,} bytes: look at parts of it with bash")
    return data.decode("utf-8")


def read(root: str, path: str, offset: int = 1, limit: int | None = None) -> tuple[bool, str]:
    lines = list(io.StringIO(text_in(root, path)))
    first = max(offset, 1) - 1
    last = len(lines) if limit is None else min(first + max(limit, 0), len(lines))
    text = "".join(lines[first:last])
    if len(text) > RESULT_CHARACTERS:
        at = first + text.count("\n", 0, RESULT_CHARACTERS) + 1
        return True, f"{text[:RESULT_CHARACTERS]}\n[cut in line {at} of {len(lines)}; use offset and limit]"
    return True, text if last == len(lines) else f"{text}\n[lines {first + 1}-{last} of {len(lines)}]"


def write(root: str, path: str, content: str) -> tuple[bool, str]:
    real = inside(root, path)
    data = content.encode("utf-8")
    os.makedirs(os.path.dirname(real), exist_ok=True)
    with open(real, "wb") as file:
        file.write(data)
    return True, f"wrote {len(data):,} bytes to {path}"


def edit(root: str, path: str, old: str, new: str) -> tuple[bool, str]:
    text = text_in(root, path)
    found = text.count(old) if old else 0
    if found != 1:
        raise ToolFault(f"old occurs {found} times in {path}; it must occur exactly once")
    return write(root, path, text.replace(old, new))


def bash(root: str, command: str, timeout: int = BASH_SECONDS) -> tuple[bool, str]:
    import subprocess

    seconds = min(max(timeout, 1), BASH_SECONDS_MAX)
    argv = ["/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh", "-c", command]
    out, err = subprocess.PIPE, subprocess.STDOUT
    process = subprocess.Popen(argv, cwd=root, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True)
    try:
        output, in_time = collect(process, time.monotonic() + seconds)
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):  # the whole group has ended by itself
            os.killpg(process.pid, signal.SIGKILL)
        code = process.wait()
    if not in_time:
        return False, f"{output}\n[killed after {seconds} s]"
    return code == 0, output if code == 0 else f"{output}\n[exit code {code}]"


def collect(process: Popen[bytes], deadline: float) -> tuple[str, bool]:
    """Output until the command ends, cut in its middle; False when the deadline came first.

    A child left in the background may hold the pipe open: the end of the command counts, not that of the pipe.
    """
    half = RESULT_CHARACTERS // 2
    head, tail, total, ended = b"", b"", 0, False
    with process.stdout as pipe:  # type: ignore[union-attr]
        while time.monotonic() < deadline:
            ready = select.select([pipe], [], [], 0.0 if ended else 0.05)[0]
            data = os.read(pipe.fileno(), 65536) if ready else b""
            if ended and not data:
                break
            total += len(data)
            room = half - len(head)
            head, tail = head + data[:room], (tail + data[room:])[-half:]
            ended = process.poll() is not None
            if ready and not data and not ended:
                time.sleep(0.001)  # it closed its output: only its end is left to wait for
    note = f"\n[... {total - 2 * half:,} bytes left out ...]\n".encode() if total > 2 * half else b""
    return (head + note + tail).decode("utf-8", "replace"), ended


def work(options: argparse.Namespace, prompt: str) -> tuple[str, str, str, int]:
    """The session. Returns the end's reason, a detail, the last answer's text and the number of requests."""
    root = os.path.realpath(".")
    messages = [{"role": "system", "content": SYSTEM_PROMPT}, {"role": "user", "content": prompt}]
    body = {
        "model": options.model,
        "messages": messages,
        "tools": [tool_schema(name) for name in TOOLS],
        "max_tokens": options.max_tokens,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    text, last_turn, failing = "", None, 0
    for index in range(options.max_requests):
        emit("request", index=index, messages=len(messages))
        answer = Answer()
        try:
            ask(options.url, body, answer)
        except EngineFault as fault:
            message, status, kind = fault.args
            emit("error", index=index, id=answer.id, status=status, message=message, error_type=kind)
            return "engine-error", message, answer.text or text, index + 1
        text = answer.text
        facts = {"id": answer.id, "finish_reason": answer.finish_reason, "usage": answer.usage}
        emit("response", index=index, **facts, text=text, tool_calls=answer.calls)
        if answer.finish_reason == "length":
            return "length", f"an answer was cut at {options.max_tokens} tokens", text, index + 1
        if not answer.calls:
            return "done", "", text, index + 1
        messages.append(answer.message())
        all_failed = True
        for call in answer.calls:
            started = time.monotonic()
            ok, result = run_tool(root, call)
            seconds = round(time.monotonic() - started, 6)
            emit("tool", index=index, name=call["name"], ok=ok, seconds=seconds, characters=len(result))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
            all_failed = all_failed and not ok
        turn = [(call["name"], call["arguments"]) for call in answer.calls]
        failing = (failing + 1 if turn == last_turn else 1) if all_failed else 0
        last_turn = turn
        if failing >= FAILING_TURNS:
            return "agent-error", f"tool-loop: the same calls failed {failing} times in a row", text, index + 1
    return "limit", f"{options.max_requests} requests", text, options.max_requests


def main() -> int:
    parser = argparse.ArgumentParser(description="Embedded coding agent; the prompt is read from standard input.")
    parser.add_argument("--url", required=True, help="unix:///PATH or http://HOST:PORT, without /v1")
    parser.add_argument("--model", required=True)
    parser.add_argument("--max-tokens", type=int, required=True, help="of one answer")
    parser.add_argument("--max-requests", type=int, required=True, help="of the session")
    parser.add_argument("--context-window", type=int, help="what the engine grants, for the record")
    options = parser.parse_args()
    if not options.url.startswith(("unix://", "http://")):
        parser.error(f"--url {options.url}: expected unix:///PATH or http://HOST:PORT")
    if sys.platform == "linux":  # its tools, which have its user, must not reach its standard output through /proc
        import ctypes

        ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE 0
    prompt = sys.stdin.buffer.read().decode("utf-8", "replace")
    emit("session", agent=NAME, version=VERSION, model=options.model, context_window=options.context_window)
    reason, detail, final_text, requests = work(options, prompt)
    emit("end", reason=reason, detail=detail, final_text=final_text, requests=requests)
    return EXIT_CODES[reason]


if __name__ == "__main__":
    sys.exit(main())
