"""What the scripts build, carried out without engine, agent and box.

verify is green after every task, and the result is the reference, or misses it by exactly the defects that the
script is for.
"""

from __future__ import annotations

import hashlib

import pytest

from bench.spec import REPOSITORY

SCRIPTS = REPOSITORY / "fixtures" / "scripts" / "prefix-cache"


def build(project, script):
    """Carries out all sessions in order; the harness's own verify follows each builder."""
    for session in script.sessions:
        if session.free_bytes is not None:
            continue
        for turn in session.turns:
            for intent in turn.intents:
                project.carry_out(intent)
        if session.role == "builder":
            done = project.run(f"./verify --all && ./verify --task {session.task}")
            assert done.returncode == 0, f"{session.task}: {done.stdout}{done.stderr}"
            assert all(line.startswith("ok ") for line in done.stdout.splitlines())


@pytest.fixture(scope="module")
def built(new_project, script):
    projects = {}
    for name in ("sound", "resume-on-miss", "hasty"):
        projects[name] = new_project()
        build(projects[name], script(name))
    return projects


OBSERVED = """
    const cache = createCache({ capacityBytes: 30, bytesPerToken: 1 });
    const cold = cache.submit({ id: 'a', tokens: run('a', 10) });
    const unrelated = cache.submit({ id: 'b', tokens: run('b', 10) });
    const resumed = cache.submit({ id: 'a+', tokens: [...run('a', 10), 'x'] });
    const pushed = createCache({ capacityBytes: 25, bytesPerToken: 1 });
    pushed.submit({ id: 'old', tokens: run('o', 10) });
    pushed.submit({ id: 'young', tokens: run('y', 10) });
    pushed.submit({ id: 'old', tokens: run('o', 10) });
    const { evicted } = pushed.submit({ id: 'new', tokens: run('n', 10) });
    const full = createCache({ capacityBytes: 5, bytesPerToken: 1 }).submit({ id: 'full', tokens: run('f', 5) }).kind;
    return { cold: cold.resumeSeconds, unrelated: unrelated.resumeSeconds, resumed: resumed.resumeSeconds, evicted, full };
"""
RIGHT = {"cold": 0, "unrelated": 0, "resumed": 0.3, "evicted": ["young"], "full": "miss"}


def test_what_sound_builds_is_the_reference(built, reference):
    names = {path.relative_to(reference.folder) for path in reference.folder.rglob("*") if path.is_file()}
    project = built["sound"].folder
    assert {path.relative_to(project) for path in project.rglob("*") if path.is_file()} == names
    assert all((project / name).read_bytes() == (reference.folder / name).read_bytes() for name in names)
    assert built["sound"].evaluate(OBSERVED) == RIGHT


def test_the_default_charges_a_miss_for_resuming_and_nothing_else_is_wrong(built):
    assert built["resume-on-miss"].evaluate(OBSERVED) == RIGHT | {"cold": 0.3, "unrelated": 0.3}


def test_the_hasty_model_has_four_defects(built):
    hasty = built["hasty"].evaluate(OBSERVED)
    assert hasty == {"cold": 0.3, "unrelated": 0.3, "resumed": 0.3, "evicted": ["old"], "full": "refused"}


def test_the_checks_of_the_default_are_blind_to_its_defect_and_those_of_sound_are_not(built):
    project = built["resume-on-miss"]
    assert project.run("./verify --all").returncode == 0
    sharp = (SCRIPTS / "sound" / "files" / "checks" / "T001.mjs").read_text(encoding="utf-8")
    (project.folder / "checks" / "T001.mjs").write_text(sharp, encoding="utf-8")
    done = project.run("./verify --task T001")
    assert done.returncode == 1
    assert [line.split()[2] for line in done.stdout.splitlines() if line.startswith("not ok")] == ["times.served"]


def test_the_reference_is_the_one_whose_digests_are_held():
    """After a deliberate change: `cd fixtures/scripts/prefix-cache/sound/files && sha256sum $(git ls-files) > ../reference.sha256`."""
    folder = SCRIPTS / "sound" / "files"
    held = dict(
        reversed(line.split("  ", 1))
        for line in (SCRIPTS / "sound" / "reference.sha256").read_text(encoding="utf-8").splitlines()
    )
    found = {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }
    assert found == held
