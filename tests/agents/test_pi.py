"""The real Pi in the real box, against scripted answers: what it sends, how often it asks, what is kept of it."""

from __future__ import annotations

import json
from dataclasses import replace

import jsonschema
import pytest

from bench.agents.adapters import Place, open_adapter
from bench.agents.pi import SAMPLING, read_options
from bench.agents.pi_settings import ASSUMED_WINDOW, TOOLS, models_json, settings_json
from bench.errors import UsageError
from bench.spec import REPOSITORY, AgentSpec
from tests.agents.boxed_session import embedded_engine, run_boxed
from tests.agents.npm_agents import require_agent

PACKAGE = REPOSITORY / ".agents" / "pi" / "node_modules" / "@earendil-works" / "pi-coding-agent"


@pytest.fixture
def ask(make_request):
    """A session that the harness asks for, with a window that a model of today has."""

    def make(prompt="Build it.", **changes):
        return replace(make_request(prompt), **{"context_window": 131_072, **changes})

    return make


@pytest.fixture
def pi(engine, ask, profile, tmp_path):
    """Runs one session of Pi with some replies of the engine."""
    require_agent("pi")

    def run_with(*replies, args=(), **request):
        engine.replies = list(replies)
        adapter = open_adapter(AgentSpec(name="pi", args=args))
        private = tmp_path / "private"
        return run_boxed(ask(**request), port=engine.address.port, profile=profile, private=private, adapter=adapter)

    return run_with


def test_a_session_writes_runs_and_is_done_and_every_request_is_pinned(pi, engine, wire, project):
    done = pi(
        wire.calls(("write", {"path": "a/b.txt", "content": "one\n"})),
        wire.calls(("bash", {"command": "cat a/b.txt; pwd"}), name="resp-2"),  # calls of one answer run side by side
        wire.says("All is built: größer.", name="resp-3"),
        prompt="Build it: größer.",
    )
    assert (done.ended, done.result.reason, done.result.stream_damage) == (("done", None), "", None)
    assert done.result.final_text == done.events.final_text == "All is built: größer."
    assert (project / "a/b.txt").read_text() == "one\n"
    assert done.claims == [(100, 900, 50)] * 3
    assert [one.response_id for one in done.events.usage] == ["resp-1", "resp-2", "resp-3"]
    assert (done.events.differences, dict(done.events.unknown), done.events.retries) == ((), {}, 0)
    assert 0 < done.events.tool_seconds < done.result.seconds
    assert (done.evidence / "agent-session.jsonl").read_text().startswith('{"type":"session","version":3')
    assert (done.evidence / "stderr.txt").read_bytes() == b""
    for asked in engine.requests:
        body = asked["body"]
        assert {key: body[key] for key in SAMPLING} == {"temperature": 0.6, "top_p": 0.95, "seed": 1}
        assert (body["model"], body["stream"], body["max_tokens"]) == ("tiny", True, 256)
        assert body["stream_options"] == {"include_usage": True}
        assert body["reasoning_effort"] == "medium"
        assert tuple(tool["function"]["name"] for tool in body["tools"]) == TOOLS
        assert body["messages"][0]["content"].endswith("<cwd>\n/box\n</cwd>")
    assert engine.requests[2]["body"]["messages"][-1]["content"] == "one\n/box\n"


def test_what_a_person_chose_is_on_the_wire(pi, engine, wire):
    arguments = ("--thinking=off", "--sampling", "temperature=0", "--sampling=top_k=20", "--sampling=min_p=0.05")
    assert pi(wire.says("Done."), args=arguments).ended == ("done", None)
    body = engine.requests[0]["body"]
    assert {key: body[key] for key in ("temperature", "top_p", "seed", "top_k", "min_p")} == {
        "temperature": 0, "top_p": 0.95, "seed": 1, "top_k": 20, "min_p": 0.05,
    }  # fmt: skip
    assert "reasoning_effort" not in body


@pytest.mark.parametrize("model", ["local/coder:high", "$HOME*[a]"])
def test_a_models_name_is_a_name_whatever_it_looks_like(pi, engine, wire, model):
    assert pi(wire.says("Done."), model=model).ended == ("done", None)
    body = engine.requests[0]["body"]
    assert (body["model"], body["reasoning_effort"]) == (model, "medium")


MEMORY = {"error": {"message": "CUDA out of memory", "type": "server_error", "code": 400}}
BUSY = {"error": {"message": "busy", "type": "server_error"}}
MISSING = {"error": {"message": "File Not Found", "type": "not_found_error", "code": 404}}


@pytest.mark.parametrize(
    ("reply", "ended"),
    [
        (lambda wire: wire.fails(400, MEMORY), ("engine-error", "memory")),
        (lambda wire: wire.fails(503, BUSY), ("engine-error", "http-503")),
        (lambda wire: wire.fails(429, BUSY), ("engine-error", "http-429")),
        (lambda wire: wire.fails(404, MISSING), ("agent-error", "http-404")),
        (
            lambda wire: replace(wire.says("x"), data=wire.says("x").data[:-400], then="reset"),
            ("engine-error", "reset"),
        ),
    ],
    ids=["memory", "503", "429", "404 of an unknown model", "reset"],
)
def test_a_failure_is_asked_once_and_is_the_engines(pi, engine, wire, reply, ended):
    done = pi(reply(wire))
    assert len(engine.requests) == 1
    assert done.events.end == "engine-error"
    assert done.ended == ended
    assert (done.events.retries, dict(done.events.unknown), done.result.exit_code) == (0, {}, 0)
    assert len(done.exchanges) == len(done.events.usage) == 1
    assert done.claims == [(None, None, None)]


SKILL = "---\nname: {name}\ndescription: Say {word} at the end.\nversion: 1.0\n---\nSay {word}.\n"


def test_a_skill_is_offered_and_stands_in_the_record(pi, engine, wire, tmp_path):
    folder = tmp_path / "any name"
    folder.mkdir()
    (folder / "SKILL.md").write_text(SKILL.format(name="last-word", word="farewell"), encoding="utf-8")
    read = ("read", {"path": "/agent/skills/last-word/SKILL.md"})
    done = pi(wire.calls(read), wire.says("farewell"), args=(f"--skill={folder}",))
    assert done.ended == ("done", None)
    system = engine.requests[0]["body"]["messages"][0]["content"]
    assert "last-word" in system
    assert "Say farewell at the end." in system
    assert "Say farewell." in engine.requests[1]["body"]["messages"][-1]["content"]
    (told,) = open_adapter(AgentSpec(name="pi", args=(f"--skill={folder}",))).configuration["skills"]
    assert (told["name"], told["version"], len(told["sha256"])) == ("last-word", "1.0", 64)


def test_what_is_given_is_what_the_digest_is_of_whatever_happens_to_the_folder(tmp_path, make_request):
    (tmp_path / "tool.sh").write_text("#!/bin/sh\necho ran\n", encoding="utf-8")
    (tmp_path / "tool.sh").chmod(0o755)
    page = tmp_path / "SKILL.md"
    page.write_text(SKILL.format(name="still", word="first"), encoding="utf-8")
    adapter = open_adapter(AgentSpec(name="pi", args=(f"--skill={tmp_path}",)))
    digest = adapter.configuration["skills"][0]["sha256"]
    page.write_text(SKILL.format(name="still", word="second"), encoding="utf-8")
    place = Place(project="/box", home="/agent", url="http://127.0.0.1:1", mounted=lambda mount: mount.target)
    command = adapter.command(make_request("Go."), place)
    assert command.files["skills/still/SKILL.md"] == SKILL.format(name="still", word="first").encode()
    assert command.executable == {"skills/still/tool.sh"}
    assert [mount.target for mount in command.mounts] == ["/tools/pi/node_modules"]
    other = open_adapter(AgentSpec(name="pi", args=(f"--skill={tmp_path}",)))
    assert other.configuration["skills"][0]["sha256"] != digest


def test_two_skills_of_one_name_are_refused_before_anything_runs(tmp_path):
    require_agent("pi")
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "SKILL.md").write_text(SKILL.format(name="same", word=name), encoding="utf-8")
    adapter = open_adapter(AgentSpec(name="pi", args=(f"--skill={tmp_path}/a", f"--skill={tmp_path}/b")))
    with pytest.raises(UsageError, match="two skills are named 'same'; their names must differ"):
        adapter.check_installed()


def test_evidence_is_read_without_the_skill_that_was_given(tmp_path):
    adapter = open_adapter(AgentSpec(name="pi", args=("--skill=/nowhere",)))
    assert adapter.read_events(tmp_path, 1).end is None
    require_agent("pi")
    with pytest.raises(UsageError, match="--skill /nowhere: there is no such folder"):
        adapter.check_installed()


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        ("--thinking=deep", "invalid choice"),
        ("--sampling=temperature", "expected NAME=NUMBER, got 'temperature'"),
        ("--sampling=temperature=hot", "'hot' is not a number"),
        ("--sampling=seed=NaN", "'NaN' is not a number"),
        ("--sampling=seed=true", "'true' is not a number"),
        ("--sampling=seed=1e400", "'1e400' is not a number"),
        ("--sampling=max_tokens=9", "'max_tokens' is no sampling"),
        ("--sampling=model=1", "'model' is no sampling"),
        ("--assumed-window=12", "expected tokens, 1000 or more, got '12'"),
        ("--assumed-window=many", "expected tokens, 1000 or more, got 'many'"),
        ("--model=x", "unrecognized arguments: --model=x"),
        ("--thin=low", "unrecognized arguments"),
    ],
)
def test_wrong_arguments_are_refused_with_those_that_exist(argument, said):
    with pytest.raises(UsageError, match="--agent-arg of pi: ") as caught:
        open_adapter(AgentSpec(name="pi", args=(argument,)))
    assert said in str(caught.value)
    assert "there are --thinking=LEVEL, --sampling=NAME=NUMBER" in str(caught.value)


# --- settings --------------------------------------------------------------------------------------------------------


def test_both_configuration_files_are_what_the_program_itself_describes(ask):
    """Its published schemas name every setting; a name that they do not know would be passed over in silence."""
    require_agent("pi")
    request = ask()
    files = {
        "models": models_json(request, window=32_768, url="http://127.0.0.1:1", sampling=SAMPLING),
        "settings": settings_json(request, window=32_768),
    }
    for name, content in files.items():
        schema = json.loads((PACKAGE / "schemas" / f"{name}.schema.json").read_text(encoding="utf-8"))
        jsonschema.validate(content, schema)
    schema = json.loads((PACKAGE / "schemas" / "settings.schema.json").read_text(encoding="utf-8"))
    for key, value in files["settings"].items():
        known = schema["properties"][key]
        if isinstance(value, dict):
            assert set(value) <= set(known["properties"]), key


@pytest.mark.parametrize("window", [4_096, 8_192, 16_384, 32_768, 65_536, 131_072, 1_000_000])
def test_compaction_leaves_room_for_an_answer_and_does_not_follow_on_itself(ask, window):
    compaction = settings_json(ask(), window=window)["compaction"]
    threshold = window - compaction["reserveTokens"]
    assert compaction["keepRecentTokens"] >= 0
    assert compaction["keepRecentTokens"] <= max(threshold, 0) // 2
    if window >= 8_192:
        assert compaction["reserveTokens"] - 4_096 >= 1_024
        assert threshold >= window // 3


def test_a_timer_is_never_longer_than_node_can_count(ask):
    settings = settings_json(ask(seconds=10**9), window=32_768)
    assert settings["httpIdleTimeoutMs"] == settings["retry"]["provider"]["timeoutMs"] == 2**31 - 1


@pytest.mark.parametrize(
    ("reported", "args", "told"),
    [(32_768, (), 32_768), (None, (), ASSUMED_WINDOW), (None, ("--assumed-window=16000",), 16_000)],
)
def test_the_window_is_the_engines_or_what_the_record_says(ask, bare_box, reported, args, told):
    adapter = open_adapter(AgentSpec(name="pi", args=args))
    place = Place(project="/box", home="/agent", url="http://127.0.0.1:1", mounted=bare_box.mount_path)
    command = adapter.command(replace(ask(), context_window=reported), place)
    (model,) = json.loads(command.files["config/models.json"])["providers"]["local"]["models"]
    assert model["contextWindow"] == told
    if reported is None:
        assert adapter.configuration["window_if_unknown"] == told


def test_the_defaults_are_written_down():
    assert dict(read_options(()).sampling) == {"temperature": 0.6, "top_p": 0.95, "seed": 1}


# --- compaction ------------------------------------------------------------------------------------------------------

GROWING = """\
about: The second answer's tool prints much the first time; after the summary it is asked again and prints little.
sessions:
  - role: builder
    turns:
      - say: "I begin."
        do: [{run: "echo begun"}]
      - say: "I look."
        do: [{run: "if [ -e seen ]; then echo again; else touch seen; seq 1 1500; fi"}]
      - say: "All is built."
"""


def test_a_small_window_is_summed_up_in_mid_run_and_its_usage_is_the_engines(ask, profile, tmp_path):
    require_agent("pi")
    with embedded_engine(tmp_path / "engine", GROWING, "--context-window", "8192") as (port, truth_file):
        request = replace(ask(), context_window=8_192)
        done = run_boxed(request, port=port, profile=profile, private=tmp_path / "private")
    truth = [json.loads(line) for line in truth_file.read_text().splitlines()]
    assert done.ended == ("done", None)
    assert done.result.final_text == "All is built."
    stops = [one.stop_reason for one in done.events.usage]
    assert (stops[2], stops[-1]) == ("compaction", "stop")
    assert stops.count("compaction") == done.events.compactions
    told = [(one.input_tokens + one.cached_tokens, one.output_tokens) for one in done.events.usage]
    assert told == [(line["prompt_tokens"], line["output_tokens"]) for line in truth]
    assert (done.events.differences, done.result.stream_damage) == ((), None)


def test_a_summary_that_fails_is_told_with_its_reason(pi, engine, wire):
    """The engine says that the prompt grew over the threshold, then cuts the summary at its length."""
    grown = {**wire.USAGE, "prompt_tokens": 7_000, "prompt_tokens_details": {"cached_tokens": 0}}
    first = wire.calls(("bash", {"command": "seq 1 1200"}))
    first = replace(first, data=first.data.replace(json.dumps(wire.USAGE).encode(), json.dumps(grown).encode()))
    done = pi(first, wire.says("Half a summ", finish="length"), wire.says("All is built."), context_window=8_192)
    assert done.ended == ("done", None)
    assert (done.events.compactions, len(done.claims), len(done.exchanges)) == (0, 2, 3)
    assert "1 x compaction failed, and what it used is not told; the last: Auto-compaction fail" in done.events.damage
    assert "tools" not in engine.requests[1]["body"]
    assert done.result.final_text == "All is built."


@pytest.mark.parametrize("summary", ["cut", "refused", "reset"])
def test_a_summary_that_fails_after_the_last_answer_takes_nothing_from_it(pi, wire, summary):
    grown = {**wire.USAGE, "prompt_tokens": 7_000, "prompt_tokens_details": {"cached_tokens": 0}}
    ways = {"cut": wire.says("Half a summ", finish="length"), "refused": wire.fails(503, BUSY)}
    half = wire.says("Half a summ")
    ways["reset"] = replace(half, data=half.data[:-400], then="reset")
    done = pi(
        wire.calls(("bash", {"command": "seq 1 1200"})),
        wire.says("All is built.", usage=grown),
        ways[summary],
        context_window=8_192,
    )
    assert (len(done.exchanges), done.events.end) == (3, "done")
    assert "1 x compaction failed" in done.events.damage
    assert done.result.final_text == "All is built."
    assert done.ended == ("done", None)
