"""What happened in each exchange? Reads the relay's evidence and makes request records and summaries of it."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.contracts import ExchangeSummary
from bench.engine_profile import EngineProfile
from bench.errors import EvidenceError
from bench.measure.endpoints import MODELS_PATH
from bench.measure.exchange_line import Exchange, decode_line
from bench.measure.reported import MOST_TOKENS_A_SECOND, Counts, Timings, impossible, read_counts, read_timings
from bench.measure.stream import AnswerReader, body_error_text
from bench.records.schema import RequestRecord

_LATE = 16


def iterate_exchanges(path: Path, *, warn: Callable[[str], None]) -> Iterator[Exchange]:
    """The exchanges of one `exchanges.jsonl` in the order of their ends, one at a time.

    A torn last line (the harness was killed while it wrote) is said through `warn`; a session that made no request
    may have no file. Raises EvidenceError where a line before the last is damaged or the file cannot be read.
    """
    before = b""
    try:
        with path.open("rb") as stream:
            for number, line in enumerate(stream, 1):
                if not line.endswith(b"\n"):
                    warn(f"{path}: line {number} is torn; that exchange is lost")
                    return
                try:
                    exchange = decode_line(line, before=before)
                except (ValueError, KeyError, TypeError, RecursionError, zlib.error) as error:
                    raise EvidenceError(f"{path}: line {number} is damaged ({error})") from error
                before = exchange.request
                yield exchange
    except FileNotFoundError:
        return
    except OSError as error:
        raise EvidenceError(f"{path}: cannot be read ({error.strerror})") from error


def iterate_in_order(path: Path, *, warn: Callable[[str], None]) -> Iterator[Exchange]:
    """The same in the order in which they began: a connection may end only after that of the next answer has.

    Holds back no more than `_LATE` exchanges; one that comes later still, or begins to count anew, comes as it is.
    """
    waiting: dict[int, Exchange] = {}
    following = 0
    try:
        for exchange in iterate_exchanges(path, warn=warn):
            if exchange.index < following or exchange.index in waiting:
                yield exchange
                continue
            waiting[exchange.index] = exchange
            while following in waiting or len(waiting) > _LATE:
                following = min(waiting)
                yield waiting.pop(following)
                following += 1
    except EvidenceError:
        yield from (waiting[index] for index in sorted(waiting))
        raise
    yield from (waiting[index] for index in sorted(waiting))


def read_exchanges(path: Path, *, warn: Callable[[str], None]) -> tuple[Exchange, ...]:
    """All exchanges of one file; see `iterate_exchanges`."""
    return tuple(iterate_exchanges(path, warn=warn))


def read_answer(exchange: Exchange) -> AnswerReader:
    """What the answer of a kept exchange says."""
    reader = AnswerReader()
    if exchange.streamed:
        reader.feed(exchange.response)
        reader.end()
    elif exchange.status is not None:
        reader.read_body(exchange.response)
    return reader


def error_of(exchange: Exchange, answer: AnswerReader) -> str | None:
    """Why the exchange is no whole answer: transport, HTTP status, error inside a 200, no finish reason. Else None."""
    if exchange.fault is not None:
        return exchange.fault
    if exchange.status is None or not 200 <= exchange.status < 300:
        return body_error_text(exchange.response) or f"HTTP {exchange.status} with an empty body"
    if answer.error is not None:
        return answer.error
    if exchange.path == MODELS_PATH:
        return None
    if answer.finish_reason is None:
        damage = f" ({answer.damage})" if answer.damage else ""
        return f"truncated: the answer ended without a finish reason{damage}"
    return None


DAMAGED = "the answer is damaged: "


def damage_of(exchange: Exchange, answer: AnswerReader) -> str | None:
    """What of an answer's bytes is no JSON or no UTF-8, whatever could be read of it all the same."""
    if exchange.status is None or not 200 <= exchange.status < 300 or exchange.path == MODELS_PATH:
        return None
    try:
        exchange.response.decode("utf-8")
    except UnicodeDecodeError as error:
        if exchange.response_bytes == len(exchange.response):  # else it was cut by us, perhaps within a letter
            return f"byte {error.start:,} is no UTF-8"
    return answer.damage


def answered_at(exchange: Exchange) -> float:
    """When the client had the answer, on the relay's clock: what one conversation's exchanges are put in order by.

    A client may ask its next question as soon as it has the closing event, and an engine that is busy may end the
    connection of the answer before only after that. So a whole stream counts from its last token.
    """
    if exchange.fault is None and exchange.streamed and exchange.arrivals:
        return exchange.arrivals[-1][1]
    return exchange.ended_at


def summarise(exchange: Exchange, answer: AnswerReader) -> ExchangeSummary:
    """The exchange as far as a session's outcome and limits need it."""
    error = error_of(exchange, answer)
    counts = read_counts(answer, exchange.path, whole=error is None, computed=None)
    return ExchangeSummary(
        index=exchange.index,
        status=exchange.status,
        finish_reason=answer.finish_reason,
        prompt_tokens=counts.prompt,
        output_tokens=counts.output,
        error=error,
        sent_at=exchange.sent_at,
        ended_at=answered_at(exchange),
    )


def request_record(exchange: Exchange, profile: EngineProfile) -> RequestRecord:
    """The exchange with its counts and the engine's own timings; what is missing or impossible is None with the reason."""
    answer = read_answer(exchange)
    error = error_of(exchange, answer)
    timings = read_timings(
        answer,
        profile,
        whole=error is None,
        ceiling_seconds=None if profile.simulated else exchange.ended_at - exchange.sent_at,
    )
    counts = read_counts(
        answer,
        exchange.path,
        whole=error is None,
        computed=timings.computed_prompt,
        cached_place=profile.response_fields.get("cached_tokens"),
    )
    ttft, decode, wrong = _believed(exchange, timings, counts, simulated=profile.simulated)
    damage = damage_of(exchange, answer)
    reasons = [*timings.reasons, *counts.reasons, *wrong, *([f"{DAMAGED}{damage}"] if damage else [])]
    measured = any(value is not None for value in (ttft, timings.prefill, decode))
    label = exchange.label
    return RequestRecord(
        session=label.session,
        role=label.role,
        task=label.task,
        attempt=label.attempt,
        retry=label.retry,
        index=exchange.index,
        engine_process=exchange.engine_process,
        path=exchange.path,
        streamed=exchange.streamed,
        status=exchange.status,
        response_id=answer.response_id,
        sent_at=exchange.sent_at,
        first_byte_at=exchange.first_byte_at,
        first_token_at=exchange.arrivals[0][1] if exchange.arrivals else None,
        last_token_at=exchange.arrivals[-1][1] if exchange.arrivals else None,
        ended_at=exchange.ended_at,
        finish_reason=answer.finish_reason,
        error=error,
        prompt_tokens=counts.prompt,
        cached_tokens=counts.cached,
        output_tokens=counts.output,
        reasoning_tokens=counts.reasoning,
        drafted_tokens=timings.drafted,
        accepted_tokens=timings.accepted,
        ttft_seconds=ttft,
        prefill_seconds=timings.prefill,
        decode_seconds=decode,
        queue_seconds=timings.queue,
        source="engine-response" if measured else None,
        draft_source="engine-response" if timings.drafted is not None else None,
        reason="; ".join(reasons) or None,
    )


def _believed(
    exchange: Exchange, timings: Timings, counts: Counts, *, simulated: bool
) -> tuple[float | None, float | None, list[str]]:
    """TTFT and decode seconds as far as they can be true beside the counts and the relay's clock, and why not."""
    ttft, decode = timings.ttft, timings.decode
    if counts.output == 0:
        # An answer without a token has no time to its first one, whatever the engine says.
        return None, None, [f"{name}: no token was generated" for name in ("ttft_seconds", "decode_seconds")]
    reasons = []
    if decode is not None and counts.output is not None and counts.output - 1 > decode * MOST_TOKENS_A_SECOND:
        reasons.append(f"decode_seconds: {counts.output} tokens in {decode:g} s cannot be")
        decode = None
    wrong = impossible(
        ttft,
        decode,
        first_token=exchange.arrivals[0][1] - exchange.sent_at if exchange.arrivals else None,
        ceiling=None if simulated else exchange.ended_at - exchange.sent_at,
    )
    reasons += [f"{name}: {why}" for name, why in wrong.items()]
    return None if "ttft_seconds" in wrong else ttft, None if "decode_seconds" in wrong else decode, reasons
