"""What a hostile program tries from inside a box, as real processes, in every form that this machine can make."""

import errno
import os
import re
import shutil
import signal
import socket
import subprocess
import time
import uuid

import psutil

from bench.sandbox.syscall_filter import refused_calls
from bench.spec import REPOSITORY


def python(text):
    return ("python3", "-c", text)


def wait_until_none(find):
    """Bounded: a test that would wait for ever says what it waits for."""
    deadline = time.monotonic() + 20
    while (left := find()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return left


def processes_with(word):
    """Living processes of this machine whose command line holds the word."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.status() != psutil.STATUS_ZOMBIE and any(word in part for part in process.cmdline()):
                found.append(process.pid)
        except psutil.NoSuchProcess:
            continue
    return found


# --- everything that `runcard doctor` tries ---------------------------------------------------------------------------


def test_a_box_of_a_session_holds(box):
    trials = box.ask(attack=True, writable=True, limits={})["trials"]
    assert left_of(trials, "held") == {"works.project": "ok", "works.relay": "ok", "limits.memory": "not tried"}, trials
    assert len(trials) > 40


def test_a_box_for_scoring_holds(box):
    limits = {"memory_bytes": 1_500_000_000, "processes": 128, "tmp_bytes": 32_000_000, "file_bytes": 16_000_000}
    trials = box.ask(attack=True, writable=False, limits=limits)["trials"]
    assert left_of(trials, "held") == {"works.project": "ok", "works.relay": "not tried"}, trials


def test_the_doctor_finds_an_ordinary_user_s_boxes_sound(person):
    found = person.ask(doctor=True, results=person.folder())
    broken = [trial for one in found["boxes"] for trial in one["trials"] if trial["verdict"] == "BROKEN"]
    assert (found["exit_code"], broken) == (0, []), found["machine"]


def left_of(trials, verdict):
    """Id and verdict of the others; a machine without IPv6 cannot try that."""
    left = {trial["id"]: trial["verdict"] for trial in trials if trial["verdict"] != verdict}
    return {name: said for name, said in left.items() if (name, said) != ("net.ipv6", "not tried")}


# --- seeing ----------------------------------------------------------------------------------------------------------


def test_only_what_the_plan_names_exists(box):
    done = box.run("ls", "-A", "/")
    present = set(done.out.split())
    assert {"box", "dev", "etc", "proc", "run", "tmp", "tools", "usr"} <= present
    assert present <= {"bin", "box", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "run", "sbin"} | {
        "tmp",
        "tools",
        "usr",
    }
    listed = box.run("ls", "-A", "/box", "/tmp", "/run", "/dev/shm")
    assert not re.sub(r"/[a-z/]+:", "", listed.out).split()


def test_a_file_that_everybody_may_read_does_not_exist_inside(box):
    answer = box._room / "hidden-answer.txt"
    answer.write_text("42")
    answer.chmod(0o644)
    done = box.run("cat", answer)
    assert done.code != 0
    assert "No such file" in done.err
    for path in (REPOSITORY, REPOSITORY / "hidden", "/home", "/root", "/var", "/etc/shadow"):
        assert box.run("ls", path).code != 0, path


def test_nothing_of_the_harness_stands_in_its_processes(box):
    done = box.run(
        *python(
            "import glob\n"
            "seen = []\n"
            "for path in glob.glob('/proc/[0-9]*'):\n"
            "    for name in ('environ', 'cmdline'):\n"
            "        try: seen.append(open(f'{path}/{name}', 'rb').read())\n"
            "        except OSError: pass\n"
            "print(b' '.join(seen))"
        )
    )
    assert done.code == 0, done.err
    # For an ordinary user the command is itself the first process: bubblewrap is not there at all.
    assert ("bwrap" in done.out) == (box.form == "root"), (
        "the first process's command line is readable, so it was looked at"
    )
    assert "import glob" in done.out
    for word in ("pearl-diver", "HARNESS", str(REPOSITORY), str(box._room), "site-packages"):
        assert word not in done.out


def test_no_other_process_holds_the_command_s_output(box):
    """A child must not find its parent's output in process 1 and write there what the parent never said."""
    attack = "import os\nfor n in os.listdir('/proc/1/fd'):\n    os.write(os.open(f'/proc/1/fd/{n}', os.O_WRONLY), b'FORGED')\n"
    quiet = "import ctypes, subprocess, sys; ctypes.CDLL(None).prctl(4, 0); subprocess.run([sys.executable, '-c', sys.argv[1]])"
    done = box.run(*python(quiet), attack)
    assert "FORGED" not in done.out + done.err


def test_processes_of_the_host_cannot_be_seen_or_ended(box):
    before = box.process.pid
    with subprocess.Popen(["sleep", "1000"]) as bystander:
        listed = box.run("sh", "-c", "ls /proc | grep -c '^[0-9]'")
        assert int(listed.out) <= 5
        box.run("sh", "-c", f"kill -9 {bystander.pid} {os.getpid()} {before}; kill -9 -1")
        assert bystander.poll() is None
        bystander.kill()
    assert box.run("true").code == 0, "the harness lives"


def test_descriptors_of_the_harness_are_not_inherited(box):
    done = box.run("ls", "/proc/self/fd")
    assert done.out.split() == ["0", "1", "2", "3"], "3 is the folder being listed"


def test_the_environment_is_the_plan_s(box):
    done = box.run("env", env={"COLOUR": "green"})
    assert sorted(line.partition("=")[0] for line in done.out.splitlines()) == [
        "COLOUR",
        "HOME",
        "LANG",
        "PATH",
        "PWD",
        "PYTHONDONTWRITEBYTECODE",
        "TMPDIR",
    ]


# --- reaching --------------------------------------------------------------------------------------------------------


def test_no_network_of_the_host(box):
    name = f"\0runcard-{uuid.uuid4()}"
    path = box._room / "s.sock"
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_UNIX) as abstract,
        socket.socket(socket.AF_UNIX) as named,
    ):
        abstract.bind(name)
        abstract.listen()
        named.bind(str(path))
        named.listen()
        done = box.run(
            *python(
                "import socket\n"
                f"for family, address in ((socket.AF_INET, ('127.0.0.1', {tcp.getsockname()[1]})),\n"
                "    (socket.AF_INET, ('192.0.2.1', 80)),\n"
                f"    (socket.AF_UNIX, {name!r}), (socket.AF_UNIX, {str(path)!r})):\n"
                "    with socket.socket(family) as s:\n"
                "        try: s.connect(address); print('connected')\n"
                "        except OSError as error: print(error.errno)\n"
            )
        )
    path.unlink()
    refused = [str(errno.ECONNREFUSED), str(errno.ENETUNREACH), str(errno.ECONNREFUSED), str(errno.ENOENT)]
    assert done.out.split() == refused, done.err


def test_only_the_relay_answers(box):
    path = box._room / f"relay-{box.form}.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        if box.form == "user":
            path.chmod(0o666)
        server.listen()
        server.settimeout(20)
        connect = python(
            "import socket\nwith socket.socket(socket.AF_UNIX) as s:\n    s.connect('/run/relay.sock'); s.sendall(b'x')"
        )
        done = box.run(*connect, relay=path)
        assert done.code == 0, done.err
        connection, _ = server.accept()
        with connection:
            assert connection.recv(1) == b"x"
    path.unlink()


# --- writing ---------------------------------------------------------------------------------------------------------


def test_nothing_outside_the_project_can_be_written(box):
    project = box.folder()
    done = box.run(
        "sh",
        "-c",
        "for d in / /usr /usr/bin /etc /tools /tools/bin /run /dev /proc /proc/sys/kernel; do "
        "touch $d/x 2>/dev/null && echo $d; done; echo 1 2>/dev/null >/proc/sys/kernel/core_pattern && echo core; "
        "touch /box/kept /tmp/gone",
        project=project,
        writable=True,
    )
    assert (done.code, done.out) == (0, "")
    assert [path.name for path in project.iterdir()] == ["kept"]
    assert box.run("ls", "-A", "/tmp").out == "", "the next box has a /tmp of its own"


def test_a_project_shown_for_reading_cannot_be_written(box):
    project = box.folder()
    kept = project / "kept"
    kept.write_text("as it was")
    kept.chmod(0o666)
    done = box.run(
        "sh", "-c", "cat kept; echo x >kept; rm kept; touch new; chmod 777 kept; mv kept moved", project=project
    )
    assert done.out == "as it was"
    assert done.err.count("Read-only file system") == 5, done.err
    assert kept.read_text() == "as it was"


def test_writable_memory_file_systems_are_small(box):
    fill = (
        "import os\n"
        "for folder in ('/tmp', '/dev/shm'):\n"
        "    done = 0\n"
        "    with open(folder + '/big', 'wb', buffering=0) as file:\n"
        "        try:\n"
        "            while done < 50_000_000: done += file.write(bytes(500_000))\n"
        "        except OSError as error: print(done, error.errno)\n"
    )
    done = box.run(*python(fill), limits={"tmp_bytes": 2_000_000})
    (tmp, tmp_error), (shared, shared_error) = (line.split() for line in done.out.splitlines())
    assert 1_000_000 < int(tmp) <= 2_002_944, "whole pages"
    assert 10_000_000 < int(shared) <= 16_777_216
    assert {int(tmp_error), int(shared_error)} == {errno.ENOSPC}


# --- consuming -------------------------------------------------------------------------------------------------------


def test_a_file_over_the_limit_stops_there(box):
    project = box.folder()
    done = box.run(
        "sh",
        "-c",
        "head -c 50000 /dev/zero >big",
        project=project,
        writable=True,
        limits={"file_bytes": 10_000},
    )
    assert done.code != 0
    assert (project / "big").stat().st_size == 10_000


def test_a_fork_bomb_is_bounded_and_gone(box):
    mark = f"{uuid.uuid4()}"
    bomb = (
        "import os, sys, time\n"
        "made = 0\n"
        "try:\n"
        "    for _ in range(300):\n"
        "        if os.fork() == 0: time.sleep(1000)\n"
        "        made += 1\n"
        "except OSError as error: print(made, error.errno)\n"
    )
    done = box.run("python3", "-c", bomb, mark, limits={"processes": 40})
    made, code = map(int, done.out.split())
    assert 20 <= made <= 40
    assert code == errno.EAGAIN
    assert not processes_with(mark), "end() returned only after all were dead"


def test_cpu_time_is_limited(box):
    done = box.run(*python("while True: pass"), limits={"cpu_seconds": 1})
    assert done.code == 128 + signal.SIGKILL


def test_memory_is_limited_where_asked(box):
    done = box.run(*python("bytearray(300_000_000)"), limits={"memory_bytes": 200_000_000})
    assert "MemoryError" in done.err


# --- staying ---------------------------------------------------------------------------------------------------------


def test_a_daemon_does_not_outlive_its_box(box):
    mark = f"{uuid.uuid4()}"
    daemon = f"setsid sh -c 'sleep 1000; : {mark}' </dev/null >/dev/null 2>&1 & sleep 0.1; echo up"
    done = box.run("sh", "-c", daemon)
    assert done.out == "up\n"
    assert not processes_with(mark)


def test_a_killed_harness_takes_its_box_along(mortal):
    mark = f"{uuid.uuid4()}"
    lasting = f"setsid sh -c 'sleep 1000; : {mark}' & echo up; sleep 1000; : {mark}"
    assert mortal.run("sh", "-c", lasting, leave=True).out == "up\n"
    assert len(processes_with(mark)) >= 2
    mortal.process.kill()
    mortal.process.wait()
    assert not wait_until_none(lambda: processes_with(mark))


# --- becoming somebody else ------------------------------------------------------------------------------------------


def test_no_privileges_and_no_way_to_get_some(box):
    done = box.run("grep", "-E", "^(Cap...|NoNewPrivs|Seccomp):", "/proc/self/status")
    values = dict(line.split(":\t") for line in done.out.splitlines())
    assert {values[f"Cap{kind}"] for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {"0" * 16}
    assert (values["NoNewPrivs"], values["Seccomp"]) == ("1", "2")
    mounts = box.run("cat", "/proc/self/mounts", project=box.folder()).out.splitlines()
    assert all("nosuid" in line.split()[3] for line in mounts)


def test_a_set_user_id_program_does_not_change_the_user(box):
    project = box.folder()
    shutil.copy("/usr/bin/id", project / "id")
    (project / "id").chmod(0o4755)
    project.chmod(0o755)
    done = box.run("sh", "-c", "./id -u; id -u", project=project)
    mine, theirs = done.out.split()
    assert mine == theirs != "0"


def test_mounts_and_namespaces_are_refused(box):
    for argv in (
        ("mount", "-t", "tmpfs", "x", "/tmp"),
        ("unshare", "--user", "true"),
        ("unshare", "--user", "--map-root-user", "--mount", "true"),
        ("unshare", "--mount", "true"),
        ("chroot", "/tmp", "true"),
        ("mknod", "/tmp/disk", "b", "8", "0"),
        ("nsenter", "--target", "1", "--mount", "true"),
    ):
        assert box.run(*argv).code != 0, argv


def test_the_filter_refuses_what_it_lists(box):
    calls = refused_calls(os.uname().machine)
    done = box.run(
        *python(
            "import ctypes\n"
            "libc = ctypes.CDLL(None, use_errno=True)\n"
            f"for number in {sorted(calls.values())}:\n"
            "    print(number, libc.syscall(number, 0, 0, 0, 0, 0, 0), ctypes.get_errno())\n"
        )
    )
    assert [line.split() for line in done.out.splitlines()] == [
        [str(number), "-1", str(errno.EPERM)] for number in sorted(calls.values())
    ]


def test_the_filter_looks_at_arguments(box):
    done = box.run(
        *python(
            "import ctypes, fcntl, os, pty, signal, socket\n"
            "libc = ctypes.CDLL(None, use_errno=True)\n"
            "def tried(*call):\n"
            "    ctypes.set_errno(0); libc.prctl(*call); return ctypes.get_errno()\n"
            "def death():\n"
            "    said = ctypes.c_int(); libc.prctl(2, ctypes.byref(said), 0, 0, 0); return said.value\n"
            "print(tried(1, int(signal.SIGKILL), 0, 0, 0), death(), tried(1, int(signal.SIGTERM), 0, 0, 0), death())\n"
            "print(tried(1, 0, 0, 0, 0), death())\n"
            "for family in (40, 38, 17):\n"
            "    try: socket.socket(family, socket.SOCK_STREAM)\n"
            "    except OSError as error: print(error.errno)\n"
            "ours, theirs = pty.openpty()\n"
            "try: fcntl.ioctl(theirs, 0x5412, b'x')\n"
            "except OSError as error: print(error.errno)\n"
            "print(libc.syscall(435, 0, 0), ctypes.get_errno())\n"
        )
    )
    unsupported = str(errno.EAFNOSUPPORT)
    # Another death signal, or none, is not refused aloud, but not set either.
    expected = ["0", "9", "0", "9", "0", "9", unsupported, unsupported, unsupported, "1", "-1", str(errno.ENOSYS)]
    assert done.out.split() == expected, done.err
