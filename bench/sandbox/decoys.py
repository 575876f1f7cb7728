"""What the attacks on a box are after, real and harmless: a file, a process, sockets and ports of the host."""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
import selectors
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench import processes
from bench.contracts import RelayAddress
from bench.sandbox.decoy_folder import own_folder

ANSWER = "runcard: the model answers"
"""What the decoys' relay says to everybody."""

_SET_USER_ID = 0o4755
_NEW_QUEUE, _REMOVE_QUEUE = 0o3666, 0
"""IPC_CREAT | IPC_EXCL with mode 0666; IPC_RMID. From linux/ipc.h."""


class Decoys:
    """All of them, for one box after the other; made by `set_out`."""

    def __init__(self, folder: Path, cleanup: ExitStack) -> None:
        self.folder = folder
        self.nonce = secrets.token_hex(6)
        self.canary = secrets.token_hex(16)
        self.daemon = f"runcard-daemon-{self.nonce}"
        """A word in the command line of the process that a box is asked to leave behind."""

        self.other_run = folder / "other-run"
        self.other_run.mkdir()
        self.file = self.other_run / f"answer-{self.nonce}.txt"
        self.file.write_text("42\n", encoding="utf-8")
        self.file.chmod(0o644)
        self.bystander_word = f"runcard-bystander-{self.nonce}"
        self.bystander = self._bystander(cleanup)
        self._listen(cleanup)
        self.queue = _queue(cleanup)
        """Key of a message queue (System V) that everybody may use; None where there are none."""

    def project(self, name: str) -> Path:
        """A new project with one file in it."""
        project = self.folder / name
        project.mkdir(mode=0o755)
        (project / "brief.md").write_text("A project of runcard doctor.\n", encoding="utf-8")
        return project

    def set_user_id_program(self, project: Path) -> Path | None:
        """A program in `project` that would run as root; None where only root could make one."""
        program = shutil.which("id")
        if os.geteuid() != 0 or program is None:
            return None
        copy = project / "id"
        shutil.copyfile(program, copy)
        copy.chmod(_SET_USER_ID)
        return copy

    def datagram_arrived(self) -> bool:
        with contextlib.suppress(BlockingIOError):
            return bool(self._udp.recv(10))
        return False

    def untouched(self) -> bool:
        """Whether the other run is as it was."""
        return [*self.other_run.iterdir()] == [self.file] and self.file.read_text(encoding="utf-8") == "42\n"

    def left_behind(self) -> tuple[processes.Process, ...]:
        """Processes of this machine that carry the daemon's word; Linux only."""
        if sys.platform != "linux":
            return ()
        word = self.daemon.encode()
        return tuple(process for process in processes.all_processes() if word in _command_line(process.pid))

    def _bystander(self, cleanup: ExitStack) -> subprocess.Popen[bytes]:
        """A process that only waits, with a secret in its environment; it ends with this one."""
        process = subprocess.Popen(
            ["/bin/sh", "-c", "read line", self.bystander_word],
            env={"PATH": "/usr/bin:/bin", "RUNCARD_DOCTOR_CANARY": self.canary},
            stdin=subprocess.PIPE,
        )

        def end() -> None:
            process.kill()
            process.wait()
            if process.stdin is not None:
                process.stdin.close()

        cleanup.callback(end)
        return process

    def _listen(self, cleanup: ExitStack) -> None:
        tcp = cleanup.enter_context(socket.create_server(("127.0.0.1", 0)))
        self.port = tcp.getsockname()[1]
        self._udp = cleanup.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        self._udp.bind(("127.0.0.1", 0))
        self._udp.setblocking(False)
        self.port_udp = self._udp.getsockname()[1]
        self.port_v6: int | None = None
        with contextlib.suppress(OSError):  # a machine without IPv6
            v6 = cleanup.enter_context(socket.create_server(("::1", 0), family=socket.AF_INET6))
            self.port_v6 = v6.getsockname()[1]
        self.named = self.folder / "host.sock"
        _unix(cleanup, str(self.named))
        self.named.chmod(0o666)
        self.abstract = f"runcard-doctor-{self.nonce}" if sys.platform == "linux" else None
        if self.abstract is not None:
            _unix(cleanup, f"\0{self.abstract}")
        self._relay(cleanup)

    def _relay(self, cleanup: ExitStack) -> None:
        """A relay that gives everybody the same answer."""
        place = self.folder / "relay.sock"
        listeners = (_unix(cleanup, str(place)), cleanup.enter_context(socket.create_server(("127.0.0.1", 0))))
        self.relay = RelayAddress(socket=place, port=listeners[1].getsockname()[1])
        stop, stopped = socket.socketpair()
        cleanup.enter_context(stopped)
        answering = threading.Thread(target=_answer, args=(listeners, stopped), daemon=True)
        answering.start()
        cleanup.callback(answering.join)
        cleanup.callback(stop.close)


@contextmanager
def set_out() -> Iterator[Decoys]:
    """Decoys in a folder of their own, where every user may look: only a box keeps them away. Gone afterwards."""
    with ExitStack() as cleanup:
        yield Decoys(cleanup.enter_context(own_folder()), cleanup)


def _queue(cleanup: ExitStack) -> int | None:
    """Makes a message queue with a key that nobody uses."""
    if sys.platform != "linux":
        return None
    library = ctypes.CDLL(None, use_errno=True)
    key = secrets.randbelow(2**31 - 1) + 1
    identity = library.msgget(key, _NEW_QUEUE)
    if identity < 0:
        return None
    cleanup.callback(library.msgctl, identity, _REMOVE_QUEUE, None)
    return key


def _unix(cleanup: ExitStack, address: str) -> socket.socket:
    listener = cleanup.enter_context(socket.socket(socket.AF_UNIX))
    listener.bind(address)
    listener.listen(16)
    return listener


def _answer(listeners: tuple[socket.socket, ...], stopped: socket.socket) -> None:
    with selectors.DefaultSelector() as selector:
        for one in (*listeners, stopped):
            selector.register(one, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is stopped:
                    return
                listener = next(one for one in listeners if one is key.fileobj)
                client, _ = listener.accept()
                with client, contextlib.suppress(OSError):  # a client that is gone already
                    client.settimeout(1.0)
                    client.recv(1)
                    client.sendall(ANSWER.encode())


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # gone in the meantime, or another user's
        return b""
