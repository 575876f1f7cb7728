"""A harness of its own process, for the tests: opens a box and starts what its standard input asks for, line by line.

So the same tests run as root and as an ordinary user, and a test can kill a harness.
"""

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

REPOSITORY, PACKAGES = sys.argv[1:3]
sys.path[:0] = [REPOSITORY, PACKAGES]

from bench.contracts import BoxLimits, BoxPlan, Mount, RelayAddress  # noqa: E402
from bench.sandbox.attacks import attack, attacker  # noqa: E402
from bench.sandbox.box import open_box  # noqa: E402
from bench.sandbox.decoys import set_out  # noqa: E402


def plan_of(asked):
    relay = asked.get("relay")
    project = asked.get("project")
    return BoxPlan(
        argv=tuple(asked["argv"]),
        project=Path(project) if project else None,
        writable=asked.get("writable", False),
        mounts=tuple(
            Mount(source=Path(source), target=target, writable=writable)
            for source, target, writable in asked.get("mounts", ())
        ),
        env=asked.get("env", {}),
        relay=RelayAddress(socket=Path(relay), port=1) if relay else None,
        limits=BoxLimits(**asked.get("limits", {})),
    )


def answer(box, asked):
    started = box.start(plan_of(asked), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if asked.get("leave"):
        return {"code": None, "out": started.process.stdout.readline().decode(), "err": ""}
    try:
        out, err = started.process.communicate(timeout=60)
    finally:
        started.end()
    return {"code": started.process.returncode, "out": out.decode(), "err": err.decode()}


def attacked(box, asked):
    """The whole attack on a box with a writable project and a relay, or with a project for reading alone."""
    with set_out() as decoys:
        hostile = attacker(box, decoys)
        plan = BoxPlan(
            argv=hostile.argv,
            project=decoys.project("project"),
            writable=asked["writable"],
            mounts=hostile.mounts,
            relay=decoys.relay if asked["writable"] else None,
            limits=BoxLimits(**asked["limits"]),
        )
        url = box.relay_url(decoys.relay) if asked["writable"] else None
        trials = attack(box, plan, decoys, results=decoys.folder / "results", relay_url=url)
    return {"trials": [asdict(trial) for trial in trials]}


def diagnosed(asked):
    """What `runcard doctor` says to the user whom the driver runs as."""
    from bench.doctor import as_json, diagnose

    told = []
    found = diagnose(results=Path(asked["results"]), unsafe=False, progress=told.append, agents=("builtin",))
    return {**json.loads(as_json(found)), "told": told}


def answered(box, asked):
    if asked.get("attack"):
        return attacked(box, asked)
    if asked.get("doctor"):
        return diagnosed(asked)
    return answer(box, asked)


def main():
    box = open_box(unsafe=False)
    print(json.dumps({"name": box.name, "isolation": box.isolation}), flush=True)
    for line in sys.stdin:
        print(json.dumps(answered(box, json.loads(line))), flush=True)


main()
