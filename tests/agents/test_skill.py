"""A skill's folder: what is read of it, what its digest covers, and what is refused with which words."""

from __future__ import annotations

import os

import pytest

from bench.agents import skill as skill_module
from bench.agents.skill import read_skill
from bench.errors import UsageError
from bench.spec import REPOSITORY

FRONT = "---\nname: csv-care\ndescription: How to read CSV with care.\nversion: 1.2\n---\n# Care\n"


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "skill"
    place.mkdir()
    (place / "SKILL.md").write_text(FRONT, encoding="utf-8")
    return place


def test_a_skill_has_a_name_a_version_and_a_digest(folder):
    found = read_skill(folder)
    assert (found.identity.name, found.identity.version) == ("csv-care", "1.2")
    assert found.files == {"SKILL.md": FRONT.encode()}
    assert len(found.identity.sha256) == 64


def test_the_digest_covers_every_name_and_every_byte(folder):
    seen = {read_skill(folder).identity.sha256}
    (folder / "parts").mkdir()
    (folder / "parts" / "a.md").write_bytes(b"one")
    seen.add(read_skill(folder).identity.sha256)
    (folder / "parts" / "a.md").write_bytes(b"two")
    seen.add(read_skill(folder).identity.sha256)
    (folder / "parts" / "a.md").rename(folder / "parts" / "b.md")
    seen.add(read_skill(folder).identity.sha256)
    assert len(seen) == 4


@pytest.mark.parametrize(
    ("front", "version"),
    [
        ("name: a\ndescription: b", None),
        ("name: a\ndescription: b\nmetadata: {version: '0.3'}", "0.3"),
        ("name: a\ndescription: b\nmetadata: none", None),
        ("name: a\ndescription: b\nversion: '\\ud800'", "\\ud800"),
        ('name: a\ndescription: b\nversion: "\\ud83d"', "?"),
    ],
)
def test_a_version_is_optional(folder, front, version):
    (folder / "SKILL.md").write_text(f"---\n{front}\n---\n", encoding="utf-8")
    assert read_skill(folder).identity.version == version


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("# A skill\n", "it does not begin with front matter"),
        ("---\nname: [\n---\n", "its front matter is no YAML"),
        ("---\n- name\n---\n", "its front matter is no mapping of keys"),
        ("---\ndescription: b\n---\n", "key 'name'"),
        ("---\nname: Big Name\ndescription: b\n---\n", "key 'name'"),
        ("---\nname: a--b\ndescription: b\n---\n", "key 'name'"),
        (f"---\nname: {'a' * 65}\ndescription: b\n---\n", "key 'name'"),
        ("---\nname: a\n---\n", "key 'description'"),
        ("---\nname: a\ndescription: ' '\n---\n", "key 'description'"),
        (f"---\nname: a\ndescription: {'b' * 1025}\n---\n", "key 'description'"),
    ],
)
def test_what_is_wrong_with_its_page_is_told(folder, text, said):
    (folder / "SKILL.md").write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=said) as caught:
        read_skill(folder)
    assert "SKILL.md" in str(caught.value)


def test_a_page_that_is_no_text_is_told(folder):
    (folder / "SKILL.md").write_bytes(b"---\n\xff\n---\n")
    with pytest.raises(UsageError, match="cannot be read"):
        read_skill(folder)


@pytest.mark.parametrize("kind", ["link", "fifo", "link to a folder", "page is a link", "page is a fifo"])
def test_links_and_pipes_are_refused_unread(folder, tmp_path, kind):
    place = folder / "SKILL.md" if kind.startswith("page") else folder / "other"
    place.unlink(missing_ok=True)
    if kind.endswith("fifo"):
        os.mkfifo(place)
    else:
        place.symlink_to(tmp_path if kind == "link to a folder" else "/etc/hostname")
    with pytest.raises(UsageError, match="is neither a file nor a folder"):
        read_skill(folder)


def test_a_folder_that_is_too_large_is_refused_before_it_is_read(folder):
    with (folder / "weights.bin").open("wb") as file:
        file.truncate(skill_module.BYTES)  # a hole: nothing is on the disk
    with pytest.raises(UsageError, match=r"more than 2,000 files or 50,000,000 bytes; is it a skill's folder\?"):
        read_skill(folder)


def test_too_many_files_are_refused(folder):
    for number in range(skill_module.FILES):
        (folder / f"{number}.md").touch()
    with pytest.raises(UsageError, match="more than 2,000 files"):
        read_skill(folder)


@pytest.mark.parametrize(("name", "said"), [("nowhere", "there is no such folder"), (".", r"there is no SKILL\.md")])
def test_a_folder_that_is_no_skill_is_told(tmp_path, name, said):
    with pytest.raises(UsageError, match=said):
        read_skill(tmp_path / name)


@pytest.mark.parametrize("place", ["hidden", "hidden/csv-totals", "."])
def test_hidden_cases_are_no_skill(place):
    with pytest.raises(UsageError, match="no agent is shown hidden cases"):
        read_skill(REPOSITORY / place)
