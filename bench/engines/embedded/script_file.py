"""Reads `script.yaml` and the files beside it, once and whole: nothing in a script is found wrong while it is played."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from bench.engines.embedded.script_play import Fault, FaultKind, Intent, Script, ScriptSession, Turn
from bench.errors import FileFormatError
from bench.yaml_file import load_mapping, load_model

_LARGEST_FILE_BYTES = 4_000_000
_VERBS = ("write", "edit", "run", "read")
_FAULT_KEYS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "refuse": (("status", "message"), ("type", "code", "retry_after_seconds")),
    "error-event": (("after_tokens", "message"), ("type", "code")),
    "exit": ((), ("after_tokens",)),
    "unknown-tool": (("name",), ()),
    **dict.fromkeys(("reset", "cut", "stall", "keep-alive", "length"), (("after_tokens",), ())),
    **dict.fromkeys(("no-usage", "empty", "cut-call"), ((), ())),
}
"""Kind -> the keys that it must have beside `kind`, and those that it may have."""

Text = Annotated[str, StringConstraints(min_length=1)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, populate_by_name=False)


class _Entry(_Strict):
    write: Text | None = None
    edit: Text | None = None
    run: Text | None = None
    read: Text | None = None
    source: Text | None = Field(default=None, alias="from")
    text: str | None = None
    old: Text | None = None
    new: str | None = None

    @model_validator(mode="after")
    def _one_verb_with_its_keys(self) -> Self:
        verbs = [verb for verb in _VERBS if getattr(self, verb) is not None]
        if len(verbs) != 1:
            raise ValueError(f"expected exactly one of {', '.join(_VERBS)}, got {', '.join(verbs) or 'none'}")
        given = {key for key in ("source", "text", "old", "new") if getattr(self, key) is not None}
        forms = {"write": ({"source"}, {"text"}), "edit": ({"old", "new"},)}.get(verbs[0], (set(),))
        if given not in forms:
            wanted = {"write": "'from' or 'text'", "edit": "'old' and 'new'"}.get(verbs[0], "nothing")
            raise ValueError(f"'{verbs[0]}' takes {wanted} beside it")
        target = self.write or self.edit or self.read
        if target is not None and (PurePosixPath(target).is_absolute() or ".." in PurePosixPath(target).parts):
            raise ValueError(f"'{target}' must be a path inside the project")
        return self


class _Fault(_Strict):
    kind: FaultKind
    after_tokens: Annotated[int, Field(ge=0)] | None = None
    status: Annotated[int, Field(ge=400, le=599)] | None = None
    message: Text | None = None
    type: Text | None = None
    code: Text | int | None = None
    retry_after_seconds: Annotated[float, Field(ge=0, strict=False)] | None = None
    name: Annotated[str, StringConstraints(min_length=1, max_length=128)] | None = None

    @model_validator(mode="after")
    def _keys_of_its_kind(self) -> Self:
        needed, allowed = _FAULT_KEYS[self.kind]
        given = {key for key, value in self if value is not None and key != "kind"}
        if missing := [key for key in needed if key not in given]:
            raise ValueError(f"'{self.kind}' needs {' and '.join(missing)}")
        if strange := sorted(given - {*needed, *allowed}):
            raise ValueError(f"'{self.kind}' takes no {' or '.join(strange)}")
        if self.kind == "length" and self.after_tokens == 0:
            raise ValueError("'length' needs after_tokens of at least 1")
        return self

    def read(self) -> Fault:
        given = {key: value for key, value in self if value is not None}
        if self.kind in ("refuse", "error-event") and self.type is None:
            given["type"] = "invalid_request_error" if self.status and self.status < 500 else "server_error"
        return Fault(**given)


class _Turn(_Strict):
    think: Text | None = None
    say: Text | None = None
    do: Annotated[list[_Entry], Field(min_length=1)] | None = None
    fault: _Fault | None = None

    @model_validator(mode="after")
    def _something(self) -> Self:
        speaks = self.think is not None or self.say is not None or self.do is not None
        if self.fault is None:
            if not speaks:
                raise ValueError("a turn needs at least one of think, say, do")
            return self
        kind = self.fault.kind
        if kind in ("refuse", "empty") and speaks:
            raise ValueError(f"a turn whose fault is '{kind}' has no think, say or do")
        if kind == "cut-call" and self.do is None:
            raise ValueError("a turn whose fault is 'cut-call' needs do")
        some = bool(self.fault.after_tokens) or kind == "no-usage"
        if some and not speaks:
            raise ValueError(f"a turn whose fault is '{kind}' needs at least one of think, say, do")
        return self


class _Session(_Strict):
    role: Literal["bootstrap", "builder", "reviewer", "replan", "final-reviewer", "session"]
    task: Text | None = None
    attempt: Annotated[int, Field(ge=1)] | None = None
    retry: Annotated[int, Field(ge=0)] | None = None
    free_bytes: Annotated[int, Field(ge=0)] | None = None
    free_bytes_from_turn: Annotated[int, Field(ge=0)] = 0
    turns: Annotated[list[_Turn], Field(min_length=1)]


class _ScriptFile(_Strict):
    about: Text
    sessions: Annotated[list[_Session], Field(min_length=1)]


def load_script(folder: Path) -> Script:
    """Reads `folder/script.yaml` and every file that it names.

    Such a file may lie beside the script or beside another script of the same workload (`../sound/files/x`). Raises
    FileFormatError with file, line and key, UsageError when the script itself cannot be read.
    """
    path = folder / "script.yaml"
    data = load_model(path, _ScriptFile)
    texts: dict[str, str] = {}
    sessions = []
    for at, session in enumerate(data.sessions):
        turns = []
        for number, turn in enumerate(session.turns):
            key = ("sessions", at, "turns", number, "do")
            intents = tuple(
                _intent(entry, folder, path, (*key, place), texts) for place, entry in enumerate(turn.do or ())
            )
            fault = None if turn.fault is None else turn.fault.read()
            turns.append(Turn(think=turn.think or "", say=turn.say or "", intents=intents, fault=fault))
        sessions.append(
            ScriptSession(
                role=session.role,
                task=session.task,
                attempt=session.attempt,
                retry=session.retry,
                free_bytes=session.free_bytes,
                free_bytes_from_turn=session.free_bytes_from_turn,
                turns=tuple(turns),
            )
        )
    return Script(about=data.about, sessions=tuple(sessions))


def _intent(entry: _Entry, folder: Path, path: Path, key: tuple[str | int, ...], texts: dict[str, str]) -> Intent:
    if entry.source is not None and entry.source not in texts:
        try:
            texts[entry.source] = _read(folder, entry.source)
        except ValueError as error:
            line = load_mapping(path)[1].get((*key, "from"))
            place = ".".join(str(part) for part in (*key, "from"))
            raise FileFormatError(path, f"key '{place}': {error}", line=line) from error
    if entry.write is not None:
        text = texts[entry.source] if entry.source is not None else entry.text
        return Intent(verb="write", path=entry.write, text=text or "")
    if entry.edit is not None:
        return Intent(verb="edit", path=entry.edit, old=entry.old or "", new=entry.new or "")
    if entry.run is not None:
        return Intent(verb="run", command=entry.run)
    return Intent(verb="read", path=entry.read or "")


def _read(folder: Path, name: str) -> str:
    """Text of a file that belongs to this workload's scripts. Raises ValueError saying what is wrong with it."""
    scripts = folder.resolve().parent
    file = (folder / name).resolve()
    if not file.is_relative_to(scripts):
        raise ValueError(f"'{name}' lies outside the workload's scripts")
    if not file.is_file():
        raise ValueError(f"there is no file '{name}'")
    if file.stat().st_size > _LARGEST_FILE_BYTES:
        raise ValueError(f"'{name}' is larger than {_LARGEST_FILE_BYTES:,} bytes")
    try:
        return file.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"'{name}' is not UTF-8 (byte {error.start})") from error
