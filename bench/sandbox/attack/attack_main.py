"""Runs inside a box and attacks it: what a hostile program would try, told as one JSON line an attack.

    python3 -I -S -c 'import sys; sys.path.insert(0, sys.argv[1]); from bench.sandbox.attack.attack_main import main; main()' FOLDER

FOLDER holds this package and `orders.json`, which `attacks.py` writes. An attack that breaks down counts as one that succeeded: a box is told
to hold only where that was seen.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from bench.sandbox.attack import attack_reaching, attack_reading, attack_rights
from bench.sandbox.attack.attempt import ATTACKS, Attack

PARTS = (attack_reading, attack_reaching, attack_rights)

_ORDER = ("works", "read", "env", "write", "net", "process", "rights", "limits")
"""First what must work, last what uses up the box; the process outside is ended after all that looks for it."""


def in_order() -> dict[str, tuple[str, Attack]]:
    """Id of every trial -> what is tried, and the attack."""
    return dict(sorted(ATTACKS.items(), key=lambda item: _ORDER.index(item[0].partition(".")[0])))


def main() -> None:
    orders = json.loads(Path(sys.argv[1], "orders.json").read_text(encoding="utf-8"))
    orders["writable"].append(tempfile.gettempdir())
    for name, (_, act) in in_order().items():
        try:
            verdict, seen = act(orders)
        except Exception as error:  # noqa: BLE001 - whatever it is, the next attack is to be made
            verdict, seen = "BROKEN", f"the attack broke down: {type(error).__name__}: {error}"
        sys.stdout.write(json.dumps([name, verdict, seen]) + "\n")
        sys.stdout.flush()
