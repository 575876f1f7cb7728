"""Runs inside the box, before an agent that speaks no unix sockets: a port on loopback that leads to the relay's socket.

    python3 -I -S door_main.py PORT SOCKET COMMAND [ARGUMENT ...]

Starts the command, carries bytes between the port and the socket, and ends with the command's exit code. Imports
nothing of the harness.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

_PIECE_BYTES = 65_536
_AGAIN_SECONDS = 0.02


def _carry(source: socket.socket, target: socket.socket) -> None:
    """One direction of a connection, up to its end; then the other side is told."""
    try:
        while piece := source.recv(_PIECE_BYTES):
            target.sendall(piece)
    except OSError:
        _reset(target)
        return
    with contextlib.suppress(OSError):  # it may be gone already
        target.shutdown(socket.SHUT_WR)


def _reset(side: socket.socket) -> None:
    """A connection that broke on one side breaks on the other, too: it must not look like an orderly end.

    Only reading is shut down, which wakes whoever waits for it and tells the other end nothing; closing then resets.
    """
    with contextlib.suppress(OSError):  # it may be gone already
        side.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        side.shutdown(socket.SHUT_RD)


def _serve(client: socket.socket, path: str) -> None:
    relay = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with client, relay:
        try:
            relay.connect(path)
        except OSError:
            _reset(client)
            return
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        back = threading.Thread(target=_carry, args=(relay, client), daemon=True)
        back.start()
        _carry(client, relay)
        back.join()


def _accept(listener: socket.socket, path: str) -> None:
    while True:
        try:
            client, _ = listener.accept()
        except OSError:  # the client is gone again, or the box has no descriptor left: others may come later
            time.sleep(_AGAIN_SECONDS)
            continue
        threading.Thread(target=_serve, args=(client, path), daemon=True).start()


def main(argv: list[str]) -> int:
    port, path, *command = argv
    # As the first process of its namespace the kernel would let it ignore this; the agent's own end is what counts.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    listener = socket.create_server(("127.0.0.1", int(port)), backlog=64)
    threading.Thread(target=_accept, args=(listener, path), daemon=True).start()
    try:
        agent = subprocess.Popen(command)
    except OSError as error:
        print(f"{command[0]} cannot be started: {error.strerror}", file=sys.stderr)
        return 127
    return _reap_until_end(agent.pid)


def _reap_until_end(agent: int) -> int:
    """Waits for the agent, and buries whatever it left to the namespace's first process, which this may be."""
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == agent:
            return os.waitstatus_to_exitcode(status) % 256


if __name__ == "__main__":
    sys.stdout.flush()
    os._exit(main(sys.argv[1:]))
