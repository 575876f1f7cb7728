"""Starts the embedded engine and ends it on SIGTERM or SIGINT."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from threading import Event, Lock, Thread
from types import FrameType

from bench.engines.embedded.arguments import read_arguments
from bench.engines.embedded.block_files import BlockFiles
from bench.engines.embedded.generation import Generator, Settings
from bench.engines.embedded.http_server import EngineServer
from bench.engines.embedded.prefix_cache import PrefixCache
from bench.engines.embedded.slots import Slots
from bench.engines.embedded.state_memory import StateMemory
from bench.engines.embedded.truth_log import TruthLog
from bench.errors import UsageError

_GRACE_SECONDS = 2.0
"""How long running requests are given to notice the stop and write their truth."""

_log_lock = Lock()


def main() -> int:
    """Exit code: 0 stopped by a signal, 2 a call or script that is wrong."""
    given = read_arguments()
    stop = Event()

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, on_signal)
    try:
        truth = TruthLog(given.truth)
        server = EngineServer((given.host, given.port), _settings(given), _log)
    except OSError as error:
        return _refuse(f"{error.filename or f'{given.host}:{given.port}'}: {error.strerror}")
    serving = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, name="accept")
    serving.start()
    try:
        _log(f"listening on http://{given.host}:{server.server_address[1]}")
        server.generator = _load(given, server.settings, truth)
        _log("ready")
        stop.wait()
    except UsageError as error:
        return _refuse(str(error))
    except OSError as error:
        return _refuse(f"{error.filename}: {error.strerror}")
    finally:
        server.stopping.set()
        server.shutdown()
        server.server_close()
        serving.join()
        give_up = time.monotonic() + _GRACE_SECONDS
        while server.generator is not None and server.generator.serving and time.monotonic() < give_up:
            time.sleep(0.01)
        truth.close()
    _log("stopped")
    return 0


def _settings(given: argparse.Namespace) -> Settings:
    return Settings(
        name=given.name,
        context_window=given.context_window,
        block_tokens=given.block_tokens,
        bytes_per_token=given.bytes_per_token,
        draft_tokens=given.draft_tokens,
        time_scale=given.time_scale,
    )


def _load(given: argparse.Namespace, settings: Settings, truth: TruthLog) -> Generator:
    # Imported here: pydantic takes a third of the start, and /health answers meanwhile.
    from bench.engines.embedded.script_file import load_script

    script = load_script(given.script)
    _log(f"script {given.script}: {script.about}")
    memory = StateMemory(
        _cache(given),
        budget_bytes=given.memory_bytes,
        block_tokens=given.block_tokens,
        bytes_per_token=given.bytes_per_token,
    )
    slots = Slots(given.parallel, time_scale=given.time_scale)
    return Generator(settings=settings, script=script, memory=memory, slots=slots, truth=truth, log=_log)


def _cache(given: argparse.Namespace) -> PrefixCache:
    files = None if given.ssd_dir is None else BlockFiles(given.ssd_dir)
    cache = PrefixCache(
        block_bytes=given.block_tokens * given.bytes_per_token,
        ram_bytes=given.ram_cache_bytes,
        ssd_bytes=given.ssd_cache_bytes,
        files=files,
    )
    if files is None:
        _log("cache: cold start, RAM tier only")
        return cache
    left_over = files.left_over()
    if given.ssd_keep:
        cache.adopt(left_over)
        _log(f"cache: warm start with {len(left_over)} blocks of an earlier launch in {given.ssd_dir}")
    else:
        for key in left_over:
            files.remove(key)
        _log(f"cache: cold start, {len(left_over)} blocks of an earlier launch removed from {given.ssd_dir}")
    return cache


def _log(text: str) -> None:
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    with _log_lock:
        sys.stderr.write(f"{stamp} embedded: {text}\n")
        sys.stderr.flush()


def _refuse(sentence: str) -> int:
    sys.stderr.write(f"python -m bench.engines.embedded: {sentence}\n")
    return 2


if __name__ == "__main__":
    sys.exit(main())
