"""requests.jsonl is read back as it was written, and damage in it is said."""

from __future__ import annotations

import json
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.errors import EvidenceError
from bench.records import requests_file, store
from bench.records.schema import RequestRecord


def request(**changes):
    values = {
        **dict.fromkeys(item.name for item in fields(RequestRecord)),
        "session": 1,
        "role": "builder",
        "index": 0,
        "sent_at": 0.1,
        "ended_at": 1.0,
    }
    return RequestRecord(**{**values, **changes})


@given(
    st.lists(
        st.tuples(st.none() | st.text(max_size=20), st.none() | st.floats(0, 1e9), st.none() | st.integers(0, 10**8)),
        max_size=5,
    )
)
def test_requests_come_back_to_the_last_digit(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("run")
    kept = tuple(
        request(index=n, error=text, ttft_seconds=seconds, prompt_tokens=count)
        for n, (text, seconds, count) in enumerate(rows)
    )
    requests_file.write_requests(folder, kept)
    assert requests_file.read_requests(folder) == kept
    assert [place.name for place in folder.iterdir()] == [requests_file.NAME]


def test_a_lone_half_of_a_character_does_not_stop_a_record(tmp_path):
    requests_file.write_requests(tmp_path, [request(error="\ud800 no")])
    assert requests_file.read_requests(tmp_path)[0].error == "? no"


@pytest.mark.parametrize("text", ["{", "[]\n", '{"session": 1}\n', "\x00\n"])
def test_damage_is_one_sentence(tmp_path, text):
    requests_file.write_requests(tmp_path, [request()])
    with (tmp_path / requests_file.NAME).open("a") as stream:
        stream.write(text)
    with pytest.raises(EvidenceError, match="line 2"):
        requests_file.read_requests(tmp_path)


def test_a_key_of_another_format_is_refused(tmp_path):
    requests_file.write_requests(tmp_path, [request()])
    place = tmp_path / requests_file.NAME
    place.write_text(json.dumps({**json.loads(place.read_text()), "colour": "red"}) + "\n")
    with pytest.raises(EvidenceError, match="no request of this format"):
        requests_file.read_requests(tmp_path)


def test_no_file_says_when_it_is_written(tmp_path):
    with pytest.raises(EvidenceError, match="written together with the record"):
        requests_file.read_requests(tmp_path)


def test_the_manifest_marks_it_as_derived(tmp_path):
    requests_file.write_requests(tmp_path, [request()])
    (tmp_path / "journal.jsonl").write_text("{}\n")
    assert {file.path: file.derived for file in store.manifest(tmp_path)} == {
        "journal.jsonl": False,
        requests_file.NAME: True,
    }
