"""What this program raises when the harness, the machine or the user's call is at fault.

    RuncardError
    |-- UsageError            the call or a file it names is wrong; exit 4
    |   `-- FileFormatError   a YAML or JSON file: path, line, key, what was expected
    |-- MissingPartError      a box, engine, agent or interpreter is not there; exit 4
    |-- BusyError             another process has this run, or a port is taken; exit 4
    |-- EngineStartError      the engine did not become ready: command, last log lines, what to do; exit 4
    `-- HarnessError          the harness itself broke; exit 11
        |-- EvidenceError     a record or its evidence cannot be read or written
        `-- JudgeError        the judge gave no whole answer

A subject that is bad (an agent that crashes, an engine that answers 500, a project that misses a case)
is never an exception: it is data.
"""

from __future__ import annotations


class RuncardError(Exception):
    """Root of the tree; `str()` of it is the sentence a person is shown."""


class UsageError(RuncardError):
    """The call is wrong: an unknown name, an option out of range, a folder that cannot be written."""


class FileFormatError(UsageError):
    """A file that people edit does not have the expected form."""

    def __init__(self, path: object, problem: str, *, line: int | None = None) -> None:
        where = f"{path}:{line}" if line is not None else str(path)
        super().__init__(f"{where}: {problem}")
        self.path = path
        self.line = line
        self.problem = problem


class MissingPartError(RuncardError):
    """Something that must be installed is not: the message says how to get it."""


class BusyError(RuncardError):
    """Somebody else holds what this run needs."""


class EngineStartError(RuncardError):
    """A launched engine died or stayed silent before it was ready."""


class HarnessError(RuncardError):
    """The harness broke; the run is not valid, whatever the subject did."""


class EvidenceError(HarnessError):
    """A stored record or its evidence is damaged or cannot be written."""


class JudgeError(HarnessError):
    """The judge's process ended without an answer for every expected case."""
