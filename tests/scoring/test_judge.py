import json
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from bench.errors import FileFormatError, JudgeError
from bench.records.snapshot import BlobStore, restore, take
from bench.scoring.judge import judge
from bench.spec import read_workload

OUTCOMES = """
    import pytest

    @case("passes", brief="P.")
    def test_passes(): expect({"a": 1}, {"a": 1.0}, "a")

    @case("misses", brief="M.")
    def test_misses(): expect({"a": True}, {"a": 1}, "the a")

    @case("asserts", brief="A.")
    def test_asserts(): assert 1 + 1 == 3

    @case("bad-reply", brief="B.")
    def test_bad_reply(): raise BadReply("no reply")

    @case("breaks", brief="X.")
    def test_breaks(): raise ValueError("our own fault")

    @case("skips", brief="S.")
    def test_skips(): pytest.skip("not today")

    @case("expects-to-fail", brief="E.")
    @pytest.mark.xfail
    def test_expects_to_fail(): assert False

    @pytest.fixture
    def broken(): assert False

    @case("has-no-fixture", brief="F.")
    def test_has_no_fixture(broken): ...

    @pytest.fixture
    def untidy():
        yield
        raise RuntimeError("cannot tidy up")

    @case("is-left-untidy", brief="U.")
    def test_is_left_untidy(untidy): ...
    """


def judged(workload, folder, tmp_path, **options):
    return judge(workload=workload, project=folder, evidence=tmp_path / "evidence", **options)


def test_every_outcome(hidden_set, project, tmp_path):
    results = judged(hidden_set(OUTCOMES), project("program.py", ""), tmp_path)
    assert {result.id: (result.outcome, result.reason) for result in results} == {
        "passes": ("passed", None),
        "misses": ("missed", "the a"),
        "asserts": ("missed", "assert (1 + 1) == 3"),
        "bad-reply": ("missed", "no reply"),
        "breaks": ("error", "ValueError: our own fault"),
        "skips": ("error", "Skipped: not today"),
        "expects-to-fail": ("missed", "assert False"),
        "has-no-fixture": ("error", "AssertionError: assert False"),
        "is-left-untidy": ("error", "RuntimeError: cannot tidy up"),
    }
    missed = results[1]
    assert (missed.group, missed.brief, missed.observed, missed.expected) == ("own", "M.", '{"a": true}', '{"a": 1}')
    assert all(result.seconds is not None for result in results)


def test_cases_that_are_not_run_are_in_the_answer(hidden_set, project, tmp_path):
    workload = hidden_set('@case("a", brief="A.")\ndef test_a(): ...\n')
    listed = {"not_run": {"page": {"reason": "no browser", "cases": {"page.loads": "It loads."}}}}
    (workload.hidden / "hidden.yaml").write_text(json.dumps(listed))
    first, second = judged(workload, project("program.py", ""), tmp_path)
    assert (first.id, first.outcome) == ("a", "passed")
    assert (second.id, second.group, second.outcome, second.reason) == ("page.loads", "page", "not-run", "no browser")
    assert (second.observed, second.expected, second.seconds) == (None, None, None)


@pytest.mark.parametrize(
    ("cases", "problem"),
    [
        ('import os\n@case("a", brief="A.")\ndef test_a(): os._exit(0)\n', "not judged: a"),
        ('raise SystemExit(0)\n@case("a", brief="A.")\ndef test_a(): ...\n', "not judged: a"),
        ('import nothing_like_it\n@case("a", brief="A.")\ndef test_a(): ...\n', "No module named 'nothing_like_it'"),
        (
            'import pytest\n@case("a", brief="A.")\n@pytest.mark.parametrize("x", [1, 2])\ndef test_a(x): ...\n',
            "a was judged twice",
        ),
        (
            '@case("a", brief="A.")\ndef test_a(): ...\nclass TestB:\n  @case("b", brief="B.")\n  def test_b(self): ...\n',
            "b was not expected",
        ),
        (
            'import pytest\n@case("a", brief="A.")\ndef test_a(): pytest.exit("enough", 0)\n',
            "judge gave no whole answer",
        ),
    ],
)
def test_no_whole_answer_is_no_score(hidden_set, project, tmp_path, cases, problem):
    workload = hidden_set("")
    (workload.hidden / "test_own.py").write_text("from bench.scoring.case import case\n" + cases)
    with pytest.raises(JudgeError, match=problem):
        judged(workload, project("program.py", ""), tmp_path)


def test_a_broken_file_of_cases_is_told_before_anything_starts(hidden_set, project, tmp_path):
    workload = hidden_set("def test_without_an_id(): ...\n")
    with pytest.raises(FileFormatError, match=r"test_own\.py:2: test_without_an_id"):
        judged(workload, project("program.py", ""), tmp_path)
    assert not (tmp_path / "evidence").exists()


SLEEPS = """
    @case("a", brief="A.")
    def test_a(program): program.run()
    """


def sleeper(project, seconds):
    return project("program.py", f"import subprocess; subprocess.run(['sleep', '{seconds}'], start_new_session=True)")


def sleeping(seconds):
    found = (one.info for one in psutil.process_iter(["cmdline", "status"]))
    return [one for one in found if one["cmdline"] == ["sleep", str(seconds)] and one["status"] != "zombie"]


def wait_until(condition):
    for _ in range(400):
        if condition():
            return
        time.sleep(0.025)
    pytest.fail("did not come true within 10 s")


@pytest.mark.parametrize("unsafe", [False, True])
def test_the_whole_has_a_deadline_and_leaves_nothing_behind(hidden_set, project, tmp_path, unsafe):
    seconds = 86_301 + unsafe
    folder = sleeper(project, seconds)
    with pytest.raises(JudgeError, match="did not end within 1 s"):
        judged(hidden_set(SLEEPS), folder, tmp_path, unsafe=unsafe, reply_seconds=60, deadline_seconds=1)
    assert sleeping(seconds) == []


def test_a_case_that_will_not_be_interrupted_is_killed(hidden_set, project, tmp_path):
    cases = """
        import signal, time

        @case("a", brief="A.")
        def test_a():
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            time.sleep(60)
        """
    before = set(psutil.Process().children(recursive=True))  # servers that other tests share
    with pytest.raises(JudgeError, match="did not end within 1 s"):
        judged(hidden_set(cases), project("program.py", ""), tmp_path, deadline_seconds=1)
    assert set(psutil.Process().children(recursive=True)) <= before


@pytest.mark.parametrize("unsafe", [False, True])
def test_a_judge_whose_harness_was_killed_ends(hidden_set, project, tmp_path, unsafe):
    seconds = 86_311 + unsafe
    folder, workload = sleeper(project, seconds), hidden_set(SLEEPS)
    text = f"""
import dataclasses
from pathlib import Path
from bench.scoring.judge import judge
from bench.spec import read_workload
workload = dataclasses.replace(read_workload("csv-totals"), hidden=Path({str(workload.hidden)!r}), entry="program.py")
judge(workload=workload, project=Path({str(folder)!r}), evidence=Path({str(tmp_path)!r}), unsafe={unsafe}, reply_seconds=60)
"""
    harness = subprocess.Popen([sys.executable, "-c", text])
    try:
        wait_until(lambda: sleeping(seconds))
        below = psutil.Process(harness.pid).children(recursive=True)
    finally:
        os.kill(harness.pid, signal.SIGKILL)
        harness.wait()
    wait_until(lambda: not any(process.is_running() and process.status() != "zombie" for process in below))
    wait_until(lambda: not sleeping(seconds))


def test_nothing_of_the_project_is_believed_or_imported(hidden_set, project, tmp_path):
    """Neither its pytest files, nor modules named as ours, nor files above the hidden set."""
    workload = hidden_set('import json\n@case("a", brief="A.")\ndef test_a(): expect(json.dumps([]), "no", "json")\n')
    folder = project("program.py", "")
    believe = "import pytest\n\ndef pytest_runtest_makereport(item, call): call.excinfo = None\n"
    for place in (folder, tmp_path):
        (place / "conftest.py").write_text(believe)
        (place / "json.py").write_text("def dumps(value): return 'no'\n")
        (place / "pytest.ini").write_text("[pytest]\naddopts = -p conftest --deselect test_own.py\n")
    (workload.hidden / "json.py").write_text("def dumps(value): return 'no'\n")
    before = sorted(tmp_path.rglob("*"))
    [result] = judged(workload, folder, tmp_path)
    assert result.outcome == "missed"
    written = set(tmp_path.rglob("*")) - set(before)
    assert written == {tmp_path / "evidence", tmp_path / "evidence" / "judge.log"}


def test_a_project_is_judged_from_its_snapshot(tmp_path):
    """What is a link in the project is not there for the judge."""
    workload = read_workload("csv-totals")
    original = tmp_path / "original"
    original.mkdir()
    (original / workload.entry).symlink_to(workload.hidden / "alternatives" / "scanner" / workload.entry)
    blobs, restored = BlobStore(tmp_path / "blobs"), tmp_path / "restored"
    restore(take(original, blobs), blobs, restored)
    results = judged(workload, restored, tmp_path)
    assert {result.outcome for result in results} == {"missed"}


def test_kinds_that_do_not_agree_are_an_error_of_ours(hidden_set, project, tmp_path):
    [result] = judged(
        hidden_set('@case("a", brief="A.")\ndef test_a(model): ...\n'), project("program.py", ""), tmp_path
    )
    assert result.outcome == "error"
    assert "kind command, not node-module" in result.reason
