import pytest

from bench.scoring.boxed_call import REPLY_SECONDS
from bench.scoring.case import BadReply
from bench.scoring.command_program import CommandProgram

ECHO = """
    import sys
    from pathlib import Path

    sys.stderr.write(ascii(sys.argv[1:]))
    sys.stdout.buffer.write(sys.stdin.buffer.read())
    for name in sys.argv[2:]:
        sys.stdout.buffer.write(Path(name).read_bytes())
    sys.exit(int(sys.argv[1]))
    """


def test_arguments_files_stdin_stdout_stderr_and_exit_code(box, project):
    program = CommandProgram(box=box, project=project("program.py", ECHO), entry="program.py")
    ran = program.run("7", "a.csv", "b.csv", stdin=b"in\xff\n", files={"a.csv": b"A\0", "b.csv": b"B"})
    assert (ran.stdout, ran.exit_code) == (b"in\xff\nA\0B", 7)
    assert ran.stderr == b"['7', '/data/a.csv', '/data/b.csv']"


def test_stdin_is_empty_unless_given(box, project):
    ran = CommandProgram(box=box, project=project("program.py", ECHO), entry="program.py").run("0")
    assert (ran.stdout, ran.exit_code) == (b"", 0)


def test_nothing_can_be_written(box, project):
    text = """
        from pathlib import Path
        for place in ("/box/x", "/data/x", "/data/a.csv", __file__):
            try:
                Path(place).write_text("x")
                print("wrote", place)
            except OSError:
                pass
        """
    folder = project("program.py", text)
    ran = CommandProgram(box=box, project=folder, entry="program.py").run(files={"a.csv": b""})
    assert (ran.stdout, ran.stderr, ran.exit_code) == (b"", b"", 0)
    assert [path.name for path in folder.iterdir()] == ["program.py"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("while True: pass", "did not end within 0.5 s"),
        ("import time; print(flush=True); time.sleep(60)", "did not end within 0.5 s"),
        ("import os, time; os.close(1); os.close(2); time.sleep(60)", "did not end within 0.5 s"),
        ("import time\nwhile True: print('x', flush=True); time.sleep(0.01)", "did not end within 0.5 s"),
        ("while True: print('x' * 10_000)", "more than 1,000,000 bytes"),
        ("import sys\nwhile True: sys.stderr.write('x' * 10_000)", "more than 1,000,000 bytes"),
    ],
)
def test_a_program_that_does_not_end(box, project, text, reason):
    seconds = 0.5 if "did not end" in reason else REPLY_SECONDS
    with pytest.raises(BadReply, match=reason):
        CommandProgram(box=box, project=project("program.py", text), entry="program.py", seconds=seconds).run()


def test_what_a_program_leaves_running_keeps_nobody_waiting(box, project):
    text = "import subprocess; subprocess.Popen(['sleep', '60'], start_new_session=True); print('done')"
    ran = CommandProgram(box=box, project=project("program.py", text), entry="program.py").run()
    assert (ran.stdout, ran.exit_code) == (b"done\n", 0)


def test_a_project_without_the_program(box, project):
    with pytest.raises(BadReply, match=r"no file program\.py"):
        CommandProgram(box=box, project=project("other.py", ""), entry="program.py").run()
