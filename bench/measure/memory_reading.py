"""What does the system say about its memory? Linux from /proc; macOS from vm_stat, sysctl and ps.

Pressure on macOS is the kernel's own level. On Linux it is made of PSI, averaged over ten seconds: `critical` when
all tasks at once stood still for memory in 10 % of the time, `warning` when some task did, else `normal`.
GPU memory comes from nvidia-smi where it is on PATH. What a system does not tell is None.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bench.processes import descendants

Pressure = Literal["normal", "warning", "critical"]

PRESSURE_PERCENT = 10.0
_PSI = re.compile(r"^(some|full) avg10=([0-9]+(?:\.[0-9]+)?) ", re.MULTILINE)
_VM_STAT_PAGE = re.compile(r"page size of ([0-9]+) bytes")
_NVIDIA = ("nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits")
_MIB = re.compile(r"[0-9]{1,9}")
_PRESSURE_LEVELS: dict[str, Pressure] = {"1": "normal", "2": "warning", "4": "critical"}


@dataclass(frozen=True, kw_only=True)
class Reading:
    swapped_in_bytes: int | None
    """Counter since boot."""

    pressure: Pressure | None
    engine_rss_bytes: int | None
    """Over the engine's process and all that descend from it."""

    available_bytes: int | None
    gpu_used_bytes: int | None
    """On all GPUs together, by whichever process."""


def read_memory(engine_pid: int | None) -> Reading:
    """Reads this machine's memory now."""
    if sys.platform == "darwin":
        return _read_macos(engine_pid)
    page = os.sysconf("SC_PAGE_SIZE")
    return Reading(
        swapped_in_bytes=linux_swapped_in(_text("/proc/vmstat"), page),
        pressure=linux_pressure(_text("/proc/pressure/memory")),
        engine_rss_bytes=None if engine_pid is None else _linux_rss(engine_pid, page),
        available_bytes=linux_available(_text("/proc/meminfo")),
        gpu_used_bytes=nvidia_used(_output(*_NVIDIA)) if shutil.which(_NVIDIA[0]) else None,
    )


def linux_swapped_in(vmstat: str, page_bytes: int) -> int | None:
    """Bytes swapped in since boot, from the text of /proc/vmstat."""
    found = re.search(r"^pswpin ([0-9]+)$", vmstat, re.MULTILINE)
    return None if found is None else int(found[1]) * page_bytes


def linux_pressure(psi: str) -> Pressure | None:
    """Level from the text of /proc/pressure/memory."""
    shares = {found[1]: float(found[2]) for found in _PSI.finditer(psi)}
    if "some" not in shares:
        return None
    if shares.get("full", 0.0) >= PRESSURE_PERCENT:
        return "critical"
    return "warning" if shares["some"] >= PRESSURE_PERCENT else "normal"


def linux_available(meminfo: str) -> int | None:
    """Bytes that a new program could have, from the text of /proc/meminfo."""
    found = re.search(r"^MemAvailable: +([0-9]+) kB$", meminfo, re.MULTILINE)
    return None if found is None else int(found[1]) * 1024


def nvidia_used(csv: str) -> int | None:
    """Bytes used on all GPUs, from what nvidia-smi prints of `memory.used`, a line of MiB a GPU; None if one tells none."""
    lines = [line.strip() for line in csv.splitlines() if line.strip()]
    if not lines or not all(_MIB.fullmatch(line) for line in lines):
        return None
    return sum(int(line) for line in lines) * 1_048_576


def macos_swapped_in(vm_stat: str) -> int | None:
    """Bytes swapped in since boot, from what vm_stat prints."""
    return _vm_stat_bytes(vm_stat, "Swapins")


def macos_available(vm_stat: str) -> int | None:
    """Free, inactive and speculative pages in bytes, from what vm_stat prints."""
    parts = [_vm_stat_bytes(vm_stat, f"Pages {name}") for name in ("free", "inactive", "speculative")]
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


def macos_pressure(level: str) -> Pressure | None:
    """Level from what `sysctl -n kern.memorystatus_vm_pressure_level` prints."""
    return _PRESSURE_LEVELS.get(level.strip())


def macos_rss(ps: str, pids: set[int]) -> int | None:
    """Resident bytes of these processes, from what `ps -axo pid=,rss=` prints; None when none of them is there."""
    rows = [line.split() for line in ps.splitlines()]
    sizes = [int(row[1]) * 1024 for row in rows if len(row) == 2 and row[0].isdecimal() and int(row[0]) in pids]
    return sum(sizes) if sizes else None


def _read_macos(engine_pid: int | None) -> Reading:
    vm_stat = _output("vm_stat")
    pids = set() if engine_pid is None else {engine_pid, *(process.pid for process in descendants(engine_pid))}
    return Reading(
        swapped_in_bytes=macos_swapped_in(vm_stat),
        pressure=macos_pressure(_output("sysctl", "-n", "kern.memorystatus_vm_pressure_level")),
        engine_rss_bytes=macos_rss(_output("ps", "-axo", "pid=,rss="), pids) if pids else None,
        available_bytes=macos_available(vm_stat),
        gpu_used_bytes=None,  # unified memory: what the GPU uses is not told apart
    )


def _linux_rss(engine_pid: int, page_bytes: int) -> int | None:
    pids = [engine_pid, *(process.pid for process in descendants(engine_pid))]
    sizes = [fields[1] for pid in pids if len(fields := _text(f"/proc/{pid}/statm").split()) > 1]
    return sum(int(size) for size in sizes) * page_bytes if sizes else None


def _vm_stat_bytes(vm_stat: str, name: str) -> int | None:
    page = _VM_STAT_PAGE.search(vm_stat)
    found = re.search(rf"^{name}: +([0-9]+)\.$", vm_stat, re.MULTILINE)
    return None if page is None or found is None else int(found[1]) * int(page[1])


def _text(path: str) -> str:
    """The file's text; empty where there is no such file, e.g. of a process that has just ended."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _output(*command: str) -> str:
    """What a command prints; empty where it is missing, fails or hangs."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
