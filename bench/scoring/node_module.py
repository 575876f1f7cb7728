"""The `model` that a hidden case plays with: the project's ES module, loaded in a boxed Node process of its own."""

from __future__ import annotations

import json
import secrets
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.contracts import Box, BoxPlan, Mount
from bench.scoring.boxed_call import REPLY_SECONDS, SCORING_LIMITS, Pipe, boxed_call
from bench.scoring.case import BadReply
from bench.scoring.project_entry import require_entry

WORKER = Mount(source=Path(__file__).with_name("node_worker.mjs"), target="/tools/node_worker.mjs")
_NODE_FLAGS = ("--frozen-intrinsics", "--disable-proto=delete", "--max-old-space-size=256")

Step = dict[str, Any]


def make(export: str, *args: Any, name: str) -> Step:
    """Calls an export of the module; later steps know what it returned by `name`."""
    return {"op": "make", "export": export, "args": args, "name": name}


def call(
    on: str, method: str, *args: Any, read: Sequence[str] | None = None, watch: bool = False, scribble: bool = False
) -> Step:
    """Calls a method of a made object.

    `read`: take only these fields, by name, of the object or of each object of the array that is returned.
    `watch`: give back the arguments as they are afterwards. `scribble`: spoil what was returned, once it is copied.
    """
    step = {"op": "call", "on": on, "method": method, "args": args, "watch": watch, "scribble": scribble}
    return step | ({"read": list(read)} if read is not None else {})


def get(on: str, attribute: str) -> Step:
    """Reads a property of a made object."""
    return {"op": "get", "on": on, "property": attribute}


def again(step: int, *, read: Sequence[str]) -> Step:
    """Looks a second time at what an earlier step (its index) returned."""
    return {"op": "again", "step": step, "read": list(read)}


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What one step gave: a value or an error, told apart only when a case looks."""

    step: str
    """What was done, in words, e.g. `cache.submit`."""

    data: Mapping[str, Any]

    @property
    def value(self) -> Any:
        """Plain JSON data. Raises BadReply where the step threw."""
        self.require()
        return self.data["value"]

    def require(self) -> None:
        """Raises BadReply where the step threw."""
        if "threw" in self.data:
            raise BadReply(f"{self.step} threw {self.data['threw']!a}")

    @property
    def args(self) -> Any:
        """The arguments after the call; only of a step that was watched."""
        return self.data["args"]


class NodeModule:
    """A project's ES module. Every `run` is a fresh process; nothing is kept between runs."""

    def __init__(self, *, box: Box, project: Path, entry: str, seconds: float = REPLY_SECONDS) -> None:
        self._box = box
        self._project = project
        self._entry = entry
        self._seconds = seconds

    def run(self, steps: Sequence[Step]) -> tuple[Answer, ...]:
        """Performs the steps in order, one answer each.

        Raises BadReply where no whole reply of the agreed form came back: the module cannot be loaded, ended the
        process, took too long, wrote too much or wrote on a descriptor that is not its own.
        """
        require_entry(self._project, self._entry)
        nonce = secrets.token_hex(16)
        with tempfile.TemporaryFile() as inputs:
            inputs.write(json.dumps({"nonce": nonce, "steps": steps}).encode())
            inputs.seek(0)
            pipe = Pipe()
            plan = self._plan(inputs.fileno(), pipe.write_end)
            line = boxed_call(self._box, plan, pipes=[pipe], seconds=self._seconds).outputs[0]
        return tuple(
            Answer(step=_in_words(step), data=data)
            for step, data in zip(steps, parse_reply(line, nonce=nonce, steps=steps), strict=True)
        )

    def _plan(self, inputs: int, reply: int) -> BoxPlan:
        module = f"{self._box.project_path(self._project)}/{self._entry}"
        worker = self._box.mount_path(WORKER)
        return BoxPlan(
            argv=("node", *_NODE_FLAGS, worker, str(inputs), str(reply), module),
            project=self._project,
            mounts=(WORKER,),
            pass_fds=(inputs, reply),
            limits=SCORING_LIMITS,
        )


def parse_reply(line: bytes, *, nonce: str, steps: Sequence[Step]) -> list[dict[str, Any]]:
    """Reads the one reply line of a process: one answer a step, each with what its step asked for.

    Raises BadReply for anything else.
    """
    if not line:
        raise BadReply("the process ended without a reply")
    if line.count(b"\n") != 1 or not line.endswith(b"\n"):
        raise BadReply("more or less than one line came back where one reply was expected")
    try:
        reply = json.loads(line, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise BadReply(f"the reply is not JSON ({error})") from None
    if not isinstance(reply, dict) or reply.get("nonce") != nonce:
        raise BadReply("the reply does not carry the nonce of its request")
    if isinstance(failure := reply.get("failure"), str):
        raise BadReply(f"the module could not be loaded: {failure!a}")
    answers = reply.get("answers")
    if not isinstance(answers, list) or len(answers) != len(steps):
        raise BadReply("the reply does not have an answer for every step")
    for step, answer in zip(steps, answers, strict=True):
        if not isinstance(answer, dict) or not ("value" in answer or isinstance(answer.get("threw"), str)):
            raise BadReply(f"the answer to {_in_words(step)} has neither a value nor an error")
        if step.get("watch") and "args" not in answer:
            raise BadReply(f"the answer to {_in_words(step)} does not tell its arguments")
    return answers


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


def _in_words(step: Step) -> str:
    match step["op"]:
        case "make":
            return str(step["export"])
        case "call":
            return f"{step['on']}.{step['method']}"
        case "get":
            return f"{step['on']}.{step['property']}"
        case _:
            return f"step {step['step']}, looked at again,"
