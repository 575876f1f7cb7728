"""The gate of the hidden cases: each passes what is right, misses what is wrong, and is about one thing only."""

from __future__ import annotations

import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bench.engines.embedded.script_file import load_script
from bench.scoring.gate import Specimen, specimens
from bench.scoring.hidden_set import expected_cases
from bench.scoring.judge import judge
from bench.spec import REPOSITORY, read_workload, workload_ids

WORKLOADS = workload_ids()
CONTRACT = {
    "prefix-cache": (
        "miss.cold miss.unrelated reuse.whole reuse.extended partial.longest evict.oldest evict.touched "
        "refuse.oversized size.linear replay.same page.loads page.keys page.pointer page.readouts page.tour "
        "page.offscreen page.reduced-motion page.schemes page.narrow page.lines page.self-contained page.embed"
    ),
    "csv-totals": (
        "fields.quoted fields.empty decimals.exact column.unknown number.bad input.stdin text.unicode order.sorted"
    ),
}
CALL_SECONDS = 5.0


def judged(workload_id, specimen: Specimen, *, seconds=CALL_SECONDS, order_seed=None):
    """The ids that a specimen misses; every case must have been judged."""
    workload = read_workload(workload_id)
    with tempfile.TemporaryDirectory() as room:
        folder = Path(room, "project")
        folder.mkdir()
        results = judge(
            workload=workload,
            project=specimen.write(folder),
            evidence=Path(room, "evidence"),
            reply_seconds=seconds,
            order_seed=order_seed,
        )
    wrong = [result for result in results if result.outcome == "error"]
    assert not wrong, f"{specimen.name}: {wrong}"
    return {result.id for result in results if result.outcome == "missed"}


def reference(workload_id) -> Specimen:
    """What the script `sound` builds, as far as it is judged."""
    workload = read_workload(workload_id)
    file = REPOSITORY / "fixtures" / "scripts" / workload_id / "sound" / "files" / workload.entry
    return Specimen(name="reference", kind="alternative", files={workload.entry: file.read_bytes()}, misses=frozenset())


def built_by_script(workload_id, name) -> Specimen:
    """The files of a project after every write and edit of a script's sessions, in order."""
    files = {}
    for session in load_script(REPOSITORY / "fixtures" / "scripts" / workload_id / name).sessions:
        for intent in (intent for turn in session.turns for intent in turn.intents):
            if intent.verb == "write":
                files[intent.path] = intent.text
            elif intent.verb == "edit":
                assert files[intent.path].count(intent.old) == 1
                files[intent.path] = files[intent.path].replace(intent.old, intent.new)
    contents = {path: text.encode() for path, text in files.items()}
    return Specimen(name=name, kind="alternative", files=contents, misses=frozenset())


@pytest.mark.parametrize("workload_id", CONTRACT)
def test_the_cases_are_those_of_the_contract(workload_id):
    cases = expected_cases(read_workload(workload_id).hidden)
    assert [case.id for case in cases] == CONTRACT[workload_id].split()


@pytest.mark.parametrize("workload_id", WORKLOADS)
def test_the_judged_cases_are_the_score_group(workload_id):
    workload = read_workload(workload_id)
    cases = expected_cases(workload.hidden)
    assert {case.group for case in cases if case.not_run is None} == {workload.score_group}


@pytest.mark.parametrize("workload_id", WORKLOADS)
def test_every_case_quotes_the_brief(workload_id):
    workload = read_workload(workload_id)
    brief = " ".join(workload.brief.split())
    strangers = [case.id for case in expected_cases(workload.hidden) if " ".join(case.brief.split()) not in brief]
    assert strangers == []


@pytest.mark.parametrize("workload_id", WORKLOADS)
def test_every_case_is_missed_by_a_mutant(workload_id):
    hidden = read_workload(workload_id).hidden
    missed = {case for specimen in specimens(hidden) if specimen.kind == "mutant" for case in specimen.misses}
    assert missed == {case.id for case in expected_cases(hidden) if case.not_run is None}


@pytest.mark.slow
@pytest.mark.parametrize("workload_id", WORKLOADS)
def test_every_specimen_misses_exactly_what_it_must(workload_id):
    gallery = [reference(workload_id), *specimens(read_workload(workload_id).hidden)]
    with ThreadPoolExecutor(max_workers=2) as pool:
        missed = pool.map(
            lambda one: judged(workload_id, one, seconds=0.5 if one.kind == "attack" else CALL_SECONDS), gallery
        )
        wrong = {
            f"{one.kind} {one.name}": {"missed": sorted(found), "should": sorted(one.misses)}
            for one, found in zip(gallery, missed, strict=True)
            if found != one.misses
        }
    assert wrong == {}


@pytest.mark.parametrize("workload_id", WORKLOADS)
def test_the_answer_is_the_same_in_any_order(workload_id):
    """A mutant that misses one case, judged again and again in other orders."""
    mutant = next(one for one in specimens(read_workload(workload_id).hidden) if one.kind == "mutant")
    assert {frozenset(judged(workload_id, mutant, order_seed=seed)) for seed in range(3)} == {mutant.misses}


@pytest.mark.parametrize(("name", "missed"), [("sound", set()), ("float-sums", {"decimals.exact"})])
def test_what_the_scripts_of_csv_totals_build(name, missed):
    built = built_by_script("csv-totals", name)
    assert judged("csv-totals", built) == missed
    if name == "sound":
        assert built.files["csv_totals.py"] == reference("csv-totals").files["csv_totals.py"]
