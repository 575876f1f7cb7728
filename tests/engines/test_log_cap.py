"""An engine that talks too much does not fill the disk."""

from __future__ import annotations

import sys
import time

from bench.engines.log_cap import LogCap
from bench.engines.supervised import Supervised

NOTE = b"\nruncard: the log is cut at 1,000 bytes; what came later is not kept\n"


def test_a_log_is_cut_once_with_a_note_and_held_there(tmp_path):
    path = tmp_path / "engine.log"
    with path.open("ab") as ours, path.open("ab", buffering=0) as engine:
        cap = LogCap(ours.fileno(), most_bytes=1_000)
        engine.write(b"a" * 1_000)
        cap.hold()
        assert path.read_bytes() == b"a" * 1_000
        engine.write(b"b" * 500)
        cap.hold()
        assert path.read_bytes() == b"a" * 1_000 + NOTE
        for _ in range(3):
            engine.write(b"c" * 5_000)
            cap.hold()
            assert path.read_bytes() == b"a" * 1_000 + NOTE
    assert path.stat().st_size == 1_000 + len(NOTE)


def test_a_talking_engine_is_held_while_it_runs_and_at_its_end(tmp_path):
    code = "import time\nwhile True:\n    print('x' * 999, flush=True); time.sleep(0.001)\n"
    log = tmp_path / "engine.log"
    engine = Supervised([sys.executable, "-c", code], environment={}, log=log, stop_seconds=1, log_bytes=20_000)
    try:
        while log.stat().st_size <= 20_000 or b"the log is cut at 20,000 bytes" not in log.read_bytes():
            assert engine.ended is None
            time.sleep(0.05)
    finally:
        engine.stop()
    text = log.read_bytes()
    assert len(text) < 25_000, "a line that the engine wrote between cut and note may stay"
    assert text.startswith(b"x" * 999 + b"\n")
    assert text.count(b"runcard: the log is cut") == 1
