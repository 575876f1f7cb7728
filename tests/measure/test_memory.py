from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from bench.errors import EvidenceError
from bench.measure import memory_reading as reading
from bench.measure.memory import MemorySampler, read_samples

VM_STAT = """Mach Virtual Memory Statistics: (page size of 16384 bytes)
Pages free:                                5000.
Pages active:                            900000.
Pages inactive:                            3000.
Pages speculative:                          200.
"Translation faults":                1234567890.
Swapins:                                 412345.
Swapouts:                                512345.
"""
PSI = "some avg10={some} avg60=0.10 avg300=0.00 total=123\nfull avg10={full} avg60=0.00 avg300=0.00 total=45\n"


def test_linux_texts():
    assert reading.linux_swapped_in("nr_free_pages 5\npswpin 12\npswpout 9\n", 4096) == 49152
    assert reading.linux_available("MemTotal: 10 kB\nMemAvailable:    2048 kB\n") == 2048 * 1024


@pytest.mark.parametrize(
    ("some", "full", "level"),
    [
        ("0.00", "0.00", "normal"),
        ("9.99", "9.99", "normal"),
        ("10.00", "1.00", "warning"),
        ("40.5", "10.00", "critical"),
    ],
)
def test_linux_pressure(some, full, level):
    assert reading.linux_pressure(PSI.format(some=some, full=full)) == level


def test_macos_texts():
    assert reading.macos_swapped_in(VM_STAT) == 412345 * 16384
    assert reading.macos_available(VM_STAT) == 8200 * 16384
    assert [reading.macos_pressure(text) for text in ("1\n", "2\n", "4\n", "", "3")] == [
        "normal",
        "warning",
        "critical",
        None,
        None,
    ]
    assert reading.macos_rss("  10  100\n  11  50\n 12 7\nx\n", {10, 12}) == 107 * 1024


@pytest.mark.parametrize(
    ("text", "used"),
    [
        ("1024\n", 1024 * 2**20),
        (" 300\n24\n\n", 324 * 2**20),
        ("300\n[N/A]\n", None),
        ("No devices were found\n", None),
        ("-3\n", None),
        ("", None),
    ],
)
def test_gpu_memory(text, used):
    assert reading.nvidia_used(text) == used


def test_nvidia_smi_is_asked_where_it_is(tmp_path, monkeypatch):
    program = tmp_path / "nvidia-smi"
    program.write_text('#!/bin/sh\n[ "$1" = --query-gpu=memory.used ] && echo 512\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    if sys.platform == "linux":
        assert reading.read_memory(None).gpu_used_bytes == 512 * 2**20
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    assert reading.read_memory(None).gpu_used_bytes is None


@pytest.mark.parametrize("text", ["", "nonsense\n", "pswpin x\n", "page size of x bytes\nSwapins: 3."])
def test_what_a_system_does_not_tell_is_none(text):
    assert reading.linux_swapped_in(text, 4096) is None
    assert reading.linux_pressure(text) is None
    assert reading.linux_available(text) is None
    assert reading.macos_swapped_in(text) is None
    assert reading.macos_available(text) is None
    assert reading.macos_rss(text, {1}) is None


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_this_machine():
    child = subprocess.Popen(["sleep", "60"])
    try:
        alone = reading.read_memory(child.pid)
        tree = reading.read_memory(os.getpid())
    finally:
        child.kill()
        child.wait()
    assert alone.available_bytes > 0
    assert 0 < alone.engine_rss_bytes < tree.engine_rss_bytes
    assert reading.read_memory(None).engine_rss_bytes is None
    assert reading.read_memory(child.pid).engine_rss_bytes is None


def test_samples_by_the_clock_and_at_boundaries(tmp_path):
    path = tmp_path / "memory.jsonl"
    with MemorySampler(path, os.getpid, seconds=0.01) as sampler:
        sampler.boundary()
        while len(read_samples(path, warn=lambda _: None)) < 6:
            time.sleep(0.01)
    samples = read_samples(path, warn=pytest.fail)
    assert samples[0].boundary
    assert samples[-1].boundary
    assert sum(sample.boundary for sample in samples) == 3
    assert [sample.at for sample in samples[-3:]] == sorted(sample.at for sample in samples[-3:])
    assert all(sample.engine_rss_bytes for sample in samples)


def test_a_torn_line_is_said_and_cut_by_the_next_segment(tmp_path):
    path = tmp_path / "memory.jsonl"
    with MemorySampler(path, lambda: None):
        pass
    with path.open("a") as stream:
        stream.write('{"at": 1.0, "bound')
    said = []
    assert len(read_samples(path, warn=said.append)) == 2
    assert "line 3 is torn" in said[0]
    with MemorySampler(path, lambda: None):
        pass
    assert len(read_samples(path, warn=pytest.fail)) == 4


def test_damage_and_a_place_that_cannot_be_written(tmp_path):
    path = tmp_path / "memory.jsonl"
    assert read_samples(path, warn=pytest.fail) == ()
    path.write_text('{"at": 1}\n')
    with pytest.raises(EvidenceError, match="line 1 is damaged"):
        read_samples(path, warn=pytest.fail)
    with pytest.raises(EvidenceError, match="cannot be written"), MemorySampler(tmp_path / "no" / "m", lambda: None):
        pass
