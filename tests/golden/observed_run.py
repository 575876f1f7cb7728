"""Writes what a run of the published size leaves behind: session files, engine's log, counters, journal, memory samples.

Everything is computed from fixed seeds, so the files are the same every time. Times are milliseconds since 1970.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from bench.measure.scrape_lines import Reading, ReadingLines
from bench.records.schema import JournalEntry, MemorySample
from tests.golden.observed_requests import Answer, Session, fit, sessions

BEGUN = int(datetime(2026, 10, 12, 6, tzinfo=UTC).timestamp() * 1000)
SEGMENT_SECONDS = (17_685, 4_140, 15_765)
BLOCKED_SECONDS = (3_000, 5_400)
SWAPPED_PAGES, PAGE_BYTES = 12_966_953, 16_384
SAMPLES, WARNINGS, CHECKS, REQUIREMENTS, TASKS = 1_350, 129, 35, 26, 14
MODEL = "Qwen3.8-Flash-Next-Sushi-2.6bpw"
NO_MEMORY = "400 the prompt needs more GPU memory than is free"


@dataclass
class Evidence:
    """Where the files lie."""

    folder: Path
    sessions: Path = field(init=False)

    def __post_init__(self):
        self.sessions = self.folder / "sessions"

    def options(self) -> list[str]:
        named = [("agent-sessions", "sessions"), ("engine-log", "engine.log"), ("metrics", "metrics.jsonl")]
        named += [("journal", "journal.jsonl"), ("memory", "memory.jsonl")]
        return [word for option, name in named for word in (f"--{option}", str(self.folder / name))]


def write(folder: Path) -> Evidence:
    """Writes all files into an empty folder."""
    evidence = Evidence(folder)
    evidence.sessions.mkdir(parents=True)
    listed = sessions()
    spare = [
        seconds * 1000 - _Writer(None, listed, (0, 0, 0)).played[number]
        for number, seconds in enumerate(SEGMENT_SECONDS)
    ]
    assert min(spare) > 0, spare
    writer = _Writer(evidence, listed, tuple(spare))
    (folder / "engine.log").write_bytes(b"".join(writer.log))
    (folder / "metrics.jsonl").write_bytes(b"".join(writer.metrics))
    lines = (json.dumps(asdict(entry), separators=(",", ":")) for entry in writer.journal)
    (folder / "journal.jsonl").write_text("".join(f"{line}\n" for line in lines))
    _memory(folder / "memory.jsonl", writer)
    return evidence


class _Writer:
    """Plays the run on a clock of its own; without a place to write it only measures how long each segment takes."""

    def __init__(self, evidence: Evidence | None, listed: list[Session], spare: tuple[int, ...]) -> None:
        self.evidence = evidence
        self.now = BEGUN
        self.log: list[bytes] = []
        self.metrics: list[bytes] = []
        self.journal: list[JournalEntry] = []
        self.played: list[int] = []
        self.bounds: list[tuple[int, int]] = []
        self.session_bounds: list[tuple[int, int]] = []
        self._readings = ReadingLines()
        self._counters = dict.fromkeys(("finished", "prompt", "cached", "output", "ttft", "decode"), 0)
        self._requests = 0
        self._first_launch()
        for number in (1, 2, 3):
            mine = [session for session in listed if session.segment == number]
            begun = self.now
            self._open(number)
            for session in mine:
                # What a segment has left is spent waiting between its sessions.
                self.now += spare[number - 1] // len(mine)
                self._session(session, last=session is listed[-1])
            self.now = max(self.now, begun + SEGMENT_SECONDS[number - 1] * 1000) if any(spare) else self.now
            self._entry("segment-ended", outcome="complete" if number == 3 else "blocked", detail={"reason": ""})
            self.played.append(self.now - begun)
            self.bounds.append((begun, self.now))
            self.now += BLOCKED_SECONDS[number - 1] * 1000 if number < 3 else 0

    # --- the engine ------------------------------------------------------------------------------------------------

    def _first_launch(self) -> None:
        """A launch that was given up before the run began, then the one that served it; the log goes on."""
        self._say(b"Sushi 1.2.2 starting on 127.0.0.1:8080")
        for place in range(9):
            self._summary(Answer(prompt=40 + place, output=4, drafted=2, accepted=1), counted=False)
        self._say(b"\x1b[33mWARN\x1b[0m shutting down")
        self._say(b"Sushi 1.2.2 starting on 127.0.0.1:8080")
        self._say(b"\x1b[32mINFO\x1b[0m loading " + MODEL.encode() + b" 10%\rloading 55%\rloading 100%")
        self._say(b"EXL3 2.625 bpw, codebook mcg, window 15 \xff\xfe")

    def _say(self, text: bytes) -> None:
        stamp = datetime.fromtimestamp(self.now / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
        self.log.append(stamp.encode() + b" " + text + b"\n")

    def _summary(self, one: Answer, *, counted: bool = True) -> None:
        self._say(
            b"\x1b[32mINFO\x1b[0m request done: prompt=%d cached=%d output=%d drafted=%d accepted=%d"
            % (one.prompt, one.cached, one.output, one.drafted, one.accepted)
        )
        if counted:
            grown = (1, one.prompt, one.cached, one.output, one.ttft, one.decode)
            for name, more in zip(self._counters, grown, strict=True):
                self._counters[name] += more

    def _read(self, after: int) -> None:
        """One reading of the counters, begun so long after now."""
        count = self._counters
        values = {
            "requests_finished_total": str(count["finished"]),
            "prompt_tokens_total": str(count["prompt"]),
            "prompt_tokens_cached_total": str(count["cached"]),
            "generation_tokens_total": str(count["output"]),
            "time_to_first_token_seconds_sum": _seconds(count["ttft"]),
            "decode_seconds_total": _seconds(count["decode"]),
        }
        lines = [line for name, value in values.items() for line in (_type(name), f"sushi:{name} {value}")]
        at = (self.now + after) / 1000
        reading = Reading(engine_process=1, asked_at=at, answered_at=at + 0.004, lines=tuple(lines), lost=None)
        self.metrics.append(self._readings.encode(reading))

    def _other(self, prompt: int) -> None:
        """A request that no session made."""
        self.now += 900
        self._summary(Answer(prompt=prompt, output=5, drafted=3, accepted=1, ttft=200_000, decode=100_000))
        self._read(5)
        self.now += 100

    # --- the orchestrator ------------------------------------------------------------------------------------------

    def _open(self, number: int) -> None:
        if number == 3:
            self.now -= 1_000
            self._other(777)  # somebody else's, while the run was blocked
        configuration = {"workload": "prefix-cache revision 1", "model": MODEL, "context_window": 131_072}
        self._entry("segment-started", detail={"configuration": configuration, "changed": [], "cache": _cache(number)})
        self._step("preflight", None, lambda: self._preflight(3 if number == 3 else 4))

    def _preflight(self, probes: int) -> dict:
        self._read(0)
        for place in range(probes):
            self._other(50 + place)
        return {"outcome": "done", "detail": {"found": "the engine answers"}}

    def _session(self, session: Session, *, last: bool) -> None:
        self._step(session.role, session, lambda: self._agent(session))
        if session.verified is not None:
            self._step("verify", session, lambda: self._verify(session, last=session.task == f"T{TASKS:03d}"))
        assert not last or session.role == "final-reviewer"

    def _step(self, kind: str, session: Session | None, perform: Callable[[], dict]) -> None:
        place = {"step": kind}
        if session is not None:
            place |= {"task": session.task, "attempt": session.attempt}
            if kind != "verify":
                place |= {"session": session.number, "retry": session.retry}
        self._entry("step-started", **place, detail={"reason": ""})
        self.now += 20
        ended = perform()
        self.now += 20
        self._entry("step-finished", **place, **ended)

    def _entry(self, event: str, **values: object) -> None:
        self.journal.append(JournalEntry(seq=len(self.journal) + 1, event=event, at=self.now / 1000, **values))

    def _verify(self, session: Session, *, last: bool) -> dict:
        self.now += 4_000
        count = CHECKS if last else 12 + int((session.task or "T000")[1:])
        checks = [{"id": f"check.{place}", "ok": True, "reason": ""} for place in range(1, count + 1)]
        if not session.verified:
            checks[-1] |= {"ok": False, "reason": "a line has a loose end"}
        run = {"passed": bool(session.verified), "checks": checks, "exit_code": 0 if session.verified else 1}
        run |= {"seconds": 4.0, "reason": "", "output": ""}
        return {
            "outcome": "passed" if session.verified else "failed",
            "detail": {
                "runs": [{"arguments": ["--all"], **run}],
                "problems": [] if session.verified else ["`./verify --all` did not pass"],
                "seconds": 4.0,
            },
        }

    # --- the agent -------------------------------------------------------------------------------------------------

    def _agent(self, session: Session) -> dict:
        begun = self.now
        file = _PiFile(session, begun)
        for one in session.answers:
            self.now += 180
            start = self.now
            self.now += -(-(one.ttft + one.decode) // 1000) + 40
            if one.disturbed:
                self._summary(Answer(prompt=4_321, output=77, drafted=40, accepted=20, ttft=90_000, decode=70_000))
            self._summary(one)
            self._read(5)
            if one.disturbed:
                self._read(2_300)
            file.answer(one, start, self.now)
            self.now += 3_000 if one.disturbed else 20
        for _ in range(session.errors):
            self.now += 500
            file.error(self.now, self.now + 160)
            self.now += 160
            self._say(b"\x1b[31mERROR\x1b[0m " + NO_MEMORY.encode())
            self._read(5)
            self._read(2_100)
            self.now += 2_500
        self.session_bounds.append((begun, self.now))
        if self.evidence is not None:
            file.write(self.evidence.sessions)
        return self._session_end(session, begun)

    def _session_end(self, session: Session, begun: int) -> dict:
        detail = {
            "reason": NO_MEMORY if session.failed else "",
            "exit_code": 0,
            "session_started_at": begun / 1000,
            "seconds": (self.now - begun) / 1000,
            "requests": len(session.answers) + session.errors,
            "output_tokens": sum(one.output for one in session.answers),
            "tool_calls": sum(one.calls for one in session.answers),
        }
        if session.role in ("bootstrap", "replan"):
            detail["plan"] = _plan()
        if session.verdict == "CHANGES":
            detail["reasons"] = "1. The page has a loose end."
        return {
            "outcome": "engine-error" if session.failed else "done",
            "kind": "memory" if session.failed else None,
            "verdict": session.verdict,
            "detail": detail,
        }


class _PiFile:
    """A session file as Pi 1.6 writes it."""

    def __init__(self, session: Session, begun: int) -> None:
        self._session = session
        self._begun = begun
        self._id = f"01a0{session.number:04x}-0000-7000-8000-{session.number:012x}"
        head = {"type": "session", "version": 3, "id": self._id, "timestamp": _iso(begun), "cwd": "/box"}
        self._lines: list[dict] = [head]
        self._add("model_change", begun + 2, provider="local", modelId=MODEL)
        self._add("message", begun + 4, message={"role": "user", "content": [{"type": "text", "text": "Do it."}]})

    def answer(self, one: Answer, start: int, end: int) -> None:
        usage = {"input": one.fresh, "output": one.output, "cacheRead": one.cached, "cacheWrite": 0}
        usage |= {"reasoning": one.reasoning, "totalTokens": one.prompt + one.output}
        if one.compaction:
            self._add("compaction", end, summary="What was done.", tokensBefore=one.prompt, usage=usage, fromHook=False)
            return
        # About four characters a token, so that the files are as large as such a run's are.
        content: list[dict] = [{"type": "thinking", "thinking": "I think. " * (one.output * 4 // 9)}]
        calls = [f"call_{self._session.number}_{len(self._lines)}_{place}" for place in range(one.calls)]
        content += [{"type": "toolCall", "id": call, "name": "bash", "arguments": {"command": "ls"}} for call in calls]
        if not calls:
            content.append({"type": "text", "text": f"VERDICT: {self._session.verdict or 'none'}"})
        self._message(content, usage, start, end, stopReason="toolUse" if calls else "stop")
        for call in calls:
            result = {"role": "toolResult", "toolCallId": call, "toolName": "bash", "isError": False}
            text = "one line\n" * (one.fresh * 4 // 9 // one.calls)
            self._add("message", end + 8, message={**result, "content": [{"type": "text", "text": text}]})

    def error(self, start: int, end: int) -> None:
        usage = dict.fromkeys(("input", "output", "cacheRead", "cacheWrite", "totalTokens"), 0)
        self._message([], usage, start, end, stopReason="error", errorMessage=NO_MEMORY)

    def write(self, folder: Path) -> None:
        name = f"{_iso(self._begun).replace(':', '-').replace('.', '-')}_{self._id}.jsonl"
        (folder / name).write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in self._lines))

    def _message(self, content: list[dict], usage: dict, start: int, end: int, **more: str) -> None:
        message = {"role": "assistant", "content": content, "api": "openai-completions", "provider": "local"}
        message |= {"model": MODEL, "usage": usage, "timestamp": start, "durationMs": end - start, **more}
        if "errorMessage" not in more:
            message["responseId"] = f"chatcmpl-{self._session.number}-{len(self._lines)}"
        self._add("message", end + 3, message=message)

    def _add(self, kind: str, at: int, **values: object) -> None:
        self._lines.append({"type": kind, "id": f"{len(self._lines):08x}", "timestamp": _iso(at), **values})


def _memory(path: Path, writer: _Writer) -> None:
    """Samples at the boundaries of segments and sessions, and by the clock in between."""
    dice = random.Random(1_350)
    borders = {at for bounds in (*writer.bounds, *writer.session_bounds) for at in bounds}
    left = SAMPLES - len(borders)
    shares = fit([end - begin for begin, end in writer.bounds], left, [left] * 3)
    instants = [(at, True) for at in borders]
    for (begin, end), share in zip(writer.bounds, shares, strict=True):
        instants += [(begin + (end - begin) * (place + 1) // (share + 1) + 1, False) for place in range(share)]
    instants.sort()
    firsts = {begin for begin, _ in writer.bounds}
    steps = iter(
        fit([dice.expovariate(1) for _ in range(SAMPLES - 3)], SWAPPED_PAGES, [10**6] * (SAMPLES - 3), least=0)
    )
    warned = set(dice.sample(range(SAMPLES), WARNINGS))
    pages, lines = 5_000_000, []
    for place, (at, boundary) in enumerate(instants):
        pages += 70_000 if at in firsts else next(steps)  # what was swapped in while the run was blocked is not its own
        sample = MemorySample(
            at=at / 1000,
            boundary=boundary,
            swapped_in_bytes=pages * PAGE_BYTES,
            pressure="warning" if place in warned else "normal",
            engine_rss_bytes=41_000_000_000,
            available_bytes=3_000_000_000,
        )
        lines.append(json.dumps(asdict(sample), separators=(",", ":")) + "\n")
    path.write_text("".join(lines))


def _plan() -> dict:
    requirements = [
        {"id": f"R{number:03d}", "text": f"Demand {number}.", "quote": "words of the brief"}
        for number in range(1, REQUIREMENTS + 1)
    ]
    tasks = [
        {
            "id": f"T{number:03d}",
            "title": f"Part {number}",
            "requirements": [item["id"] for item in requirements[(number - 1) * 2 : number * 2]] or ["R026"],
            "depends_on": [],
            "checks": [],
        }
        for number in range(1, TASKS + 1)
    ]
    return {"requirements": requirements, "tasks": tasks}


def _cache(number: int) -> str:
    return "cold: fresh process, empty disk cache" if number == 1 else "warm: the engine went on"


def _type(name: str) -> str:
    kind = "histogram" if name.endswith("_sum") else "counter"
    return f"# TYPE sushi:{name.removesuffix('_sum')} {kind}"


def _seconds(microseconds: int) -> str:
    return f"{microseconds // 1_000_000}.{microseconds % 1_000_000:06d}"


def _iso(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{at % 1000:03d}Z"
