from __future__ import annotations

import pytest

from bench.agents.installed_distribution import InstalledDistribution
from bench.errors import FileFormatError, MissingPartError

REQUIREMENTS = "# mini-swe-agent\nlitellm==1.0\nmini-swe-agent==2.4.6\n"


@pytest.fixture
def packages(tmp_path):
    """The folder of packages of a checkout that wants 2.4.6."""
    wanted = tmp_path / "fixtures" / "agents" / "mini-swe-agent"
    wanted.mkdir(parents=True)
    (wanted / "requirements.txt").write_text(REQUIREMENTS)
    return tmp_path / ".agents" / "mini-swe-agent" / "packages"


@pytest.fixture
def distribution(tmp_path, packages):
    return InstalledDistribution(agent="mini-swe-agent", package="mini-swe-agent", checkout=tmp_path)


def test_the_version_stands_in_the_requirements():
    assert InstalledDistribution(agent="mini-swe-agent", package="mini-swe-agent").version == "2.4.6"


def test_a_list_that_does_not_name_it():
    with pytest.raises(FileFormatError, match="it names no version of other"):
        _ = InstalledDistribution(agent="mini-swe-agent", package="other").version
    with pytest.raises(FileFormatError, match="cannot be read"):
        _ = InstalledDistribution(agent="nobody", package="other").version


def test_what_is_not_installed(distribution):
    with pytest.raises(MissingPartError, match="mini-swe-agent is not installed; run: make agent-mini-swe-agent"):
        distribution.check()


def test_another_version(distribution, packages):
    (packages / "mini_swe_agent-2.0.dist-info").mkdir(parents=True)
    with pytest.raises(MissingPartError, match=r"is installed as 2\.0, 2\.4\.6 is wanted"):
        distribution.check()


def test_the_right_one(distribution, packages):
    (packages / "mini_swe_agent-2.4.6.dist-info").mkdir(parents=True)
    distribution.check()
