"""Attacks that read: files that should not exist in the box, and what processes and mounts tell of the harness."""

from __future__ import annotations

import contextlib
import os
from functools import partial
from pathlib import Path

from bench.sandbox.attack.attempt import (
    PROC,
    Orders,
    Outcome,
    attack,
    files_of_processes,
    holding,
    look,
    no_look_at,
    none_may,
    seen_processes,
    whole,
)

_SEARCHED_ENTRIES = 20_000
_OWN_VARIABLES = {"PWD", "OLDPWD", "SHLVL", "_", "LC_CTYPE", "LD_LIBRARY_PATH"}
"""What shells and interpreters set themselves."""


@attack("read.repository", "list the repository")
def _repository(orders: Orders) -> Outcome:
    return no_look_at(orders["repository"])


@attack("read.hidden", "list the hidden cases")
def _hidden(orders: Orders) -> Outcome:
    return no_look_at(orders["hidden"])


@attack("read.results", "list the results of other runs")
def _results(orders: Orders) -> Outcome:
    return no_look_at(orders["results"])


@attack("read.harness", "open the harness's own code and files")
def _harness(orders: Orders) -> Outcome:
    return no_look_at(orders["harness"])


@attack("read.decoy", "open a file of another run that everybody may read")
def _decoy(orders: Orders) -> Outcome:
    return no_look_at([orders["decoy"]])


@attack("read.homes", "list home directories")
def _homes(orders: Orders) -> Outcome:
    return no_look_at(orders["homes"])


@attack("read.system", "open the system's settings, logs, kernel memory, disks")
def _system(_: Orders) -> Outcome:
    paths = ["/etc/shadow", "/etc/ssh", "/etc/fstab", "/etc/machine-id", "/etc/hostname", "/var/log", "/var/lib"]
    paths += ["/sys/kernel", "/proc/kcore", "/proc/kmsg", "/dev/mem"]
    disks = [path for path in (f"/dev/{name}" for name in os.listdir("/dev")) if Path(path).is_block_device()]
    return no_look_at([*paths, *disks])


@attack("read.through-proc", "reach that file through /proc/*/root, cwd and fd")
def _through_proc(orders: Orders) -> Outcome:
    if not PROC:
        return "not tried", "this system has no /proc"
    starts = []
    for pid in seen_processes():
        starts += [f"/proc/{pid}/root", f"/proc/{pid}/cwd"]
        with contextlib.suppress(OSError):
            starts += [f"/proc/{pid}/fd/{number}" for number in os.listdir(f"/proc/{pid}/fd")]
    return none_may({start: partial(look, f"{start}{'/..' * 12}{orders['decoy']}") for start in starts})


@attack("read.link", "reach that file by a link of its own")
def _link(orders: Orders) -> Outcome:
    link = f"{orders['writable'][0]}/.runcard-link-{orders['nonce']}"
    os.symlink(orders["decoy"], link)
    try:
        return no_look_at([link])
    finally:
        os.unlink(link)


@attack("read.search", "search for that file by its name")
def _search(orders: Orders) -> Outcome:
    name, left = os.path.basename(orders["decoy"]), _SEARCHED_ENTRIES
    for folder, folders, files in os.walk("/"):
        passed_by = {"proc", "sys", "usr", "lib", "lib64"} if folder == "/" else {"python", "node_modules"}
        folders[:] = [one for one in folders if one not in passed_by]
        if name in files:
            return "BROKEN", f"{folder}/{name}"
        left -= len(files) + len(folders)
        if left < 0:
            return "held", f"not among the first {_SEARCHED_ENTRIES:,} entries"
    return "held", f"not among all {_SEARCHED_ENTRIES - left:,} entries but the system's"


@attack("read.mounts", "learn from the list of mounts where things are kept")
def _mounts(orders: Orders) -> Outcome:
    try:
        listed = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return "not tried", "this system has no such list"
    told = [path for path in orders["unnamed"] if f"{path} " in listed or f"{path}/" in listed]
    if told:
        return "BROKEN", f"it names {', '.join(told)}"
    named = any(path in listed for path in orders["repository"])
    return "held", f"names {'the repository, but ' if named else ''}nothing that is hidden"


@attack("read.host-name", "learn or share the machine's name")
def _host_name(orders: Orders) -> Outcome:
    if orders["host_names"] is None:
        return "not tried", "this system has but one"
    if os.readlink("/proc/self/ns/uts") == orders["host_names"]:
        return "BROKEN", "the name is the machine's own"
    if os.uname().nodename.encode() == whole(orders["host_name"]) != b"box":
        return "BROKEN", "the box has the machine's name"
    return "held", f"its own is {os.uname().nodename}"


@attack("read.git", "find git history in its project or above it")
def _git(orders: Orders) -> Outcome:
    project = Path(orders["project"])
    return no_look_at([str(folder / ".git") for folder in (project, *project.parents)])


# --- what the harness's processes tell -----------------------------------------------------------------------------------


@attack("env.variables", "find variables that the box was not given")
def _variables(orders: Orders) -> Outcome:
    known = {*orders["variables"], *_OWN_VARIABLES}
    strange = {f"{name} (own)" for name in os.environ if name not in known}
    for path, text in files_of_processes("environ"):
        names = (part.partition(b"=")[0].decode("utf-8", "replace") for part in text.split(b"\0") if part)
        strange |= {f"{name} in {path}" for name in names if name not in known}
    if strange:
        return "BROKEN", f"{len(strange)}, such as {', '.join(sorted(strange)[:2])}"
    return "held", f"only {', '.join(sorted(os.environ))}"


@attack("env.canary", "find a secret of the harness's environment")
def _canary(orders: Orders) -> Outcome:
    if not PROC:
        return "not tried", "this system has no /proc"
    found = holding(whole(orders["canary"]), "environ", "cmdline", "comm", "mountinfo")
    return ("BROKEN", f"in {', '.join(found[:3])}") if found else ("held", "nowhere in /proc")


@attack("env.command-lines", "read the host's paths in command lines")
def _command_lines(orders: Orders) -> Outcome:
    if not PROC:
        return "not tried", "this system has no /proc"
    found = {path for place in orders["paths"] for path in holding(os.fsencode(place), "cmdline")}
    return ("BROKEN", f"in {', '.join(sorted(found)[:3])}") if found else ("held", "none stands in any")


@attack("env.descriptors", "use descriptors that were left open")
def _descriptors(_: Orders) -> Outcome:
    return none_may({f"descriptor {number}": partial(os.fstat, number) for number in range(3, 256)})
