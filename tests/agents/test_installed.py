"""Is an agent installed as its lock file says? Checked in copies of the checkout's folders, never in the checkout."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from bench.agents.installed import InstalledPackage
from bench.errors import FileFormatError, MissingPartError
from bench.spec import REPOSITORY


@pytest.fixture
def package(tmp_path):
    """A package of which the wanted version is 1.2.3, and nothing installed yet."""
    wanted = tmp_path / "fixtures" / "agents" / "pebble"
    wanted.mkdir(parents=True)
    (wanted / "package.json").write_text('{"dependencies": {"@x/pebble": "1.2.3"}}', encoding="utf-8")
    return InstalledPackage(agent="pebble", package="@x/pebble", program="dist/cli.js", checkout=tmp_path)


def install(package, *, version="1.2.3", program=True):
    place = package.modules / package.package
    (place / "dist").mkdir(parents=True)
    (place / "package.json").write_text(version if version == "{" else json.dumps({"version": version}), "utf-8")
    if program:
        (place / "dist" / "cli.js").touch()


def test_an_installed_agent_is_taken(package):
    install(package)
    package.check()
    assert package.version == "1.2.3"


def test_an_agent_that_is_not_installed_says_how(package):
    with pytest.raises(MissingPartError, match=r"^the agent pebble is not installed; run: make agent-pebble$"):
        package.check()


def test_a_half_installed_agent_is_not_installed(package):
    install(package, program=False)
    with pytest.raises(MissingPartError, match="is not installed; run: make agent-pebble"):
        package.check()


@pytest.mark.parametrize("version", ["1.2.4", None, "9" * 100])
def test_another_version_is_refused_with_both(package, version):
    install(package, version=version)
    with pytest.raises(MissingPartError, match=r"is installed as .{1,40}, 1\.2\.3 is wanted; rm -r .*pebble, then run"):
        package.check()


def test_a_damaged_package_file_is_told(package):
    install(package, version="{")
    with pytest.raises(FileFormatError, match=r"package\.json: cannot be read"):
        package.check()


@pytest.fixture
def checkout(tmp_path):
    """What `bin/install-agent` needs of a checkout, with an agent whose packages nobody has to fetch."""
    (tmp_path / "bin").mkdir()
    shutil.copy(REPOSITORY / "bin" / "install-agent", tmp_path / "bin")
    wanted = tmp_path / "fixtures" / "agents" / "pebble"
    wanted.mkdir(parents=True)
    (wanted / "package.json").write_text('{"name": "p", "version": "1.0.0"}', encoding="utf-8")
    lock = {"name": "p", "version": "1.0.0", "lockfileVersion": 3, "packages": {"": {"name": "p", "version": "1.0.0"}}}
    (wanted / "package-lock.json").write_text(json.dumps(lock), encoding="utf-8")
    return tmp_path


def installs(checkout, name="pebble", path=None):
    env = {"PATH": path or "/usr/local/bin:/usr/bin:/bin", "HOME": str(checkout)}
    argv = [checkout / "bin" / "install-agent", name]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=120)
    return done.returncode, done.stdout + done.stderr


def test_an_unknown_agent_is_refused_with_those_that_exist(checkout):
    assert installs(checkout, "granite") == (
        2,
        "install-agent: no agent 'granite' can be installed; there are: pebble\n",
    )
    assert installs(checkout, "../pebble")[0] == 2
    assert installs(checkout, "") == (
        2,
        "install-agent: which agent? make agent-NAME or bin/install-agent NAME; there are: pebble\n",
    )


def test_without_npm_it_says_so_with_a_code_of_its_own(checkout, tmp_path):
    """As on a machine where we may not install it: neither npm nor apt-get is on PATH."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("bash", "env", "cat", "cksum", "dirname", "find", "sort", "rm", "mkdir", "id", "flock"):
        (tools / name).symlink_to(shutil.which(name))
    code, said = installs(checkout, path=str(tools))
    assert code == 3, said
    assert said.splitlines()[-1].startswith("install-agent: npm is missing; install it")
    assert not (checkout / ".agents" / "pebble").exists()


@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is missing")
def test_an_installation_that_fails_leaves_what_was_there(checkout):
    (checkout / ".agents" / "pebble").mkdir(parents=True)
    (checkout / ".agents" / "pebble" / "old").touch()
    (checkout / "fixtures/agents/pebble/package-lock.json").write_text("{", encoding="utf-8")
    code, said = installs(checkout)
    assert code == 2
    assert "npm could not install pebble; see its message above, then run make agent-pebble again" in said
    assert (checkout / ".agents" / "pebble" / "old").exists()


@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is missing")
def test_what_is_there_is_not_installed_again(checkout):
    assert installs(checkout)[0] == 0
    (checkout / ".agents" / "pebble" / "mark").touch()
    assert installs(checkout) == (0, "install-agent: pebble is installed\n")
    assert (checkout / ".agents" / "pebble" / "mark").exists()
