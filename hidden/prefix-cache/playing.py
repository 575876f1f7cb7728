"""Plays prompts through a project's `createCache` and keeps, prompt by prompt, what can be seen from outside."""

from bench.scoring.case import BadReply, is_number
from bench.scoring.node_module import again, call, get, make

OUTCOME = (
    "id",
    "kind",
    "promptTokens",
    "reusedTokens",
    "prefillTokens",
    "resumeSeconds",
    "prefillSeconds",
    "ttftSeconds",
    "storedBytes",
    "evicted",
)
ENTRY = ("id", "tokens", "bytes")


def text(name, count):
    """`count` tokens that no text of another name has."""
    return [f"{name}{index}" for index in range(count)]


def play(model, *prompts, **options):
    """Submits `(id, tokens)` prompts to one new cache, in a process of its own; one `Served` for each."""
    steps = [make("createCache", options, name="cache")]
    for prompt_id, tokens in prompts:
        steps += [
            call("cache", "submit", {"id": prompt_id, "tokens": tokens}, read=OUTCOME),
            call("cache", "entries", read=ENTRY),
            get("cache", "usedBytes"),
        ]
    made, *answers = model.run(steps)
    made.require()
    return [Served(*answers[at : at + 3]) for at in range(0, len(answers), 3)]


class Served:
    """One prompt's outcome and the cache after it. A case that does not look at a part does not suffer from it."""

    def __init__(self, outcome, entries, used_bytes):
        self._outcome = outcome
        self._entries = entries
        self._used_bytes = used_bytes

    def outcome(self, *names):
        """The named fields of the outcome; one that is not there is left out."""
        value = self._outcome.value
        if not isinstance(value, dict):
            raise BadReply(f"submit returned {value!a} where an outcome was expected")
        return {name: value[name] for name in names if name in value}

    def seconds(self, name):
        """A time of the outcome, which must be a number."""
        value = self.outcome(name).get(name)
        if not is_number(value):
            raise BadReply(f"{name} is {value!a} where a number was expected")
        return value

    @property
    def stored(self):
        """Ids of the stored states, in the order in which `entries()` lists them."""
        return [entry.get("id") for entry in self._list()]

    @property
    def stored_bytes(self):
        """Bytes of each stored state by its id."""
        return {entry.get("id"): entry.get("bytes") for entry in self._list()}

    @property
    def used_bytes(self):
        return self._used_bytes.value

    def _list(self):
        value = self._entries.value
        if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
            raise BadReply(f"entries() returned {value!a} where an array of objects was expected")
        if not all(isinstance(entry.get("id"), str) for entry in value):
            raise BadReply("entries() lists a state whose id is no string")
        return value


def replay(model, prompts, **options):
    """Plays the same prompts through two new caches of one process.

    The first cache's outcomes are spoiled as they come; the second one's are looked at again at the end.
    Returns the outcomes of both, those of the second at the end, and whether each argument was left as it was.
    """
    submitted = [{"id": prompt_id, "tokens": tokens} for prompt_id, tokens in prompts]
    first = [call("first", "submit", prompt, read=OUTCOME, scribble=True) for prompt in submitted]
    second = [call("second", "submit", prompt, read=OUTCOME, watch=True) for prompt in submitted]
    opening = [make("createCache", options, name="first"), make("createCache", options, name="second")]
    later = [again(len(opening) + len(first) + at, read=OUTCOME) for at in range(len(second))]
    answers = model.run([*opening, *first, *second, *later])
    for made in answers[:2]:
        made.require()
    played = answers[2:]
    count = len(submitted)
    spoiled, plain, at_end = played[:count], played[count : 2 * count], played[2 * count :]
    return (
        [answer.value for answer in spoiled],
        [answer.value for answer in plain],
        [answer.value for answer in at_end],
        [answer.args for answer in plain],
    )
