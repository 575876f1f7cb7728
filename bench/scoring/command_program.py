"""The `program` that a hidden case runs: the project's command, in a scoring box, with arguments, stdin and files."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.contracts import Box, BoxPlan, Mount
from bench.scoring.boxed_call import REPLY_SECONDS, SCORING_LIMITS, Pipe, boxed_call
from bench.scoring.project_entry import require_entry

_INTERPRETERS = {".py": ("python3",), ".mjs": ("node",), ".js": ("node",), ".sh": ("sh",)}


@dataclass(frozen=True, kw_only=True)
class Ran:
    """How one run of the program ended: nothing but values."""

    stdout: bytes
    stderr: bytes
    exit_code: int


class CommandProgram:
    """A project's command-line program. Every `run` is a fresh process in a fresh box."""

    def __init__(self, *, box: Box, project: Path, entry: str, seconds: float = REPLY_SECONDS) -> None:
        self._box = box
        self._project = project
        self._entry = entry
        self._seconds = seconds

    def run(self, *arguments: str, stdin: bytes = b"", files: Mapping[str, bytes] | None = None) -> Ran:
        """Runs the program once.

        `files` (plain names) lie in a read-only folder of the box; an argument that equals one of the names becomes
        that file's path. Raises BadReply where there is no program, it writes too much or does not end in time.
        """
        require_entry(self._project, self._entry)
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as given:
            given.write(stdin)
            given.seek(0)
            data = Mount(source=_filled(Path(folder), files or {}), target="/data")
            out, err = Pipe(), Pipe()
            written = boxed_call(
                self._box,
                self._plan(arguments, data, files or {}),
                pipes=[out, err],
                stdin=given if stdin else subprocess.DEVNULL,
                stdout=out.write_end,
                stderr=err.write_end,
                seconds=self._seconds,
            )
        stdout, stderr = written.outputs
        return Ran(stdout=stdout, stderr=stderr, exit_code=written.exit_code)

    def _plan(self, arguments: tuple[str, ...], data: Mount, files: Mapping[str, bytes]) -> BoxPlan:
        place = self._box.mount_path(data)
        program = f"{self._box.project_path(self._project)}/{self._entry}"
        return BoxPlan(
            argv=(
                *_INTERPRETERS.get(Path(self._entry).suffix, ()),
                program,
                *(f"{place}/{argument}" if argument in files else argument for argument in arguments),
            ),
            project=self._project,
            mounts=(data,),
            limits=SCORING_LIMITS,
        )


def _filled(folder: Path, files: Mapping[str, bytes]) -> Path:
    """Readable by the user that the box runs as."""
    folder.chmod(0o755)
    for name, content in files.items():
        place = folder / name
        place.write_bytes(content)
        place.chmod(0o644)
    return folder
