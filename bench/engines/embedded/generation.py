"""One request from its body to the last token: checks, queue, memory, prefill, decode, and the truth about it."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any

from bench.engines.embedded.answer_writers import Connection, Head, Writer
from bench.engines.embedded.answers import Answer, answer_of
from bench.engines.embedded.block_files import ROOT, block_of
from bench.engines.embedded.chat_request import ChatRequest
from bench.engines.embedded.chat_template import prompt_tokens
from bench.engines.embedded.cost_model import CostModel
from bench.engines.embedded.drafts import decode_steps
from bench.engines.embedded.ending import as_it_ends
from bench.engines.embedded.faults import Ending, begins_stream, ending, hold, output_limit, refusal_of
from bench.engines.embedded.metrics_page import Metrics
from bench.engines.embedded.outcome import Outcome, outcome_of
from bench.engines.embedded.pace import Pace
from bench.engines.embedded.refusal import ClientGoneError, Refusal, context_exceeded
from bench.engines.embedded.script_play import Fault, Script
from bench.engines.embedded.session_place import read_session_place
from bench.engines.embedded.slots import Slots
from bench.engines.embedded.state_memory import Grant, StateMemory
from bench.engines.embedded.truth_log import TruthLine, TruthLog
from bench.engines.embedded.wire_forms import WireForm


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How this engine serves, as far as one request is concerned."""

    name: str
    context_window: int
    """Tokens, output included."""

    block_tokens: int
    bytes_per_token: int
    draft_tokens: int
    time_scale: float


@dataclass(kw_only=True)
class _Work:
    """A request while it is served; `line` is what is known for sure so far."""

    line: TruthLine
    computed: list[str] = field(default_factory=list)
    """Prompt and generated tokens whose state exists."""

    output_tokens: int = 0
    reasoning_tokens: int = 0
    drafted_tokens: int = 0
    accepted_tokens: int = 0
    decode_steps: int = 0


@dataclass(frozen=True, kw_only=True)
class _Job:
    """An admitted request: what is to be generated, from what, and for whom."""

    prompt: list[str]
    grant: Grant
    answer: Answer
    limit: int
    """Output tokens that are given."""

    fault: Fault | None
    writer: Writer
    connection: Connection
    pace: Pace


class Generator:
    """Serves requests, several at once. Keeps no state between them but the cache and the counters."""

    def __init__(
        self,
        *,
        settings: Settings,
        script: Script,
        memory: StateMemory,
        slots: Slots,
        truth: TruthLog,
        log: Callable[[str], None],
    ) -> None:
        self._settings = settings
        self._script = script
        self._memory = memory
        self._slots = slots
        self._truth = truth
        self._log = log
        self._cost = CostModel()
        self._metrics = Metrics()
        self._launch = os.urandom(4).hex()
        self._numbers = itertools.count(1)
        self._serving = 0
        self._lock = Lock()

    @property
    def serving(self) -> int:
        """Requests whose truth is not written yet."""
        return self._serving

    def metrics_page(self) -> str:
        running, waiting = self._slots.counts()
        return self._metrics.page(running=running, waiting=waiting, memory=self._memory.use())

    def serve(self, form: WireForm, body: bytes, session: str | None, connection: Connection) -> None:
        """Answers one request. Raises Refusal before anything is sent, ClientGoneError at any time."""
        self._count(1)
        try:
            end, outcome = self._served(form, body, session, connection)
        finally:
            self._count(-1)
        end.say(outcome)

    def _served(
        self, form: WireForm, body: bytes, session: str | None, connection: Connection
    ) -> tuple[Ending, Outcome]:
        """Everything but the last words of an answer: those are sent when its truth is written."""
        now = time.monotonic()
        response_id = form.response_id(self._launch, next(self._numbers))
        work = _Work(
            line=TruthLine(session=session, response_id=response_id, stream=False, received_at=now, ended_at=now)
        )
        try:
            end = self._answer(work, form, body, connection)
        except Refusal as refusal:
            error = {"status": refusal.status, "type": refusal.kind, "code": refusal.code, "message": refusal.message}
            self._record(replace(work.line, error=error))
            raise
        except ClientGoneError:
            self._record(replace(work.line, aborted=True))
            raise
        self._record(
            replace(
                work.line,
                finish_reason=end.finish_reason,
                error=end.error,
                aborted=end.aborted,
                chunks=work.line.chunks + end.chunks,
            )
        )
        return end, outcome_of(work.line, end.finish_reason or "stop")

    def _answer(self, work: _Work, form: WireForm, body: bytes, connection: Connection) -> Ending:
        """Generates the whole answer; slot and memory are free again and the cache is filled when it returns."""
        place = read_session_place(work.line.session)
        request = form.read(body)
        prompt = prompt_tokens(request)
        work.line = replace(work.line, stream=request.stream, turn=request.turn, prompt_tokens=len(prompt))
        room = self._settings.context_window - len(prompt)
        if room < 1:
            raise context_exceeded(len(prompt), self._settings.context_window, param=form.prompt_key)
        play = self._script.play(place, request.turn)
        fault = play.turn.fault
        work.line = replace(work.line, fault=None if fault is None else fault.kind)
        if refusal := refusal_of(fault):
            raise refusal
        turn = as_it_ends(play.turn, request.messages)
        answer = answer_of(turn, request.tools, parallel=request.parallel_calls)
        limit = min(room, request.max_tokens or room, len(answer.output))
        writer = self._writer(form, request, connection, work.line.response_id)
        slot = self._slots.enter(connection.check)
        try:
            work.line = replace(work.line, queue_seconds=slot.queue_seconds)
            grant = self._memory.admit(prompt, free_bytes=play.free_bytes)
            pace = Pace(self._settings.time_scale, connection.check)
            job = _Job(
                prompt=prompt,
                grant=grant,
                answer=answer,
                limit=output_limit(fault, limit),
                fault=fault,
                writer=writer,
                connection=connection,
                pace=pace,
            )
            try:
                self._generate(work, job)
            finally:
                self._memory.release(grant, work.computed)
        finally:
            busy_seconds = (work.line.ttft_seconds or 0.0) + (work.line.decode_seconds or 0.0)
            self._slots.leave(slot, seconds=busy_seconds)
        return ending(fault, writer, connection, answer.finish_reason if limit == len(answer.output) else "length")

    def _generate(self, work: _Work, job: _Job) -> None:
        """Prefill and decode; whatever ends it, `work` then says how far it came."""
        hit, block_tokens = job.grant.hit, self._settings.block_tokens
        work.line = replace(
            work.line,
            cached_tokens=hit.count * block_tokens,
            cached_ram_tokens=hit.ram_blocks * block_tokens,
            cached_ssd_tokens=hit.ssd_blocks * block_tokens,
        )
        try:
            if job.fault is None or not job.fault.breaks_at_once:
                job.writer.begin()
                self._prefill(work, job)
                self._decode(work, job)
            elif begins_stream(job.fault):
                job.writer.begin()
            hold(job.fault, job.writer, job.connection)
        finally:
            if work.line.ttft_seconds is not None:
                work.computed = job.prompt + job.answer.state_after(work.output_tokens)
            work.line = replace(
                work.line,
                output_tokens=work.output_tokens,
                reasoning_tokens=work.reasoning_tokens,
                drafted_tokens=work.drafted_tokens,
                accepted_tokens=work.accepted_tokens,
                decode_steps=work.decode_steps,
                decode_seconds=None if work.line.ttft_seconds is None else self._cost.decode_seconds(work.decode_steps),
                chunks=job.writer.chunks,
            )

    def _prefill(self, work: _Work, job: _Job) -> None:
        hit, block_bytes = job.grant.hit, self._settings.block_tokens * self._settings.bytes_per_token
        restore = self._cost.restore_seconds(
            ram_bytes=hit.ram_blocks * block_bytes, ssd_bytes=hit.ssd_blocks * block_bytes
        )
        prefill = self._cost.prefill_seconds(len(job.prompt) - hit.count * self._settings.block_tokens)
        job.pace.spend(restore + prefill)
        work.line = replace(
            work.line,
            restore_seconds=restore,
            prefill_seconds=prefill,
            ttft_seconds=round(restore + prefill, 6),
            first_token_at=time.monotonic(),
        )

    def _decode(self, work: _Work, job: _Job) -> None:
        """The first token comes out of prefill; each step gives the accepted part of its draft and one token more."""
        output = job.answer.output
        if job.limit == 0:
            return

        def emit(count: int) -> None:
            tokens = output[work.output_tokens : work.output_tokens + count]
            work.output_tokens += count
            work.reasoning_tokens += sum(token.channel == "reasoning" for token in tokens)
            job.writer.tokens(tokens)

        emit(1)
        steps = decode_steps(output_tokens=job.limit, draft_tokens=self._settings.draft_tokens, seed=self._seed(job))
        for step in steps:
            job.pace.spend(self._cost.decode_step_seconds)
            work.decode_steps += 1
            work.drafted_tokens += step.drafted_tokens
            work.accepted_tokens += step.accepted_tokens
            emit(step.accepted_tokens + 1)

    def _seed(self, job: _Job) -> bytes:
        """Stands for the whole prompt: the hash of its last whole block and of the rest after it."""
        blocks = job.grant.blocks
        rest = job.prompt[len(blocks) * self._settings.block_tokens :]
        return block_of(blocks[-1].key if blocks else ROOT, rest).key

    def _writer(self, form: WireForm, request: ChatRequest, connection: Connection, response_id: str) -> Writer:
        head = Head(response_id=response_id, created=int(time.time()), model=self._settings.name)
        return form.writer(request, connection, head)

    def _count(self, change: int) -> None:
        with self._lock:
            self._serving += change

    def _record(self, line: TruthLine) -> None:
        """Counters, truth and log; done before the client can know that its answer is whole."""
        line = replace(line, ended_at=time.monotonic())
        self._metrics.add(line)
        self._truth.write(line)
        self._log(_summary(line))


def _summary(line: TruthLine) -> str:
    """The one log line of a request, `key=value` throughout; `-` where it did not come that far."""
    values: dict[str, Any] = {
        "id": line.response_id,
        "prompt": line.prompt_tokens,
        "cached": line.cached_tokens,
        "output": line.output_tokens,
        "reasoning": line.reasoning_tokens,
        "drafted": line.drafted_tokens,
        "accepted": line.accepted_tokens,
        "queue_seconds": line.queue_seconds,
        "ttft_seconds": line.ttft_seconds,
        "prefill_seconds": line.prefill_seconds,
        "decode_seconds": line.decode_seconds,
        "finish": "abort" if line.aborted else line.finish_reason,
        "error": line.error and (line.error["code"] or line.error["type"]),
    }
    return "request " + " ".join(f"{key}={'-' if value is None else value}" for key, value in values.items())
