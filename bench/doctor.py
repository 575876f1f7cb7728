"""Is this machine fit for runs, and does its box hold? Boxes as runs have them are attacked from inside.

It fails closed: a box that does not work, an attack that succeeds or breaks down, and a machine without what every run
needs are exit code 1.
"""

from __future__ import annotations

import json
import textwrap
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TextIO

from bench.agents.adapters import Adapter, AgentCommand, agent_names, open_adapter
from bench.agents.door import url_inside
from bench.agents.placing import place_of, placed
from bench.contracts import Box, BoxPlan, SessionLabel, SessionRequest
from bench.errors import RuncardError
from bench.machine import Provision, provisions
from bench.sandbox.attacks import Trial, attack, attacker
from bench.sandbox.box import open_box
from bench.sandbox.decoys import Decoys, set_out
from bench.scoring.boxed_call import SCORING_LIMITS
from bench.scoring.node_module import WORKER
from bench.spec import REPOSITORY, AgentSpec

_PROVISION_COLUMNS = (21, 9)
_TRIAL_COLUMNS = (10, 10)
_WORSE = ("BROKEN", "not tried", "held", "ok")
SCORING = "the scoring box"
"""Title of that box."""


@dataclass(frozen=True, kw_only=True)
class Attacked:
    """One box as a run has it, and what held in it."""

    title: str
    """`the box of pi`, `the scoring box`."""

    trials: tuple[Trial, ...]


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """All that was found."""

    box: str | None
    """The box's name; None where none works."""

    refusal: str | None
    """Why there is no box, and what to do."""

    boxes: tuple[Attacked, ...] = ()
    machine: tuple[Provision, ...] = field(default=())

    @property
    def broken(self) -> tuple[tuple[str, Trial], ...]:
        """Title of the box and the trial, for every one that did not hold."""
        return tuple((one.title, trial) for one in self.boxes for trial in one.trials if trial.verdict == "BROKEN")

    @property
    def exit_code(self) -> int:
        lacking = any(one.needed and not one.there for one in self.machine)
        return 1 if self.box is None or self.broken or lacking or not self.boxes else 0


def diagnose(
    *,
    results: Path,
    unsafe: bool,
    progress: Callable[[str], None],
    agents: Sequence[str] | None = None,
    around: Callable[[Box], Box] = lambda box: box,
) -> Diagnosis:
    """Attacks the boxes of agents and of scoring, looks at the machine. Main thread only.

    With `unsafe` there is no box, and what comes through is what would come through in a run without one.
    `agents`: whose boxes, of those that are installed; None: of all. `around` puts another box in place of the one that was opened: so it is seen that one that leaks is found out.
    """
    results = results.resolve()
    progress("opening a box")
    box, refusal = _box(results, unsafe)
    boxes = []
    if box is not None:
        box = around(box)
        for title, act in _boxes(agent_names() if agents is None else agents):
            progress(f"attacking {title}")
            boxes.append(Attacked(title=title, trials=_attacked(act, box, results)))
    progress("looking for agents and engines")
    name = None if box is None else box.name
    return Diagnosis(box=name, refusal=refusal, boxes=tuple(boxes), machine=tuple(provisions(results, box)))


def _box(results: Path, unsafe: bool) -> tuple[Box | None, str | None]:
    """A box as `run.py` opens it, or why there is none."""
    try:
        return open_box(unsafe=unsafe, secret=(REPOSITORY / "hidden", results)), None
    except RuncardError as error:
        return None, str(error)


# --- boxes as runs have them ---------------------------------------------------------------------------------------------

_Attack = Callable[[Box, Decoys, Path], tuple[Trial, ...]]


def _attacked(act: _Attack, box: Box, results: Path) -> tuple[Trial, ...]:
    try:
        with set_out() as decoys:
            return act(box, decoys, results)
    except RuncardError as error:
        return (Trial(id="works.start", tried="start in this box", verdict="BROKEN", seen=str(error)),)


def _boxes(agents: Sequence[str]) -> Iterator[tuple[str, _Attack]]:
    """Title and attack of every kind of box."""
    for name in agents:
        try:
            adapter = open_adapter(AgentSpec(name=name, args=()))
            adapter.check_installed()
        except RuncardError:  # told among the machine's provisions
            continue
        yield f"the box of {name}", _of_agent(adapter)
    yield SCORING, _attack_scoring


def _of_agent(adapter: Adapter) -> _Attack:
    def act(box: Box, decoys: Decoys, results: Path) -> tuple[Trial, ...]:
        command = _session_command(adapter, box, decoys)
        plan = BoxPlan(
            argv=command.argv,
            project=decoys.project("project"),
            writable=True,
            mounts=command.mounts,
            env=command.env,
            relay=decoys.relay,
        )
        url = url_inside(box.relay_url(decoys.relay), speaks_unix=adapter.speaks_unix)
        return attack(box, plan, decoys, results=results, relay_url=url)

    return act


def _session_command(adapter: Adapter, box: Box, decoys: Decoys) -> AgentCommand:
    """The command of a session with its mounts, environment and folder, but the attacker in the agent's place."""
    home, url = decoys.folder / "agent", box.relay_url(decoys.relay)
    place = place_of(adapter, box, project=decoys.folder / "project", home=home, url=url)
    command = adapter.command(_request(decoys), place)
    hostile = attacker(box, decoys)
    command = replace(command, argv=hostile.argv, mounts=(*command.mounts, *hostile.mounts))
    return placed(command, adapter, box, home=home, url=url)


def _request(decoys: Decoys) -> SessionRequest:
    label = SessionLabel(run_id="doctor", session=1, role="builder", task="T001", attempt=1, retry=0)
    return SessionRequest(
        label=label,
        prompt="",
        project=decoys.folder / "project",
        evidence=decoys.folder,
        model="doctor",
        context_window=32_768,
        output_tokens_per_request=4_096,
        requests=10,
        output_tokens=10_000,
        seconds=60.0,
        no_progress_seconds=60.0,
    )


def _attack_scoring(box: Box, decoys: Decoys, results: Path) -> tuple[Trial, ...]:
    hostile = attacker(box, decoys)
    plan = BoxPlan(
        argv=hostile.argv,
        project=decoys.project("project"),
        mounts=(WORKER, *hostile.mounts),
        limits=SCORING_LIMITS,
    )
    return attack(box, plan, decoys, results=results, relay_url=None)


# --- what a person sees -------------------------------------------------------------------------------------------------


@contextmanager
def told_when_slow(stream: TextIO, *, silent_seconds: float = 2.0) -> Iterator[Callable[[str], None]]:
    """A sink for what is being done now: silent at first, since a machine with few agents needs no more."""
    now, told = "starting", False

    def print_now() -> None:
        nonlocal told
        told = True
        print(f"doctor: {now} ...", file=stream, flush=True)

    def tell(text: str) -> None:
        nonlocal now
        now = text
        if told:
            print_now()

    timer = threading.Timer(silent_seconds, print_now)
    timer.daemon = True
    timer.start()
    try:
        yield tell
    finally:
        timer.cancel()


def as_json(found: Diagnosis) -> str:
    return json.dumps({**asdict(found), "exit_code": found.exit_code}, indent=1, ensure_ascii=False)


def as_text(found: Diagnosis, *, width: int = 80) -> str:
    """As wide as `width`: the machine's provisions, every attack with its verdict in both kinds of box, what is BROKEN."""
    lines = ["This machine"]
    for provision in found.machine:
        words = (provision.id, "ok" if provision.there else "missing")
        lines += _row(words, _PROVISION_COLUMNS, provision.told, width)
    if found.boxes:
        agents = [one.title.removeprefix("the box of ") for one in found.boxes if one.title != SCORING]
        title = (
            f"Attacks on the box ({found.box}) of every agent that is installed ({', '.join(agents)}), and of scoring"
        )
        lines += ["", *textwrap.wrap(title, width), "  agent     scoring"]
        for name in dict.fromkeys(trial.id for one in found.boxes for trial in one.trials):
            lines += _trial_rows(name, found.boxes, width)
    return "\n".join([*lines, "", *_ending(found, width)])


def _trial_rows(name: str, boxes: Sequence[Attacked], width: int) -> list[str]:
    """One trial in all boxes; of those of agents, the worst."""
    worst: list[Trial | None] = [None, None]
    for one in boxes:
        side = int(one.title == SCORING)
        for trial in one.trials:
            now = worst[side]
            if trial.id == name and (now is None or _WORSE.index(trial.verdict) < _WORSE.index(now.verdict)):
                worst[side] = trial
    told = [trial for trial in worst if trial is not None]
    # What came of it in one box says what it is like in the other, but why it was not tried is that box's own.
    seen = [trial.seen for trial in told if trial.verdict != "not tried"][:1]
    seen += [f"not tried: {trial.seen}" for trial in told if trial.verdict == "not tried"]
    verdicts = tuple("-" if trial is None else trial.verdict for trial in worst)
    return _row(verdicts, _TRIAL_COLUMNS, f"{name}: {told[0].tried} [{'; '.join(dict.fromkeys(seen))}]", width)


def _row(words: tuple[str, ...], columns: tuple[int, ...], text: str, width: int) -> list[str]:
    start = "  " + "".join(f"{word:<{column}}" for word, column in zip(words, columns, strict=True))
    plain = "".join(character if character.isprintable() else " " for character in text)
    room = max(20, width - len(start))
    lines = textwrap.wrap(_breakable(plain, room), room, break_on_hyphens=False)
    return [f"{start if not at else ' ' * len(start)}{line}" for at, line in enumerate(lines)] or [start.rstrip()]


def _breakable(text: str, room: int) -> str:
    """The text with spaces in words that are longer than a line, behind a slash where there is one."""
    words = []
    for word in text.split():
        rest = word
        while len(rest) > room:
            cut = rest.rfind("/", 1, room) + 1 or room
            words.append(rest[:cut])
            rest = rest[cut:]
        words.append(rest)
    return " ".join(words)


def _ending(found: Diagnosis, width: int) -> list[str]:
    if found.box is None:
        lines = f"BROKEN: {found.refusal}".splitlines()
        return [row for line in lines for row in textwrap.wrap(line, width, break_on_hyphens=False)]
    lacking = [provision.id for provision in found.machine if provision.needed and not provision.there]
    said = [f"no run can work without: {', '.join(lacking)}"] if lacking else []
    trials = [trial for one in found.boxes for trial in one.trials]
    tried = sum(trial.verdict in {"held", "BROKEN"} for trial in trials)
    left = sum(trial.verdict == "not tried" and not trial.id.startswith("works.") for trial in trials)
    idle = f", {left} not tried" if left else ""
    if found.broken:
        for name in dict.fromkeys(trial.id for _, trial in found.broken):
            there = [(title, trial.seen) for title, trial in found.broken if trial.id == name]
            where = "every box" if len(there) == len(found.boxes) > 1 else ", ".join(title for title, _ in there)
            said += _row(("BROKEN",), (8,), f"{name} in {where}: {there[0][1]}", width)
        came = f"BROKEN: {len(found.broken)} of {tried} attacks came through{idle}; do not trust runs with this box"
        said += textwrap.wrap(came, width)
    elif not lacking:
        said += textwrap.wrap(f"fit for runs: the box ({found.box}) held against all {tried} attacks{idle}", width)
    return said
