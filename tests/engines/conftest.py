"""Small engines of our own: programs with a shebang, and the profiles that start them."""

from __future__ import annotations

import socket
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bench.engines.engine import Launch, plan_launch
from bench.engines.profile import TIMED, ProfileFile
from bench.engines.real_model import fetch
from bench.spec import REPOSITORY
from bench.yaml_file import load_model

SERVER = """
import http.server, json, os, signal, subprocess, sys, time

port, folder = int(sys.argv[1]), sys.argv[2]
began = time.monotonic()

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        status, body = 200, {"data": [{"meta": {"n_ctx": 4096}}]}
        if self.path == "/health" and time.monotonic() - began < 0.3:
            status = 503
        if self.path == "/elsewhere":
            status = 404
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

if "stubborn" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if "daemon" in sys.argv:
    # A session of its own, its parent gone, deaf to TERM.
    code = "import os, signal, time; os.setsid(); signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    subprocess.run(["/bin/sh", "-c", '"$0" -c "$1" &', sys.executable, code])
print("told:", os.environ.get("TOLD"), flush=True)
http.server.HTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""


VERSION = """
import sys
if sys.argv[1:] == ["--version"]:
    print("small version: 1.2 (abc)")
    sys.exit()
"""


def write_program(path: Path, code: str) -> Path:
    path.write_text(f"#!{sys.executable}\n{VERSION}{textwrap.dedent(code)}", encoding="utf-8")
    path.chmod(0o755)
    return path


@pytest.fixture
def make_profile(tmp_path) -> Callable[..., ProfileFile]:
    """Builds a profile whose program is this Python code; it gets the port, the folder and more words as arguments."""

    def make(code: str = SERVER, *, words: tuple[str, ...] = (), ready: str = "/health", seconds: float = 20):
        program = write_program(tmp_path / "small-engine", code)
        unavailable = "".join(f"  {figure}: a test's engine\n" for figure in TIMED)
        path = tmp_path / "small.yaml"
        path.write_text(
            f"title: Small engine\nsimulated: true\nchecked: run here\n"
            f"launch:\n  model: none\n"
            f"  programs:\n    - command: {program}\n      version_args: [--version]\n"
            f"      version_pattern: 'version: (.+)'\n"
            f"  install: write it\n"
            f"  argv: ['{{port}}', '{{folder}}'{''.join(f', {word}' for word in words)}]\n"
            f"  environment: {{TOLD: 'port {{port}}'}}\n"
            f"  stop_seconds: 0.5\n"
            f"ready: {{path: {ready}, loading: [503], seconds: {seconds}}}\n"
            f"context_window: {{path: /v1/models, key: data.0.meta.n_ctx}}\n"
            f"granted: {{words: {{log: 'told: (.+)'}}}}\n"
            f"unavailable:\n{unavailable}",
            encoding="utf-8",
        )
        return load_model(path, ProfileFile)

    return make


@pytest.fixture
def plan(tmp_path) -> Callable[[ProfileFile], Launch]:
    def make(profile: ProfileFile) -> Launch:
        return plan_launch(
            profile,
            name="small",
            values={"model": "m", "model_file": "", "script": ""},
            args=(),
            model_sha256=None,
            folder=tmp_path / "engine",
        )

    return make


@pytest.fixture
def squatter() -> Iterator[Callable[[int], None]]:
    """Takes a port and answers every request there, as a server that has nothing to do with us."""
    import http.server
    import threading

    running: list[tuple[http.server.HTTPServer, threading.Thread]] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_):
            pass

    def take(port: int) -> None:
        server = http.server.HTTPServer(("127.0.0.1", port), Handler)
        assert server.socket.family == socket.AF_INET
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        running.append((server, thread))

    yield take
    for server, thread in running:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def serve() -> Iterator[Callable[..., str]]:
    """Starts a server that answers `METHOD /path` as told.

    A list of (status, body) is answered in turn, the last one from then on; the body `None` breaks the connection.
    `key`: what it wants as Authorization.
    """
    import http.server
    import threading

    running: list[tuple[http.server.HTTPServer, threading.Thread]] = []

    def start(routes: dict[str, list[tuple[int, str | None]]], *, key: str | None = None, port: int = 0) -> str:
        left = {call: list(answers) for call, answers in routes.items()}

        class Handler(http.server.BaseHTTPRequestHandler):
            def answer(self):
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                answers = left.get(f"{self.command} {self.path}", [(404, "{}")])
                status, body = answers.pop(0) if len(answers) > 1 else answers[0]
                if key is not None and self.headers.get("Authorization") != f"Bearer {key}":
                    status, body = 401, '{"error": "no"}'
                if body is None:
                    self.close_connection = True
                    return
                self.send_response(status)
                self.send_header("Content-Length", str(len(body.encode())))
                self.end_headers()
                self.wfile.write(body.encode())

            do_GET = do_POST = do_DELETE = answer  # noqa: N815  the base class's names

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        running.append((server, thread))
        return f"http://127.0.0.1:{server.server_address[1]}"

    yield start
    for server, thread in running:
        server.shutdown()
        thread.join()
        server.server_close()


def recorded(place: str) -> str:
    """A piece of what a real engine said: `llama-server-b10068/models.json`."""
    return (REPOSITORY / "fixtures" / "recordings" / place).read_text(encoding="utf-8")


@pytest.fixture(name="recorded")
def recorded_fixture() -> Callable[[str], str]:
    return recorded


@pytest.fixture(scope="session")
def real_model() -> Path:
    """The 135M model, fetched into models/ where it is missing."""
    return fetch(REPOSITORY / "models")[0]
