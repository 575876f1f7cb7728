"""How much memory did it cost the machine to serve this run?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Literal

from bench.figures.inference_figures import NO_ENGINE
from bench.figures.measured import Formula, Formulas, Measured, absent, joined, missing
from bench.figures.run_evidence import Evidence
from bench.records.schema import MemorySample


def _swapped_in(evidence: Evidence) -> Measured:
    counted = [sample for sample in evidence.memory if sample.swapped_in_bytes is not None]
    segments = [list(samples) for samples in _samples_by_segment(evidence, counted)]
    steps = [step for samples in segments for step in _steps(samples)]
    if any(step < 0 for step in steps):
        return absent("the system's counter fell within a segment", len(counted))
    if not steps or min(map(len, segments)) < 2:
        return absent(_no_samples(evidence, counted, "how much was swapped in"), len(counted))
    return Measured(
        value=sum(steps),
        n=sum(map(len, segments)),
        includes="all processes of the machine, time spent blocked excluded",
    )


def _pressure(level: Literal["warning", "critical"]) -> Formula:
    def compute(evidence: Evidence) -> Measured:
        levels = [sample.pressure for sample in evidence.memory if sample.pressure is not None]
        if not levels:
            return absent(_no_samples(evidence, levels, "its memory pressure"))
        return Measured(value=levels.count(level), n=len(levels))

    return compute


ENGINE_SIZE = "the engine's resident size"


def _peak(name: Literal["engine_rss_bytes", "gpu_used_bytes"], what: str, includes: str) -> Formula:
    def compute(evidence: Evidence) -> Measured:
        sizes = [size for sample in evidence.memory if (size := getattr(sample, name)) is not None]
        if not sizes:
            return absent(_no_samples(evidence, sizes, what))
        silent = missing(len(evidence.memory) - len(sizes), evidence.memory, "samples")
        return Measured(value=max(sizes), n=len(sizes), includes=joined(includes, silent))

    return compute


def _here(formula: Formula) -> Formula:
    """A figure of the machine that the engine runs on; the harness can only sample its own."""

    def compute(evidence: Evidence) -> Measured:
        if all(_configured(evidence, "on_this_machine")):
            return formula(evidence)
        return absent("the engine runs on another machine than the one that was sampled")

    return compute


def _configured(evidence: Evidence, key: str) -> list[bool]:
    """What each segment says of its engine; True where it says nothing."""
    started = [entry.detail.get("configuration", {}) for entry in evidence.journal if entry.event == "segment-started"]
    return [bool(one.get("engine", {}).get(key, True)) for one in started if isinstance(one, dict)]


MEMORY: Formulas = {
    "swapped_in_bytes": _here(_swapped_in),
    "memory_pressure_warning": _here(_pressure("warning")),
    "memory_pressure_critical": _here(_pressure("critical")),
    "engine_rss_peak_bytes": _here(_peak("engine_rss_bytes", ENGINE_SIZE, "all processes of the engine")),
    "gpu_memory_peak_bytes": _here(_peak("gpu_used_bytes", "its GPU memory", "all GPUs, all processes that use them")),
}


def _samples_by_segment(evidence: Evidence, samples: list[MemorySample]) -> Iterator[list[MemorySample]]:
    for segment in evidence.segments:
        end = float("inf") if segment.ended_at is None else segment.ended_at
        later = [other.started_at for other in evidence.segments if other.started_at > segment.started_at]
        end = min(end, *later) if later else end
        yield [sample for sample in samples if segment.started_at <= sample.at <= end]


def _steps(samples: list[MemorySample]) -> Iterator[int]:
    for before, after in pairwise(sorted(samples, key=lambda sample: sample.at)):
        if before.swapped_in_bytes is not None and after.swapped_in_bytes is not None:
            yield after.swapped_in_bytes - before.swapped_in_bytes


def _no_samples(evidence: Evidence, told: Sequence[object], what: str) -> str:
    if not evidence.ran:
        return NO_ENGINE
    if not evidence.memory:
        return "no memory sample was taken"
    if not told and what == ENGINE_SIZE and not all(_configured(evidence, "owned")):
        return "the engine was attached: whose process answers cannot be told"
    return "fewer than two samples in one of the segments" if told else f"the system does not tell {what}"
