"""Finding an engine's program, its version and its digest."""

from __future__ import annotations

import hashlib
import os
import sys
from importlib import metadata

import pytest

from bench.engines.profile_parts import Program
from bench.engines.program import find_program, sha256_of
from bench.errors import MissingPartError


def with_programs(profile, *programs):
    return profile.launch.model_copy(update={"programs": list(programs)})


def write(path, text):
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_a_command_on_path_is_preferred_and_named_in_the_version(make_profile, tmp_path, monkeypatch):
    place = write(tmp_path / "some-server", "#!/bin/sh\necho 'version: 7 (abc)' >&2\necho built with cc >&2\n")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    profile = with_programs(
        make_profile(),
        Program(command="some-server", version_args=["--version"], version_pattern="version: (.+)"),
        Program(module="bench.engines.llama_launcher", distribution="pytest"),
    )
    found = find_program(profile, title="Small engine", by_hand=())
    assert found.argv == (str(place),)
    assert found.version == "some-server 7 (abc)"
    assert found.binary_sha256 == hashlib.sha256(place.read_bytes()).hexdigest()


def test_a_module_steps_in_where_no_command_is(make_profile):
    profile = with_programs(
        make_profile(),
        Program(command="no-such-server"),
        Program(module="no.such.module", distribution="no-such-distribution"),
        Program(module="bench.engines.llama_launcher", distribution="pytest", binary="pytest/__init__.py"),
    )
    found = find_program(profile, title="Small engine", by_hand=())
    assert found.argv == (sys.executable, "-P", "-m", "bench.engines.llama_launcher")
    assert found.version == f"pytest {metadata.version('pytest')} (bench.engines.llama_launcher)"
    assert found.binary_sha256 == sha256_of(metadata.distribution("pytest").locate_file("pytest/__init__.py"))


def test_where_none_is_there_the_message_names_all_and_says_how_to_get_one(make_profile):
    profile = with_programs(
        make_profile(),
        Program(command="no-such-server"),
        Program(module="no.such.module", distribution="no-such-distribution"),
    )
    with pytest.raises(MissingPartError) as caught:
        find_program(profile, title="Small engine", by_hand=("-m", "file"))
    assert str(caught.value) == (
        "Small engine is not installed: looked for `no-such-server` on PATH and "
        "the Python distribution 'no-such-distribution'.\n"
        "  what to do: write it\n"
        "  it would be run as: no-such-server -m file"
    )


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("#!/bin/sh\nkill -ILL $$\n", "(version not told, exit code -4)"),
        ("#!/no/such/interpreter\n", "(version not told: No such file or directory)"),
        ("#!/bin/sh\nhead -c 100000 /dev/zero | tr '\\0' v\n", "v" * 200),
    ],
)
def test_a_program_that_cannot_tell_its_version_is_still_found(make_profile, tmp_path, text, version):
    place = write(tmp_path / "odd", text)
    found = find_program(with_programs(make_profile(), Program(command=str(place))), title="Small engine", by_hand=())
    assert found.version == f"{place} {version}"


def test_a_changed_file_is_read_again(tmp_path):
    path = tmp_path / "model"
    path.write_bytes(b"one")
    first = sha256_of(path)
    path.write_bytes(b"other")
    assert first == hashlib.sha256(b"one").hexdigest()
    assert sha256_of(path) == hashlib.sha256(b"other").hexdigest()
