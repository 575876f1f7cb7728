"""Which model an engine serves: a script of the embedded engine, or a GGUF file. Everything wrong is said before a start."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from bench.engines.embedded.script_file import load_script
from bench.engines.profile import launch_part, read_profile
from bench.engines.program import sha256_of
from bench.errors import FileFormatError, UsageError
from bench.spec import ENGINE_KEY, REPOSITORY, EngineSpec, engine_key, environment
from bench.yaml_file import load_mapping

if TYPE_CHECKING:
    from bench.engines.profile import ProfileFile

SCRIPTS = REPOSITORY / "fixtures" / "scripts"

_GGUF_MAGIC = b"GGUF"


def engine_spec(
    *, engine: str, model: str | None, args: tuple[str, ...], workload_id: str, url: str | None = None
) -> EngineSpec:
    """Reads `--engine`, `--model`, `--engine-url` and the engine's own arguments; None as model takes the default.

    With a URL the engine is asked which model it serves. Raises UsageError whose one line lists what exists (engines,
    scripts, models) or says what is wrong with the file; EngineStartError where nothing answers at the URL.
    """
    profile = read_profile(engine)
    if url is not None:
        return _attached_spec(engine, url, model, args)
    kind = launch_part(profile).model
    check_args(profile, args)
    if kind == "file":
        file = check_gguf(Path(model).expanduser()) if model else _no_file(engine)
        return EngineSpec(name=engine, model=file.stem, model_file=file, args=args)
    if kind == "name" and not model:
        raise UsageError(f"engine '{engine}' needs the name of a model: --model NAME")
    if kind in ("name", "none"):
        return EngineSpec(name=engine, model=model or engine, args=args)
    name = model or default_model(engine, workload_id)
    load_script(script_folder(name, workload_id))
    return EngineSpec(name=engine, model=name, args=args)


def _attached_spec(engine: str, url: str, model: str | None, args: tuple[str, ...]) -> EngineSpec:
    from bench.engines.attached import reach

    if args:
        raise UsageError("--engine-arg has no place with --engine-url: somebody else started that engine")
    spec = EngineSpec(
        name=engine, model=model or "", url=url, api_key_env=ENGINE_KEY if environment(ENGINE_KEY) else None
    )
    found = reach(url, profile_name=engine, model=model, api_key=engine_key(spec))
    return replace(spec, model=found.model, url=found.url)


def default_model(engine: str, workload_id: str, *, scripts: Path = SCRIPTS) -> str:
    """The script that `fixtures/scripts/<workload>/index.yaml` names. Raises UsageError where there is no default."""
    if launch_part(read_profile(engine)).model == "file":
        _no_file(engine)
    index = scripts / workload_id / "index.yaml"
    if not index.is_file():
        raise UsageError(f"workload '{workload_id}' has no default model for engine '{engine}'; say --model NAME")
    data, lines = load_mapping(index)
    name = data.get("default")
    if set(data) != {"default"} or not isinstance(name, str):
        raise FileFormatError(index, "expected one key, 'default', with the name of a script", line=1)
    if name not in list_scripts(workload_id, scripts=scripts):
        raise FileFormatError(index, f"key 'default': no script '{name}' lies beside it", line=lines[("default",)])
    return name


def list_scripts(workload_id: str, *, scripts: Path = SCRIPTS) -> tuple[str, ...]:
    """Names of the scripts that the embedded engine can play for this workload."""
    return tuple(sorted(path.parent.name for path in (scripts / workload_id).glob("*/script.yaml")))


def script_folder(name: str, workload_id: str, *, scripts: Path = SCRIPTS) -> Path:
    """Where a script lies. Raises UsageError that lists those that exist."""
    known = list_scripts(workload_id, scripts=scripts)
    if name not in known:
        there = ", ".join(known) or "none"
        raise UsageError(f"unknown script '{name}' for workload '{workload_id}'; there are: {there}")
    return scripts / workload_id / name


def check_args(profile: ProfileFile, args: tuple[str, ...]) -> None:
    """Raises UsageError for an argument that the launch itself must set."""
    own = launch_part(profile).own_args
    for arg in args:
        if arg.partition("=")[0] in own:
            raise UsageError(f"engine argument '{arg}' is set by the harness itself; leave out {', '.join(own)}")


def check_gguf(path: Path) -> Path:
    """The absolute path of a model file. Raises UsageError if it is missing or not GGUF."""
    if not path.is_file():
        raise UsageError(f"model file {path} does not exist; `make real-model` fetches a small one into models/")
    try:
        with path.open("rb") as file:
            magic = file.read(len(_GGUF_MAGIC))
    except OSError as error:
        raise UsageError(f"model file {path} cannot be read: {error.strerror}") from error
    if magic != _GGUF_MAGIC:
        raise UsageError(f"model file {path} is not a GGUF file: it begins with {magic!r} instead of {_GGUF_MAGIC!r}")
    return path.absolute()


def folder_sha256(folder: Path) -> str:
    """Digest over names and contents of the files of a folder; what changes a script changes it."""
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest.update(f"{path.relative_to(folder).as_posix()}\0{sha256_of(path)}\n".encode())
    return digest.hexdigest()


def _no_file(engine: str) -> Path:
    raise UsageError(f"engine '{engine}' needs a model file: --model FILE.gguf (`make real-model` fetches a small one)")
