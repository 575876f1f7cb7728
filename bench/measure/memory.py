"""How short of memory was the machine? Samples by the clock and at session boundaries, as lines of `memory.jsonl`."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.errors import EvidenceError
from bench.measure.line_file import drop_torn_line
from bench.measure.memory_reading import read_memory
from bench.records.schema import MemorySample


class MemorySampler:
    """Appends a sample every `seconds` and at each `boundary()`. A context manager; a first and a last sample are taken.

    `engine_pid` gives the engine's process, or None while there is none. Raises EvidenceError where the file cannot
    be written.
    """

    def __init__(self, path: Path, engine_pid: Callable[[], int | None], seconds: float = 30) -> None:
        self._path = path
        self._engine_pid = engine_pid
        self._seconds = seconds
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._fault: OSError | None = None
        self._thread = threading.Thread(target=self._run, name="memory", daemon=True)

    def __enter__(self) -> Self:
        try:
            drop_torn_line(self._path)
        except OSError as error:
            raise EvidenceError(f"{self._path}: cannot be written ({error.strerror})") from error
        self.boundary()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        if kind is None:
            self.boundary()

    def boundary(self) -> None:
        """Takes a sample now: a session, or the run, begins or ends."""
        try:
            self._take(boundary=True)
        except OSError as error:
            self._fault = error
        if self._fault is not None:
            raise EvidenceError(f"{self._path}: cannot be written ({self._fault.strerror})") from self._fault

    def _run(self) -> None:
        while not self._stop.wait(self._seconds):
            try:
                self._take(boundary=False)
            except OSError as error:
                self._fault = error  # raised by the next boundary
                return

    def _take(self, *, boundary: bool) -> None:
        reading = read_memory(self._engine_pid())
        sample = MemorySample(
            at=time.time(),
            boundary=boundary,
            swapped_in_bytes=reading.swapped_in_bytes,
            pressure=reading.pressure,
            engine_rss_bytes=reading.engine_rss_bytes,
            available_bytes=reading.available_bytes,
            gpu_used_bytes=reading.gpu_used_bytes,
        )
        line = json.dumps(asdict(sample), separators=(",", ":")) + "\n"
        with self._lock, self._path.open("a", encoding="utf-8") as stream:
            stream.write(line)


def read_samples(path: Path, *, warn: Callable[[str], None]) -> tuple[MemorySample, ...]:
    """The samples of a `memory.jsonl`. A torn last line is said through `warn`. Raises EvidenceError on other damage."""
    samples = []
    try:
        with path.open("rb") as stream:
            for number, line in enumerate(stream, 1):
                if not line.endswith(b"\n"):
                    warn(f"{path}: line {number} is torn; that sample is lost")
                    break
                samples.append(MemorySample(**json.loads(line)))
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise EvidenceError(f"{path}: cannot be read ({error.strerror})") from error
    except (ValueError, TypeError, RecursionError) as error:
        raise EvidenceError(f"{path}: line {len(samples) + 1} is damaged ({error})") from error
    return tuple(samples)
