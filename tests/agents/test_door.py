"""The door inside a box: a port on loopback that leads to a unix socket, and the command that it starts."""

from __future__ import annotations

import socket
import struct
import subprocess
import sys
import threading
import time

import pytest

from bench.agents import door_main
from bench.agents.adapters import AgentCommand
from bench.agents.door import behind_door, url_inside
from bench.contracts import RelayAddress
from bench.processes import free_port

SECONDS = 20


class UnixServer:
    """Hands each connection to a function, in a thread of its own."""

    def __init__(self, path, serve):
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(str(path))
        self.listener.listen(64)
        self._serve = serve
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._one, args=(connection,), daemon=True).start()

    def _one(self, connection):
        connection.settimeout(SECONDS)
        with connection:
            self._serve(connection)


def everything(connection):
    return b"".join(iter(lambda: connection.recv(65_536), b""))


@pytest.fixture
def door(tmp_path):
    """Starts the door before a command that waits for the end of its input; gives a function that connects to it."""
    started, servers = [], []

    def open_door(serve, *, command=("cat",)):
        path, port = tmp_path / "relay.sock", free_port("127.0.0.1")
        if serve is not None:
            servers.append(UnixServer(path, serve))
        argv = [sys.executable, "-I", "-S", door_main.__file__, str(port), str(path), *command]
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        started.append(process)

        def connect():
            deadline = time.monotonic() + SECONDS
            while True:
                try:
                    return socket.create_connection(("127.0.0.1", port), timeout=SECONDS)
                except ConnectionRefusedError:
                    assert time.monotonic() < deadline
                    time.sleep(0.01)

        return process, connect

    yield open_door
    for server in servers:
        server.listener.close()
    for process in started:
        process.kill()
        process.communicate()


def test_bytes_are_equal_both_ways_and_each_side_can_end_alone(door):
    sent = bytes(range(256)) * 20_000
    got = []

    def serve(connection):
        got.append(everything(connection))
        connection.sendall(got[0][::-1])

    _, connect = door(serve)
    with connect() as client:
        client.sendall(sent)
        client.shutdown(socket.SHUT_WR)
        assert everything(client) == sent[::-1]
    assert got == [sent]


def test_an_answer_flows_while_the_request_is_still_being_sent(door):
    def serve(connection):
        while piece := connection.recv(100):
            connection.sendall(piece.upper())

    _, connect = door(serve)
    with connect() as client:
        for word in (b"one", b"two", b"three"):
            client.sendall(word)
            assert client.recv(100) == word.upper()


def test_many_connections_at_once_do_not_mix(door):
    def serve(connection):
        name = everything(connection)
        connection.sendall(name * 1000)

    _, connect = door(serve)
    clients = [connect() for _ in range(24)]
    for number, client in enumerate(clients):
        client.sendall(b"%03d" % number)
    for number, client in reversed(list(enumerate(clients))):
        with client:
            client.shutdown(socket.SHUT_WR)
            assert everything(client) == b"%03d" % number * 1000


def test_a_relay_that_breaks_off_breaks_the_agents_connection(door):
    def serve(connection):
        connection.sendall(b"half an ans")
        connection.recv(1)
        # Closed over bytes that were not read: what a unix socket has for a reset.

    _, connect = door(serve)
    with connect() as client:
        assert client.recv(100) == b"half an ans"
        client.sendall(b"x" * 100_000)
        with pytest.raises(ConnectionResetError):
            everything(client)


def test_an_agent_that_breaks_off_is_seen_by_the_relay(door):
    ended = threading.Event()

    def serve(connection):
        everything(connection)
        ended.set()

    _, connect = door(serve)
    client = connect()
    client.sendall(b"half a requ")
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    assert ended.wait(SECONDS)


def test_without_a_relay_a_connection_is_reset(door):
    process, connect = door(None)
    with pytest.raises(ConnectionResetError), connect() as client:  # a quick reset is seen by connecting already
        client.recv(1)
    assert process.poll() is None


def test_a_relay_that_went_away_does_not_end_the_agent(door, tmp_path):
    process, connect = door(lambda connection: connection.sendall(b"ok"))
    with connect() as client:
        assert client.recv(10) == b"ok"
    (tmp_path / "relay.sock").unlink()
    with connect() as client, pytest.raises(ConnectionResetError):
        client.recv(1)
    assert process.communicate(b"still here", timeout=SECONDS)[0] == b"still here"
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        (("sh", "-c", "exit 7"), 7, b""),
        (("sh", "-c", "kill -9 $$"), 247, b""),
        (("no-such-program",), 127, b"no-such-program cannot be started: No such file or directory\n"),
    ],
)
def test_it_ends_as_the_command_ends(door, command, code, said):
    process, _ = door(None, command=command)
    assert process.communicate(timeout=SECONDS)[1] == said
    assert process.returncode == code


def test_sigterm_ends_it_at_once(door):
    process, connect = door(lambda connection: connection.sendall(b"ok"))
    connect().close()
    process.terminate()
    assert process.wait(SECONDS) == -15


def test_an_agent_that_speaks_unix_sockets_needs_no_door(bare_box, tmp_path):
    relay = RelayAddress(socket=tmp_path / "s", port=1)
    bare_box.unix = True
    command, url = AgentCommand(argv=("agent",)), bare_box.relay_url(relay)
    assert behind_door(command, bare_box, url, speaks_unix=True) == command
    assert url_inside(url, speaks_unix=True) == f"unix://{tmp_path}/s"
    through = behind_door(command, bare_box, url, speaks_unix=False)
    assert (through.argv[0], through.argv[-2:]) == ("python3", (f"{tmp_path}/s", "agent"))
    assert url_inside(url, speaks_unix=False).startswith("http://127.0.0.1:")
    assert behind_door(command, bare_box, "http://127.0.0.1:1", speaks_unix=False) == command
    assert url_inside("http://127.0.0.1:1", speaks_unix=False) == "http://127.0.0.1:1"
