"""Reads Claude Code's event stream (`claude -p --output-format stream-json --verbose`), after its documentation.

    system       subtype init, api_retry, compact_boundary, ...
    assistant    message {id, model, content[], stop_reason, usage}; one event for each block of an answer, each with the usage
    user         message with the results of tools
    result       subtype, is_error, result (the last text), num_turns, usage (the sum)

Its counts mean: `input_tokens` excludes what was read from the cache and what was written to it, `output_tokens`
includes thinking. The output that an answer's events tell may be that of the answer's beginning: where it does not add
up to the result's, no answer's output is known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.agents.adapters import EVENTS_FILE, AgentEvents, StreamEnd
from bench.agents.event_lines import EventLines
from bench.agents.told import Claims, UnknownEvents, added, count, final, mapping, mappings, name, text

_KNOWN_SYSTEM = (
    "init",
    "status",
    "task_started",
    "task_progress",
    "task_notification",
    "hook_started",
    "hook_response",
    "retry",  # Qwen Code's: once or twice for a second try, and not for every one, so no number comes of it
)
_QUIET = ("stream_event", "tool_progress", "rate_limit_event")
_API_ERROR = "API Error"
_NOT_THE_MODEL = "<synthetic>"
"""The model's name in an answer that Claude Code wrote itself, e.g. about an error."""


@dataclass(frozen=True, kw_only=True)
class Counts:
    """What one usage says, in our meaning; None: not told."""

    fresh: int | None
    cached: int | None
    output: int | None
    reasoning: int | None


def read_events(folder: Path, session: int) -> AgentEvents:
    """What a session's event stream says, of any quality."""
    return read_claude_like(folder, session, claude_counts, errors_begin=_API_ERROR)


def read_claude_like(
    folder: Path,
    session: int,
    counts: Callable[[dict[str, Any]], Counts],
    *,
    errors_begin: str,
    names_responses: bool = True,
    tells_retries: bool = True,
    tells_compactions: bool = True,
) -> AgentEvents:
    """The same for any agent whose stream has this form; `counts` knows what its numbers mean.

    `names_responses`: the messages' ids are those of the engine's responses.
    """
    lines = EventLines(folder / EVENTS_FILE)
    reader = _Reader(counts, errors_begin)
    for event in lines:
        reader.read(event)
    claims = reader.claims(session, names_responses=names_responses)
    return AgentEvents(
        usage=tuple(claims.made),
        requests=len(claims.made),
        tool_calls=reader.tool_calls,
        compactions=reader.compactions if tells_compactions else None,
        final_text=reader.words,
        end=reader.end,
        end_detail=reader.detail,
        damage=lines.damage,
        retries=reader.retries if tells_retries else None,
        unknown=dict(reader.unknown),
        differences=reader.differences(),
    )


def claude_counts(usage: dict[str, Any]) -> Counts:
    fresh, written = count(usage.get("input_tokens")), count(usage.get("cache_creation_input_tokens"))
    cached, output = count(usage.get("cache_read_input_tokens")), count(usage.get("output_tokens"))
    thinking = count(mapping(usage.get("output_tokens_details")).get("thinking_tokens"))
    if not fresh and not written and not cached:
        fresh = written = cached = None  # no prompt is empty
    whole = None if fresh is None and written is None else added(fresh, written)
    return Counts(fresh=whole, cached=cached, output=output or None, reasoning=thinking or None)


@dataclass
class _Answer:
    name: str | None
    usage: dict[str, Any]
    stop: str | None


class _Reader:
    """Takes the events of one session, one by one."""

    def __init__(self, counts: Callable[[dict[str, Any]], Counts], errors_begin: str) -> None:
        self.tool_calls = self.compactions = self.retries = 0
        self.words = self.detail = ""
        self.end: StreamEnd | None = None
        self.unknown = UnknownEvents()
        self._counts = counts
        self._errors_begin = errors_begin
        self._answers: list[_Answer] = []
        self._sum: dict[str, Any] | None = None
        self._going_on = False
        """Whether the next block may belong to the last answer: nothing came from the user's side since."""

    def read(self, event: dict[str, Any]) -> None:
        match event.get("type"):
            case "assistant":
                self._assistant(mapping(event.get("message")))
            case "user":
                self._going_on = False
            case "result":
                self._result(event)
            case "system":
                self._system(event.get("subtype"))
            case kind if kind not in _QUIET:
                self.unknown.note(kind)

    def claims(self, session: int, *, names_responses: bool) -> Claims:
        claims = Claims(session)
        trusted = self._outputs_add_up()
        for answer in self._answers:
            said = self._counts(answer.usage)
            claims.add(
                fresh=said.fresh,
                cached=said.cached,
                output=said.output if trusted else None,
                reasoning=said.reasoning if trusted else None,
                response_id=answer.name if names_responses else None,
                stop_reason=answer.stop,
            )
        if self.end == "engine-error":
            claims.add(error=self.detail)
        return claims

    def differences(self) -> tuple[str, ...]:
        if self._outputs_add_up():
            return ()
        return ("the answers' output tokens do not add up to those of the result: no answer's output is known",)

    def _outputs_add_up(self) -> bool:
        whole = None if self._sum is None else self._counts(self._sum).output
        return whole is None or whole == added(*(self._counts(one.usage).output for one in self._answers))

    def _assistant(self, message: dict[str, Any]) -> None:
        if message.get("model") == _NOT_THE_MODEL:
            return
        blocks = mappings(message.get("content"))
        self.tool_calls += sum(block.get("type") == "tool_use" for block in blocks)
        said = "\n".join(final(block.get("text")) for block in blocks if block.get("type") == "text")
        self.words = final(said) or self.words
        answer = _Answer(name(message.get("id")), mapping(message.get("usage")), name(message.get("stop_reason")))
        last = self._answers[-1] if self._answers and self._going_on else None
        self._going_on = True
        if last is not None and (
            (answer.name is not None and last.name == answer.name) or not any(last.usage.values())
        ):
            self._answers[-1] = answer
        else:
            self._answers.append(answer)

    def _system(self, subtype: Any) -> None:
        if subtype == "compact_boundary":
            self.compactions += 1
        elif subtype == "api_retry":
            self.retries += 1
        elif subtype not in _KNOWN_SYSTEM:
            self.unknown.note(subtype, "system ")

    def _result(self, event: dict[str, Any]) -> None:
        self._sum = mapping(event.get("usage"))
        said = event.get("result")
        subtype = text(event.get("subtype"))
        error = text(mapping(event.get("error")).get("message")) or text(said)
        if event.get("is_error") is not True and subtype in {"success", ""}:
            self.end, self.words = "done", final(said) or self.words
        elif subtype == "error_max_turns":
            self.end, self.detail = "limit", subtype
        else:
            self.detail = error or subtype or "not said"
            self.end = "engine-error" if error.startswith(self._errors_begin) else "agent-error"
