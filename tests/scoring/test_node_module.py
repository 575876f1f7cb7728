import pytest

from bench.scoring.boxed_call import REPLY_SECONDS
from bench.scoring.case import BadReply
from bench.scoring.node_module import NodeModule, again, call, get, make

ODD = """
    export function createCache(options) {
      const shared = { id: 'first', evicted: [] };
      return {
        answer: 42,
        get broken() { throw new Error('no property'); },
        odd: () => [NaN, Infinity, -0, undefined, () => 1, Symbol('s'), 10n, new Date(0), 'ü\\u2028'],
        deep: () => { const a = []; a.push(a); return a; },
        same: (next) => { shared.id = next.id; return shared; },
        empties: (list) => { const { length } = list; list.length = 0; return length; },
        inherited: () => new (class { get id() { return 'by prototype'; } get kind() { return options.kind; } })(),
        throws: () => { throw new RangeError('told so'); },
        textless: () => { throw { toString() { throw this; } }; },
        huge: () => ({ length: 1 }),
        holes: () => Object.assign([], { length: 1e9 }),
      };
    }
    """


@pytest.fixture
def odd(box, project):
    return NodeModule(box=box, project=project("model.mjs", ODD), entry="model.mjs")


def test_each_step_is_answered_for_itself(odd):
    made, odds, deep, answer, broken, throws, textless, nothing, unmade, holes = odd.run(
        [
            make("createCache", {}, name="cache"),
            call("cache", "odd"),
            call("cache", "deep"),
            get("cache", "answer"),
            get("cache", "broken"),
            call("cache", "throws"),
            call("cache", "textless"),
            call("cache", "nothing"),
            call("other", "odd"),
            call("cache", "holes"),
        ]
    )
    made.require()
    names = ["NaN", "Infinity", "undefined", "function", "symbol", "bigint"]
    strange = [{"strange": name} for name in names]
    assert odds.value == [*strange[:2], 0, *strange[2:], {}, "ü\u2028"]
    assert "nested too deep" in str(deep.value)
    assert answer.value == 42
    for step, reason in [
        (broken, "no property"),
        (throws, "RangeError: told so"),
        (textless, "no text"),
        (nothing, "nothing is not a function"),
        (unmade, "there is no other"),
        (holes, "more than 100000 items"),
    ]:
        with pytest.raises(BadReply, match=reason):
            step.require()


def test_what_a_project_does_to_arguments_and_shares_between_answers(odd):
    steps = [
        make("createCache", {"kind": "miss"}, name="cache"),
        call("cache", "same", {"id": "a"}, read=["id", "evicted"], watch=True),
        call("cache", "same", {"id": "b"}, read=["id", "evicted"], scribble=True),
        call("cache", "same", {"id": "c"}, read=["id", "evicted", "absent"]),
        again(1, read=["id"]),
        call("cache", "empties", [1, 2, 3], watch=True),
        call("cache", "inherited", read=["id", "kind"]),
    ]
    _, first, second, third, first_again, empties, inherited = odd.run(steps)
    assert (first.value, first.args) == ({"id": "a", "evicted": []}, [{"id": "a"}])
    assert second.value == {"id": "b", "evicted": []}
    assert third.value == {"id": "c", "evicted": "scribbled"}
    assert first_again.value == {"id": "c"}
    assert (empties.value, empties.args) == (3, [[]])
    assert inherited.value == {"id": "by prototype", "kind": "miss"}


def test_every_run_is_a_new_process(box, project):
    folder = project("model.mjs", "let count = 0; export const createCache = () => ({ count: () => (count += 1) });")
    model = NodeModule(box=box, project=folder, entry="model.mjs")
    steps = [make("createCache", name="cache"), call("cache", "count"), call("cache", "count")]
    for _ in range(2):
        assert [answer.value for answer in model.run(steps)[1:]] == [1, 2]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("this is no module", "could not be loaded: .SyntaxError"),
        ("throw new Error('at once')", "could not be loaded: .Error: at once"),
        ("process.exit(0)", "without a reply"),
        ("export const createCache = () => process.exit(0)", "without a reply"),
        ("await new Promise(() => {})", "without a reply"),
        ("process.kill(process.pid, 'SIGKILL')", "without a reply"),
        ("for (;;);", "did not end within 0.5 s"),
        ("setInterval(() => {}, 10); await new Promise(() => {})", "did not end within 0.5 s"),
        ("process.on('exit', () => { for (;;); }); export const createCache = () => ({})", "did not end within 0.5 s"),
        ("import fs from 'node:fs'; fs.writeSync(Number(process.argv[3]), 'x')", "one line|not JSON"),
        (
            "import fs from 'node:fs'; process.on('exit', () => fs.writeSync(Number(process.argv[3]), 'x\\n'))",
            "one line",
        ),
        ("export const createCache = () => ({ x: () => 'y'.repeat(2_000_000) })", "more than 1,000,000 bytes"),
        ("const a = []; for (;;) a.push(new Array(1e6).fill(1))", "without a reply|did not end"),
    ],
)
def test_a_module_that_gives_no_answer(box, project, text, reason):
    seconds = 0.5 if "did not end" in reason else REPLY_SECONDS
    model = NodeModule(box=box, project=project("model.mjs", text), entry="model.mjs", seconds=seconds)
    with pytest.raises(BadReply, match=reason):
        model.run([make("createCache", name="cache"), call("cache", "x")])


def test_a_project_without_the_file(box, project):
    folder = project("other.mjs", "")
    (folder / "model.mjs").symlink_to("/etc/passwd")
    for entry in ("model.mjs", "none.mjs"):
        with pytest.raises(BadReply, match=f"no file {entry}"):
            NodeModule(box=box, project=folder, entry=entry).run([])


def test_what_a_module_prints_is_nobodys_business(box, project):
    text = "console.log('PASS'); console.error('PASS'); export const createCache = () => ({ answer: 1 });"
    model = NodeModule(box=box, project=project("model.mjs", text), entry="model.mjs")
    assert model.run([make("createCache", name="cache"), get("cache", "answer")])[1].value == 1
