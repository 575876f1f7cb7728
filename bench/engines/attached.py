"""An engine that somebody else started, reached by its URL: asked what it is and serves, and never stopped."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from bench.contracts import Progress, ProgressSink
from bench.engines.engine_http import Answer, Endpoint
from bench.errors import EngineStartError, UsageError
from bench.spec import ENGINE_KEY

if TYPE_CHECKING:
    from bench.engines.profile import ProfileFile

_MODELS = "/v1/models"
_HOST = re.compile(
    r"(?=.{1,253}$)[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*\.?|(?=.*:)[0-9A-Fa-f:.]{2,45}(%[A-Za-z0-9]+)?"
)
_PROBE_SECONDS = 2.0
_ALIVE_SECONDS = 1.0
"""How long an answer to "is it there?" holds."""

_LISTED = 20


@dataclass(frozen=True, kw_only=True)
class Reached:
    """What answers at a URL, as far as it could be told."""

    url: str
    """In one form: no `/v1`, no slash at the end."""

    endpoint: Endpoint
    model: str
    recognised: bool


class AttachedEngine:
    """An engine at a URL; implements `contracts.EngineHandle`. Its key is used and never shown."""

    def __init__(
        self,
        found: Reached,
        profile: ProfileFile,
        *,
        name: str,
        version: str | None,
        context_window: int | None,
        granted: Mapping[str, str],
    ) -> None:
        self.owned = False
        self.profile = profile.contract(name)
        self.url = found.url
        self.host = found.endpoint.host
        self.port = found.endpoint.port
        self.argv: tuple[str, ...] = ()
        self.version = version or "not told"
        self.binary_sha256: str | None = None
        self.model = found.model
        self.model_sha256: str | None = None
        self.context_window = context_window
        self.granted = granted
        self.log: Path | None = None
        self.disk_cache: Path | None = None
        self.warm_arg: str | None = None
        attached = "attached by its URL, started by somebody else"
        self.not_known: Mapping[str, str] = {
            **dict.fromkeys(("argv", "binary_sha256", "model_sha256", "log", "pid"), attached),
            **({} if version else {"version": "the engine does not tell it where its profile looks"}),
            **({} if context_window else {"context_window": "the engine does not tell it where its profile looks"}),
            **({} if found.recognised else {"kind": "the profile has no way to recognise this engine"}),
        }
        self._endpoint = found.endpoint
        self._lock = Lock()
        self._trouble: str | None = None
        self._ask_again_at = 0.0

    @property
    def pid(self) -> int | None:
        """None: whose process answers at a URL cannot be told for sure."""
        return None

    def ask(self, method: str, path: str, body: object = None, *, seconds: float = 5.0) -> Answer:
        """One HTTP request to the engine, past the relay; see `Endpoint.ask`."""
        return self._endpoint.ask(method, path, body, seconds=seconds)

    def dead(self) -> str | None:
        """Why nothing takes connections there any more, or None. The answer holds for a second."""
        with self._lock:
            if time.monotonic() >= self._ask_again_at:
                self._trouble = self._connect()
                self._ask_again_at = time.monotonic() + _ALIVE_SECONDS
            return self._trouble

    def stop(self) -> None:
        """Does nothing: an attached engine belongs to whoever started it."""

    def _connect(self) -> str | None:
        try:
            socket.create_connection((self.host, self.port), timeout=_PROBE_SECONDS).close()
        except TimeoutError:
            return None  # slow to accept is not gone
        except OSError as error:
            return f"nothing takes connections at {self.host}:{self.port} any more ({error.strerror})"
        return None


def attach(
    url: str, *, profile_name: str, model: str | None, api_key: str | None, progress: ProgressSink
) -> AttachedEngine:
    """Takes an engine that runs already. `model` None or empty: the one that it serves.

    Raises UsageError (a URL that is none, another kind of engine, an unknown model, a key that is missing or wrong),
    EngineStartError (nothing answers, or it is still loading).
    """
    from bench.engines.granted import Facts
    from bench.engines.profile import read_profile

    profile = read_profile(profile_name)
    found = reach(url, profile_name=profile_name, model=model, api_key=api_key)
    facts = Facts(found.endpoint, model=found.model, log=None)
    engine = AttachedEngine(
        found,
        profile,
        name=profile_name,
        version=facts.version(profile),
        context_window=facts.context_window(profile),
        granted=facts.granted(profile),
    )
    progress(Progress(text=f"{profile.title}: attached at {found.url}, model {engine.model}, version {engine.version}"))
    return engine


def reach(url: str, *, profile_name: str, model: str | None, api_key: str | None) -> Reached:
    """Whether an engine of this kind answers at a URL, and which model it serves. Raises as `attach` does."""
    from bench.engines.profile import read_profile

    profile = read_profile(profile_name)
    host, port = read_url(url)
    shown = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    endpoint = Endpoint(host, port, api_key=api_key)
    answer = endpoint.ask("GET", profile.ready.path)
    if answer.status is None:
        raise EngineStartError(f"nothing answers at {shown}: start {profile.title} first, or correct --engine-url")
    if answer.status in profile.ready.loading:
        raise EngineStartError(f"{shown} is still loading (HTTP {answer.status}): try again when it is ready")
    _check_key(answer, shown, has_key=endpoint.has_key)
    models = endpoint.ask("GET", _MODELS)
    _check_key(models, shown, has_key=endpoint.has_key)
    recognised = _recognise(endpoint, profile, shown)
    if answer.status != 200:
        raise UsageError(
            f"{shown} answers HTTP {answer.status} to GET {profile.ready.path}, which {profile.title} does not: "
            "is --engine right?"
        )
    return Reached(url=shown, endpoint=endpoint, model=_model(model, models, shown), recognised=recognised)


def read_url(url: str) -> tuple[str, int]:
    """Host and port of `http://HOST:PORT`, with or without `/v1`. Raises UsageError; its text holds no password."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        parts, host, port = urlsplit(""), None, None
    if parts.username is not None or parts.password is not None:
        raise UsageError(f"--engine-url: a key or password has no place in it; put the key into {ENGINE_KEY}")
    if parts.scheme == "https":
        raise UsageError(
            "--engine-url: https is not spoken here; reach the engine through a tunnel that ends on this machine, "
            "e.g. ssh -L, and give its http address"
        )
    plain = parts.path.rstrip("/") in ("", "/v1") and not parts.query and not parts.fragment
    if parts.scheme != "http" or not host or not plain or not _HOST.fullmatch(host):
        raise UsageError("--engine-url: expected http://HOST:PORT")
    return host, port if port is not None else 80


def _check_key(answer: Answer, shown: str, *, has_key: bool) -> None:
    if answer.status in (401, 403):
        state = f"refuses the key of {ENGINE_KEY}" if has_key else f"wants a key: put it into {ENGINE_KEY}"
        raise UsageError(f"{shown} {state} (HTTP {answer.status})")


def _recognise(endpoint: Endpoint, profile: ProfileFile, shown: str) -> bool:
    """Whether the engine is known to be of this kind. Raises UsageError where it is known not to be."""
    from bench.engines.profile import list_profiles, read_profile

    asked: dict[str, Answer] = {}
    if _has_mark(endpoint, profile, asked):
        return True
    if not profile.recognised_by:
        return False
    others = (name for name in list_profiles() if _has_mark(endpoint, read_profile(name), asked))
    looks = next((f"; it looks like --engine {name}" for name in others), "")
    raise UsageError(f"what answers at {shown} is not {profile.title}{looks}")


def _has_mark(endpoint: Endpoint, profile: ProfileFile, asked: dict[str, Answer]) -> bool:
    for mark in profile.recognised_by:
        if mark.path not in asked:
            asked[mark.path] = endpoint.ask("GET", mark.path)
        if asked[mark.path].status == 200 and re.search(mark.pattern, asked[mark.path].text):
            return True
    return False


def _model(wanted: str | None, models: Answer, shown: str) -> str:
    from bench.engines.profile import value_at

    listed = value_at(models.json(), "data") if models.status == 200 else None
    items = listed if isinstance(listed, list) else []
    names = [item["id"] for item in items if isinstance(item, dict) and isinstance(item.get("id"), str)]
    if wanted and (wanted in names or not names):
        return wanted
    if not wanted and len(names) == 1:
        return str(names[0])
    there = ", ".join(names[:_LISTED]) + (" ..." if len(names) > _LISTED else "")
    if wanted:
        raise UsageError(f"{shown} does not serve the model '{wanted}'; it serves: {there}")
    if names:
        raise UsageError(f"{shown} serves several models; choose one with --model: {there}")
    raise UsageError(f"{shown} does not tell which model it serves; name it with --model")
