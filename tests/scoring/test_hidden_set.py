import pytest

from bench.errors import FileFormatError, UsageError
from bench.scoring.hidden_set import expected_cases, hidden_digest

TWO = """
from bench.scoring.case import case

raise RuntimeError("never run")

@case("b.two", brief="The "
      "second.")
def test_two(model): ...

@case("a.one", brief="The first.")
def test_one(model): ...
"""
NOT_RUN = """
not_run:
  page:
    reason: no browser
    cases:
      page.loads: It loads.
"""


@pytest.fixture
def hidden(tmp_path):
    (tmp_path / "test_model.py").write_text(TWO)
    (tmp_path / "hidden.yaml").write_text(NOT_RUN)
    return tmp_path


def test_cases_are_read_in_order_without_running_anything(hidden):
    found = [(case.id, case.group, case.brief, case.not_run) for case in expected_cases(hidden)]
    assert found == [
        ("b.two", "model", "The second.", None),
        ("a.one", "model", "The first.", None),
        ("page.loads", "page", "It loads.", "no browser"),
    ]
    assert {case.group: case.not_run for case in expected_cases(hidden) if case.not_run} == {"page": "no browser"}


def test_a_set_without_yaml_judges_all_its_cases(hidden):
    (hidden / "hidden.yaml").unlink()
    assert len(expected_cases(hidden)) == 2
    assert [case for case in expected_cases(hidden) if case.not_run] == []


def test_no_such_set(tmp_path):
    with pytest.raises(UsageError, match="no such folder"):
        expected_cases(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("def test_x(model): ...\n", 1, "test_x needs one @case"),
        ("@case('a', brief='b')\n@case('c', brief='d')\ndef test_x(model): ...\n", 3, "test_x needs one @case"),
        ("\n@case('a')\ndef test_x(model): ...\n", 2, "two plain texts"),
        ("@case(name, brief='b')\ndef test_x(model): ...\n", 1, "two plain texts"),
        ("@case('a', brief=f'{b}')\ndef test_x(model): ...\n", 1, "two plain texts"),
        ("def test_x(:\n", 1, "not valid Python"),
    ],
)
def test_a_file_of_cases_that_is_not_as_it_must_be(tmp_path, text, line, problem):
    (tmp_path / "test_own.py").write_text(text)
    with pytest.raises(FileFormatError, match=problem) as error:
        expected_cases(tmp_path)
    assert error.value.line == line


def test_an_id_stands_once(hidden):
    (hidden / "test_other.py").write_text("@case('a.one', brief='x')\ndef test_x(model): ...\n")
    with pytest.raises(FileFormatError, match=r"a\.one stands twice"):
        expected_cases(hidden)


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("skipped: {}\n", 1, "unknown key 'skipped'"),
        ("not_run: [a]\n", 1, "mapping of names"),
        ("not_run:\n  page: {reason: 3, cases: {}}\n", 2, "a reason and cases"),
        ("not_run:\n  page: {reason: x}\n", 2, "a reason and cases"),
        ("not_run:\n  page: {reason: x, cases: {p.a: 1}}\n", 2, "a sentence of the brief"),
        ("not_run:\n  page: {reason: x, cases: [p.a]}\n", 2, "mapping of names"),
    ],
)
def test_a_yaml_that_is_not_as_it_must_be(hidden, text, line, problem):
    (hidden / "hidden.yaml").write_text(text)
    with pytest.raises(FileFormatError, match=problem) as error:
        expected_cases(hidden)
    assert error.value.line == line


def test_the_digest_is_about_what_decides_a_score(hidden):
    before = hidden_digest(hidden)
    for folder in ("alternatives", "attacks", "__pycache__"):
        (hidden / folder).mkdir()
        (hidden / folder / "x").write_text("x")
    (hidden / "mutants.yaml").write_text("x")
    assert hidden_digest(hidden) == before
    digests = {before}
    (hidden / "shared.py").write_text("x = 1\n")
    digests.add(hidden_digest(hidden))
    (hidden / "shared.py").rename(hidden / "common.py")
    digests.add(hidden_digest(hidden))
    (hidden / "hidden.yaml").write_text(NOT_RUN + "\n")
    digests.add(hidden_digest(hidden))
    assert len(digests) == 4
