"""llama.cpp's own HTTP server out of PyPI's xllamacpp, started with llama-server's flags: `python -m bench.engines.llama_launcher`.

xllamacpp has the server as a library but no command. A flag that is not in the list below is refused, because a
flag that is silently left out would change what is measured. Exit code 2: wrong use; 1: the server did not start.
"""

from __future__ import annotations

import argparse
import importlib
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn


@dataclass(frozen=True)
class Flag:
    """One flag of llama-server and the setting of xllamacpp's `CommonParams` that it stands for."""

    names: tuple[str, ...]
    setting: str
    """Dotted, below `CommonParams`."""

    read: Callable[[str], Any] = str
    constant: Any = None
    """Not None: the flag takes no value and means this."""


def _at_least(lowest: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        number = int(text)
        if number < lowest:
            raise argparse.ArgumentTypeError(f"expected a whole number of at least {lowest}, got {text}")
        return number

    read.__name__ = "whole number"
    return read


def _file(text: str) -> str:
    if not Path(text).is_file():
        raise argparse.ArgumentTypeError(f"{text} does not exist")
    return text


def _text_of(text: str) -> str:
    return Path(_file(text)).read_text(encoding="utf-8")


def _enum(enum_name: str, member: Callable[[str], str]) -> Callable[[str], Any]:
    """Reads the name of a member of one of xllamacpp's enumerations."""

    def read(text: str) -> Any:
        found = getattr(getattr(importlib.import_module("xllamacpp"), enum_name), member(text), None)
        if found is None:
            raise argparse.ArgumentTypeError(f"unknown value '{text}'")
        return found

    return read


_CACHE_TYPE = _enum("ggml_type", lambda text: f"GGML_TYPE_{text.upper()}")
_FLASH = {"on": "ENABLED", "off": "DISABLED", "auto": "AUTO"}
_FLASH_TYPE = _enum("llama_flash_attn_type", lambda text: f"LLAMA_FLASH_ATTN_TYPE_{_FLASH.get(text)}")
_SPEC_TYPE = _enum("common_speculative_type", lambda text: f"COMMON_SPECULATIVE_TYPE_{text.upper().replace('-', '_')}")

FLAGS = (
    Flag(("-m", "--model"), "model.path", _file),
    Flag(("-a", "--alias"), "model_alias", lambda text: set(text.split(","))),
    Flag(("--host",), "hostnames", lambda text: [text]),
    Flag(("--port",), "port", _at_least(1)),
    Flag(("-c", "--ctx-size"), "n_ctx", _at_least(0)),
    Flag(("-n", "--predict", "--n-predict"), "n_predict", _at_least(-1)),
    Flag(("-np", "--parallel"), "n_parallel", _at_least(1)),
    Flag(("-b", "--batch-size"), "n_batch", _at_least(1)),
    Flag(("-ub", "--ubatch-size"), "n_ubatch", _at_least(1)),
    Flag(("-t", "--threads"), "cpuparams.n_threads", _at_least(1)),
    Flag(("-tb", "--threads-batch"), "cpuparams_batch.n_threads", _at_least(1)),
    Flag(("--threads-http",), "n_threads_http", _at_least(1)),
    Flag(("-ngl", "--gpu-layers", "--n-gpu-layers"), "n_gpu_layers", _at_least(-1)),
    Flag(("-fa", "--flash-attn"), "flash_attn_type", _FLASH_TYPE),
    Flag(("-ctk", "--cache-type-k"), "cache_type_k", _CACHE_TYPE),
    Flag(("-ctv", "--cache-type-v"), "cache_type_v", _CACHE_TYPE),
    Flag(("-cram", "--cache-ram"), "cache_ram_mib", _at_least(-1)),
    Flag(("--cache-reuse",), "n_cache_reuse", _at_least(0)),
    Flag(("--no-cache-prompt",), "cache_prompt", constant=False),
    Flag(("--slot-save-path",), "slot_save_path"),
    Flag(("--chat-template",), "chat_template"),
    Flag(("--chat-template-file",), "chat_template", _text_of),
    Flag(("--jinja",), "use_jinja", constant=True),
    Flag(("--temp", "--temperature"), "sampling.temp", float),
    Flag(("-s", "--seed"), "sampling.seed", _at_least(0)),
    Flag(("-md", "--model-draft"), "speculative.draft.mparams.path", _file),
    Flag(("--spec-type",), "speculative.types", lambda text: [_SPEC_TYPE(name) for name in text.split(",")]),
    Flag(("--spec-draft-n-max",), "speculative.draft.n_max", _at_least(1)),
    Flag(("-td", "--threads-draft"), "speculative.draft.cpuparams.n_threads", _at_least(1)),
    Flag(("-tbd", "--threads-batch-draft"), "speculative.draft.cpuparams_batch.n_threads", _at_least(1)),
    Flag(("--metrics",), "endpoint_metrics", constant=True),
    Flag(("--props",), "endpoint_props", constant=True),
    Flag(("--no-slots",), "endpoint_slots", constant=False),
    Flag(("--no-warmup",), "warmup", constant=False),
    Flag(("-lv", "--verbosity", "--log-verbosity"), "verbosity", _at_least(0)),
)


class _OneLineParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        print(f"llama_launcher: {message}", file=sys.stderr)
        sys.exit(2)


def read_flags(argv: Sequence[str]) -> dict[str, Any]:
    """Settings of `CommonParams` by dotted name. Ends the process with exit code 2 and one line on wrong use."""
    parser = _OneLineParser(prog="llama_launcher", allow_abbrev=False, description=__doc__)
    for flag in FLAGS:
        if flag.constant is None:
            parser.add_argument(*flag.names, dest=flag.setting, type=flag.read, default=argparse.SUPPRESS)
        else:
            parser.add_argument(
                *flag.names, dest=flag.setting, action="store_const", const=flag.constant, default=argparse.SUPPRESS
            )
    known, unknown = parser.parse_known_args(argv)
    if unknown:
        names = ", ".join(flag.names[0] for flag in FLAGS)
        parser.error(f"unknown flag '{unknown[0]}'; a llama-server on PATH takes every flag, this launcher: {names}")
    settings = dict(vars(known))
    if "model.path" not in settings or "port" not in settings:
        parser.error("needs -m FILE and --port N")
    for threads in ("cpuparams", "speculative.draft.cpuparams"):
        # As llama-server does: threads for batches are those for single tokens unless told otherwise.
        if f"{threads}.n_threads" in settings:
            settings.setdefault(f"{threads}_batch.n_threads", settings[f"{threads}.n_threads"])
    return settings


def apply(settings: dict[str, Any], params: Any) -> None:
    """Writes each setting where its dotted name says."""
    for dotted, value in settings.items():
        *parents, last = dotted.split(".")
        place = params
        for parent in parents:
            place = getattr(place, parent)
        setattr(place, last, value)


def main() -> int:
    try:
        xllamacpp = importlib.import_module("xllamacpp")
    except ImportError as error:
        print(f"llama_launcher: {error}; python -m pip install 'xllamacpp>=2026.10'", file=sys.stderr)
        return 1
    settings = read_flags(sys.argv[1:])
    params = xllamacpp.CommonParams()
    apply(settings, params)
    if "sampling.temp" in settings:
        # Marks it as a person's choice, which a temperature in the model file does not override.
        params.sampling.user_sampling_config |= int(
            xllamacpp.common_params_sampling_config.COMMON_PARAMS_SAMPLING_CONFIG_TEMP
        )
    print(f"llama_launcher: xllamacpp {xllamacpp.__version__}", file=sys.stderr, flush=True)
    try:
        server = xllamacpp.Server(params)
    except RuntimeError as error:
        print(f"llama_launcher: {error}", file=sys.stderr)
        return 1
    print(f"llama_launcher: {server.listening_address}", file=sys.stderr, flush=True)
    while True:
        # The server runs in threads of its own until a signal ends the process.
        signal.pause()


if __name__ == "__main__":
    sys.exit(main())
