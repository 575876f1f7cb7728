"""Every script parses, ends its sessions, and has the sizes that the workload promises."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from bench.engines.embedded.script_file import load_script
from bench.loop.plan import first_plan_problems
from bench.loop.plan_file import read_plan
from bench.spec import REPOSITORY, Limits

SCRIPTS = REPOSITORY / "fixtures" / "scripts" / "prefix-cache"
CASE = REPOSITORY / "cases" / "prefix-cache"
NAMES = ("hasty", "resume-on-miss", "sound", "stuck")


def test_the_four_scripts_exist_and_the_default_is_one_of_them():
    assert sorted(folder.name for folder in SCRIPTS.iterdir() if folder.is_dir()) == list(NAMES)
    assert yaml.safe_load((SCRIPTS / "index.yaml").read_text(encoding="utf-8")) == {"default": "resume-on-miss"}


@pytest.mark.parametrize("name", NAMES)
def test_a_script_parses_and_every_session_ends(script, name):
    for session in script(name).sessions:
        assert not session.turns[-1].intents, f"{session.role} {session.task} never ends"
        assert all(turn.intents for turn in session.turns[:-1]), f"{session.role} {session.task} ends early"
        if session.role in ("reviewer", "final-reviewer"):
            assert re.search(r"\nVERDICT: (ACCEPT|CHANGES)$", session.turns[-1].say)
            assert any(intent.verb in ("read", "run") for turn in session.turns for intent in turn.intents)


@pytest.mark.parametrize(
    "place",
    sorted((REPOSITORY / "fixtures" / "scripts").glob("*/*/script.yaml")),
    ids=lambda at: f"{at.parent.parent.name}-{at.parent.name}",
)
def test_what_depends_on_each_other_stands_in_different_turns(place):
    """Some agents run the tool calls of one answer at the same time."""
    for session in load_script(place.parent).sessions:
        for turn in session.turns:
            written = [intent.path for intent in turn.intents if intent.verb in ("write", "edit")]
            others = [intent for intent in turn.intents if intent.verb in ("run", "read")]
            where = f"{session.role} {session.task}: {[intent.summary for intent in turn.intents]}"
            assert len(set(written)) == len(written), where
            assert not written or not any(one.verb == "run" or one.path in written for one in others), where
            assert not any(one.command.startswith("rm ") for one in others[1:]), where


def test_the_default_is_as_long_as_promised(script):
    sessions = script("resume-on-miss").sessions
    assert len(sessions) >= 20
    assert sum(len(session.turns) for session in sessions) >= 120


def test_the_hasty_script_is_sent_back_twice_and_loses_one_session_to_memory(script):
    sessions = script("hasty").sessions
    assert sum(session.turns[-1].say.endswith("VERDICT: CHANGES") for session in sessions) == 2
    assert [(session.task, session.retry) for session in sessions if session.free_bytes is not None] == [("T002", 0)]


def test_the_stuck_script_never_gets_its_memory_back(script):
    [stuck] = [session for session in script("stuck").sessions if session.free_bytes is not None]
    assert (stuck.role, stuck.attempt, stuck.retry, stuck.free_bytes_from_turn) == ("builder", None, None, 0)


@pytest.mark.parametrize("plan", sorted(SCRIPTS.glob("*/files/plan.json")), ids=lambda path: path.parent.parent.name)
def test_plans_are_sound_and_quote_the_brief(plan: Path):
    read = read_plan(plan.read_bytes())
    assert not isinstance(read, tuple), read
    assert first_plan_problems(read, (CASE / "brief.md").read_text(encoding="utf-8")) == ()


def test_the_workload_names_every_limit():
    workload = yaml.safe_load((CASE / "workload.yaml").read_text(encoding="utf-8"))
    assert set(workload["limits"]) == set(Limits.__dataclass_fields__)
    assert {key: workload[key] for key in ("revision", "drive", "case_kind", "entry", "score_group")} == {
        "revision": 1,
        "drive": "task-loop",
        "case_kind": "node-module",
        "entry": "model.mjs",
        "score_group": "model",
    }
