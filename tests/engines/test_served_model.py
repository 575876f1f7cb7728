"""Scripts and model files: names are resolved, and everything wrong is said before a start."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.engines.served_model import (
    check_gguf,
    default_model,
    engine_spec,
    folder_sha256,
    list_scripts,
    script_folder,
)
from bench.errors import FileFormatError, UsageError
from bench.spec import EngineSpec


@pytest.fixture
def scripts(tmp_path) -> Path:
    for name in ("sound", "hasty"):
        (tmp_path / "scripts" / "toy" / name).mkdir(parents=True)
        (tmp_path / "scripts" / "toy" / name / "script.yaml").write_text("sessions: []\n")
    (tmp_path / "scripts" / "toy" / "no-script").mkdir()
    (tmp_path / "scripts" / "toy" / "index.yaml").write_text("# which is played\ndefault: sound\n")
    return tmp_path / "scripts"


def test_scripts_are_found_by_name(scripts):
    assert list_scripts("toy", scripts=scripts) == ("hasty", "sound")
    assert list_scripts("other", scripts=scripts) == ()
    assert default_model("embedded", "toy", scripts=scripts) == "sound"
    assert script_folder("hasty", "toy", scripts=scripts) == scripts / "toy" / "hasty"


@pytest.mark.parametrize("name", ["nope", "no-script", "", ".", "../toy/sound", "sound/"])
def test_an_unknown_script_is_answered_in_one_line_with_those_that_exist(scripts, name):
    with pytest.raises(UsageError) as caught:
        script_folder(name, "toy", scripts=scripts)
    assert str(caught.value) == f"unknown script '{name}' for workload 'toy'; there are: hasty, sound"
    with pytest.raises(UsageError, match="there are: none"):
        script_folder(name, "other", scripts=scripts)


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("default: nope\n", 1, "no script 'nope' lies beside it"),
        ("\ndefault: sound\nother: 1\n", 1, "expected one key, 'default'"),
        ("default: [sound]\n", 1, "expected one key, 'default'"),
    ],
)
def test_a_bad_index_is_told_with_its_line(scripts, text, line, says):
    (scripts / "toy" / "index.yaml").write_text(text)
    with pytest.raises(FileFormatError, match=r"index\.yaml") as caught:
        default_model("embedded", "toy", scripts=scripts)
    assert says in caught.value.problem
    assert caught.value.line == line


def test_there_is_no_default_without_an_index_or_for_a_file(scripts):
    with pytest.raises(UsageError, match="workload 'other' has no default model for engine 'embedded'"):
        default_model("embedded", "other", scripts=scripts)
    with pytest.raises(UsageError, match=r"needs a model file: --model FILE\.gguf"):
        default_model("llama-server", "toy", scripts=scripts)


def test_a_model_file_gives_the_model_its_name(tmp_path):
    file = tmp_path / "Tiny-1B.Q4.gguf"
    file.write_bytes(b"GGUF\x03\x00\x00\x00")
    spec = engine_spec(engine="llama-server", model=str(file), args=("-c", "4096"), workload_id="toy")
    assert spec == EngineSpec(name="llama-server", model="Tiny-1B.Q4", model_file=file, args=("-c", "4096"))
    for model, says in ((None, "needs a model file"), (str(tmp_path), "does not exist"), (__file__, "not a GGUF")):
        with pytest.raises(UsageError, match=says):
            engine_spec(engine="llama-server", model=model, args=(), workload_id="toy")
    for arg in ("-m", "--host", "--api-key=x"):
        with pytest.raises(UsageError, match="is set by the harness itself"):
            engine_spec(engine="llama-server", model=str(file), args=(arg, "1"), workload_id="toy")


def test_a_short_file_is_no_model(tmp_path):
    (tmp_path / "short").write_bytes(b"GG")
    with pytest.raises(UsageError, match="it begins with b'GG' instead of b'GGUF'"):
        check_gguf(tmp_path / "short")


def test_what_changes_a_script_changes_its_digest(scripts):
    folder = scripts / "toy" / "sound"
    first = folder_sha256(folder)
    assert folder_sha256(folder) == first
    (folder / "files").mkdir()
    (folder / "files" / "a.txt").write_text("a")
    second = folder_sha256(folder)
    (folder / "files" / "a.txt").rename(folder / "files" / "b.txt")
    assert len({first, second, folder_sha256(folder)}) == 3
