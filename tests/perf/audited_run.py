"""A finished run of the published size, 872 answered requests in 62 sessions, with all of the relay's evidence.

Sizes, journal and memory samples are those of the golden run; every prompt is sent whole each time, and an answer is a
stream of one chunk for each step of the engine (a step gives one token and the drafts that were accepted).
"""

from __future__ import annotations

import json
import random
from dataclasses import asdict
from pathlib import Path

from bench.contracts import SessionLabel
from bench.engines.profile import read_profile
from bench.figures.run_figures import figures_of_run
from bench.loop.journal import read_journal
from bench.measure.exchange_line import Exchange, encode_line
from bench.records import cases_file, requests_file, store
from bench.records.schema import SCHEMA_VERSION, RunRecord
from bench.records.snapshot import BlobStore, save, take
from bench.spec import AgentSpec
from tests.golden import observed_run
from tests.golden.observed_requests import Answer, Session, sessions

RUN_ID = "audited"
_BYTES_A_TOKEN = 4
_WORDS = [
    f" {word}"
    for word in [
        "the",
        "model",
        "cache",
        "of",
        "state",
        "prompt",
        "token",
        "reuse",
        "=",
        "(",
        ")",
        "{",
        "}",
        "const",
        "if",
        "return",
        "size",
    ]
]


def write_run(results: Path, kept: Path) -> Path:
    """Makes the run below `results`; `kept` is an empty folder for what it is made of."""
    folder = results / RUN_ID
    made = observed_run.write(kept)
    folder.mkdir(parents=True)
    for name in ("journal.jsonl", "memory.jsonl"):
        (folder / name).write_bytes((made.folder / name).read_bytes())
    (folder / "engine" / "launch-1").mkdir(parents=True)
    profile = read_profile("embedded").contract("embedded")
    (folder / "engine" / "profile.json").write_text(json.dumps(asdict(profile)))
    _project(folder, kept / "project")
    log: list[str] = []
    for session in sessions():
        _session(folder / "sessions" / f"{session.number:03d}", session, log)
    (folder / "engine" / "launch-1" / "engine.log").write_text("".join(log))
    _record(folder)
    return folder


def _session(folder: Path, session: Session, log: list[str]) -> None:
    folder.mkdir(parents=True)
    dice = random.Random(session.number)
    label = SessionLabel(
        run_id=RUN_ID,
        session=session.number,
        role=session.role,
        task=session.task,
        attempt=session.attempt,
        retry=session.retry,
    )
    text = "".join(dice.choices(_WORDS, k=120_000))
    events = [{"type": "session", "agent": "builtin", "version": "1.0", "model": "sound", "context_window": 131_072}]
    before, lines = b"", []
    for index, answer in enumerate(session.answers):
        exchange, event = _answered(label, index, answer, text=text, dice=dice, at=60.0 * len(log))
        lines.append(encode_line(exchange, before=before))
        before = exchange.request
        events += [{"type": "request", "index": index, "messages": 2 + 2 * index}, event]
        events += [{"type": "tool", "name": "bash"}] * answer.calls
        log.append(_summary(event["id"], answer))
    events.append({"type": "end", "reason": "done", "detail": "", "final_text": "Done."})
    (folder / "exchanges.jsonl").write_bytes(b"".join(lines))
    (folder / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))


def _answered(label, index, answer: Answer, *, text, dice, at):
    name = f"chatcmpl-{label.session:03d}{index:05d}"
    head = f'{{"id":"{name}","object":"chat.completion.chunk","created":1796034833,"model":"m","choices":'
    steps = max(1, answer.output - answer.accepted)
    parts, ends, size = [f'data: {head}[{{"index":0,"delta":{{"role":"assistant"}}}}]}}\n\n'], [], 0
    size = len(parts[0])
    thinking = steps * answer.reasoning // max(1, answer.output)
    for number, word in enumerate(dice.choices(_WORDS, k=steps)):
        key = "reasoning_content" if number < thinking else "content"
        parts.append(
            f'data: {head}[{{"index":0,"delta":{{"{key}":"{word}"}},"logprobs":null,"finish_reason":null}}]}}\n\n'
        )
        size += len(parts[-1])
        ends.append((size, at + (answer.ttft + answer.decode * number // steps) / 1e6))
    usage = {
        "prompt_tokens": answer.prompt,
        "completion_tokens": answer.output,
        "prompt_tokens_details": {"cached_tokens": answer.cached},
        "completion_tokens_details": {"reasoning_tokens": answer.reasoning},
    }
    timings = {
        "ttft_ms": answer.ttft / 1e3,
        "prompt_ms": answer.ttft / 1e3,
        "predicted_ms": answer.decode / 1e3,
        "queue_ms": 0.0,
        "draft_n": answer.drafted,
        "draft_n_accepted": answer.accepted,
        "prompt_n": answer.fresh,
    }
    parts.append(f'data: {head}[{{"index":0,"delta":{{}},"finish_reason":"tool_calls"}}]}}\n\n')
    parts.append(f'data: {head}[],"usage":{json.dumps(usage)},"timings":{json.dumps(timings)}}}\n\ndata: [DONE]\n\n')
    response = "".join(parts).encode()
    request = json.dumps({"model": "m", "stream": True, "messages": [text[: answer.prompt * _BYTES_A_TOKEN]]}).encode()
    exchange = Exchange(
        label=label,
        index=index,
        engine_process=1,
        method="POST",
        path="/v1/chat/completions",
        status=200,
        streamed=True,
        started_at=1_796_034_833.0 + at,
        sent_at=at,
        first_byte_at=at + answer.ttft / 1e6,
        ended_at=at + (answer.ttft + answer.decode) / 1e6 + 0.01,
        fault=None,
        request=request,
        response=response,
        response_bytes=len(response),
        redacted=False,
        arrivals=tuple(ends),
    )
    return exchange, {
        "type": "response",
        "index": index,
        "id": name,
        "finish_reason": "tool_calls",
        "usage": usage,
        "text": text[: answer.output],
    }


def _summary(name: str, answer: Answer) -> str:
    return (
        f"2026-11-30T10:33:54Z embedded: request id={name} prompt={answer.prompt} cached={answer.cached} "
        f"output={answer.output} reasoning={answer.reasoning} drafted={answer.drafted} accepted={answer.accepted} "
        f"queue_seconds=0.0 ttft_seconds={answer.ttft / 1e6} prefill_seconds={answer.ttft / 1e6} "
        f"decode_seconds={answer.decode / 1e6} finish=stop error=-\n"
    )


def _project(folder: Path, project: Path) -> None:
    """Sixty snapshots of a project of forty files, of which one is written anew each time."""
    project.mkdir()
    blobs = BlobStore(folder / "blobs")
    for number in range(60):
        for name in range(40) if number == 0 else (number % 40,):
            (project / f"part{name}.mjs").write_text(f"// {name} {number}\n" + "export const size = 1;\n" * 400)
        save(take(project, blobs), folder / "snapshots")


def _record(folder: Path) -> None:
    cases_file.write_cases(folder, (), score_group="model")
    identity = {"workload": "prefix-cache", "agent": "builtin"}
    (folder / "run.json").write_text(json.dumps({"created_at": "2026-10-12T06:00:00Z", "identity": identity}))
    _configure(folder / "journal.jsonl")
    journal = read_journal(folder / "journal.jsonl").entries
    granted = next(entry.detail["configuration"] for entry in reversed(journal) if entry.event == "segment-started")
    found = figures_of_run(folder, agent=AgentSpec(name="builtin"), cases=(), score_group="model")
    requests_file.write_requests(folder, found.evidence.requests)
    record = RunRecord(
        schema_version=SCHEMA_VERSION,
        run_id=RUN_ID,
        end="complete",
        reason="",
        valid=True,
        simulated=True,
        created_at="2026-10-12T06:00:00Z",
        identity={**identity, "simulated": True, "isolation": granted.get("box", {}).get("isolation")},
        configuration=granted,
        segments=found.evidence.segments,
        sessions=found.evidence.sessions,
        tasks=found.evidence.tasks,
        cases=(),
        figures=found.figures,
        warnings=found.warnings,
        deviations=(),
        evidence=store.manifest(folder),
    )
    store.write_record(folder, record, len(found.evidence.segments))


def _configure(path: Path) -> None:
    """Gives the journal of the observed run, which was ingested, what a run of our own writes down besides."""
    ours = {"limits": {}, "own_limits": {}, "box": {"name": "bubblewrap", "isolation": "boxed"}}
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    for entry in entries:
        if entry["event"] == "segment-started":
            entry["detail"]["configuration"] |= ours
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
