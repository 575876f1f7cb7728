"""Seeing and ending processes, with real ones."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager

from bench.processes import (
    all_processes,
    descendants,
    find_process,
    free_port,
    group_members,
    is_alive,
    kill_all,
    listeners,
    marked,
    send_signal,
)

CHILD_OF_A_CHILD = "sleep 600 & sleep 600 & wait"


@contextmanager
def running(*argv, **options):
    with subprocess.Popen(argv, start_new_session=True, **options) as process:
        try:
            yield process
        finally:
            send_signal(-process.pid, signal.SIGKILL)
            process.wait()


def wait_for(condition):
    deadline = time.monotonic() + 20
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return found


def test_this_process_is_seen_as_it_is():
    me = find_process(os.getpid())
    assert (me.parent, me.group) == (os.getppid(), os.getpgid(0))
    assert is_alive(me)
    assert me in all_processes()
    assert find_process(2**22 + 1) is None


def test_descendants_are_children_and_theirs():
    with running("sh", "-c", f"sh -c '{CHILD_OF_A_CHILD}' & wait") as process:
        family = wait_for(lambda: len(descendants(process.pid)) == 3 and descendants(process.pid))
        assert process.pid not in {child.pid for child in family}
        assert {child.pid for child in group_members(process.pid)} == {process.pid, *(child.pid for child in family)}


def test_a_zombie_is_dead():
    with subprocess.Popen(["true"]) as process:
        wait_for(lambda: find_process(process.pid) is None)
        assert os.waitpid(process.pid, os.WNOHANG)[0] == process.pid
        process.returncode = 0


def test_a_name_with_brackets_and_blanks_does_not_confuse(tmp_path):
    program = tmp_path / "a) S 1 ("
    program.symlink_to(os.path.realpath("/bin/sleep"))
    with running(str(program), "600") as process:
        found = wait_for(lambda: find_process(process.pid))
        assert found.parent == os.getpid()


def test_a_later_process_with_the_same_number_is_another():
    me = find_process(os.getpid())
    assert not is_alive(type(me)(pid=me.pid, parent=me.parent, group=me.group, started=me.started + 1))


def test_what_left_its_session_is_found_by_its_mark():
    mark = secrets.token_hex(8)
    code = "import subprocess, sys; subprocess.Popen(['sleep', '600'], start_new_session=True)"
    subprocess.run([sys.executable, "-c", code], env={**os.environ, "MARK": mark}, check=True)
    (daemon,) = marked("MARK", mark)
    assert marked("MARK", mark[:-1]) == ()
    assert kill_all(lambda: marked("MARK", mark), seconds=10) == ()
    assert not is_alive(daemon)


def test_kill_all_keeps_up_with_a_family_that_grows():
    mark = secrets.token_hex(8)
    grow = "while true; do sleep 600 & sleep 0.01; done"
    with running("sh", "-c", grow, env={**os.environ, "MARK": mark}):
        wait_for(lambda: len(marked("MARK", mark)) > 3)
        assert kill_all(lambda: marked("MARK", mark), seconds=10) == ()
    assert marked("MARK", mark) == ()


def test_kill_all_names_what_it_could_not_end():
    survivor = find_process(os.getppid())
    looks_alive = type(survivor)(pid=survivor.pid, parent=0, group=0, started=-1)
    assert kill_all(lambda: [looks_alive], seconds=0.02) == (looks_alive,)


def test_the_listener_of_a_port_is_this_process():
    port = free_port("127.0.0.1")
    assert listeners(port) is None
    with socket.create_server(("127.0.0.1", port)):
        assert listeners(port) == (os.getpid(),)
    if socket.has_dualstack_ipv6():
        with socket.create_server(("::1", 0), family=socket.AF_INET6) as server:
            assert listeners(server.getsockname()[1]) == (os.getpid(),)


def test_signalling_what_is_gone_is_no_error():
    with subprocess.Popen(["true"], start_new_session=True) as process:
        process.wait()
    send_signal(process.pid, signal.SIGTERM)
    send_signal(-process.pid, signal.SIGTERM)


def test_a_listener_of_another_user_is_there_but_nameless():
    """Asked by a child without privileges about a port that this process holds; only root can set this up."""
    if os.getuid() != 0:
        return
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        read_end, write_end = os.pipe()
        child = os.fork()
        if child == 0:
            server.close()
            os.setgid(65534)
            os.setuid(65534)
            os.write(write_end, str(listeners(port)).encode())
            os._exit(0)
        os.waitpid(child, 0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as answer:
        assert answer.read() == b"()"
