"""An engine that somebody else started, behind a gate that demands a key, as hosted engines have one."""

from __future__ import annotations

import http.client
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from bench.processes import free_port
from tests.whole.running import REPOSITORY, wait_for

SCRIPT = REPOSITORY / "fixtures" / "scripts" / "csv-totals" / "sound"


@contextmanager
def gated_engine(folder: Path, key: str) -> Iterator[tuple[str, subprocess.Popen]]:
    """URL of the gate, and the engine's own process behind it."""
    folder.mkdir()
    port = free_port("127.0.0.1")
    command = [
        sys.executable,
        "-m",
        "bench.engines.embedded",
        "--port",
        str(port),
        "--script",
        str(SCRIPT),
        "--name",
        "sound",
    ]
    with (folder / "log").open("wb") as log:
        engine = subprocess.Popen(command, cwd=REPOSITORY, stdout=log, stderr=log)
    gate = ThreadingHTTPServer(("127.0.0.1", 0), _handler(port, key))
    thread = threading.Thread(target=gate.serve_forever)
    thread.start()
    try:
        wait_for(lambda: b"ready" in (folder / "log").read_bytes(), 30, "the engine")
        yield f"http://127.0.0.1:{gate.server_port}", engine
    finally:
        gate.shutdown()
        thread.join()
        gate.server_close()
        engine.terminate()
        engine.wait()


def _handler(port: int, key: str) -> type[BaseHTTPRequestHandler]:
    class Gate(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if self.headers.get("Authorization") != f"Bearer {key}":
                self.answer(401, "application/json", b'{"error": {"message": "a key is needed", "type": "auth"}}')
                return
            connection = http.client.HTTPConnection("127.0.0.1", port)
            kept = {
                name: value
                for name, value in self.headers.items()
                if name.lower() not in ("authorization", "host", "connection")
            }
            connection.request(self.command, self.path, body or None, kept)
            answer = connection.getresponse()
            self.answer(answer.status, answer.getheader("Content-Type", ""), answer.read())
            connection.close()

        def do_POST(self) -> None:
            self.do_GET()

        def answer(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    return Gate
