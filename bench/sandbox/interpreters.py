"""Which Python and which Node a box holds: the Python that runs the harness, and the Node of Playwright's wheel."""

from __future__ import annotations

import importlib.util
import shutil
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from bench.errors import MissingPartError


@dataclass(frozen=True, kw_only=True)
class Interpreters:
    """Real paths on the host."""

    python_prefix: Path
    """The installation, never the virtual environment: that one lies in the repository."""

    python: Path
    """The executable below `python_prefix`."""

    shared_library: bool
    """Whether the executable is a small one that loads its `libpython`, by the path for which it was built."""

    node: Path


def find_interpreters() -> Interpreters:
    """Raises MissingPartError when there is no Node."""
    prefix = Path(sys.base_prefix).resolve()
    return Interpreters(
        python_prefix=prefix,
        python=prefix / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}",
        shared_library=bool(sysconfig.get_config_var("Py_ENABLE_SHARED")),
        node=_find_node(),
    )


def _find_node() -> Path:
    # Looked up, not imported: Playwright's own start-up is of no use here.
    wheel = importlib.util.find_spec("playwright")
    for folder in (wheel.submodule_search_locations or ()) if wheel else ():
        node = Path(folder) / "driver" / "node"
        if node.is_file():
            return node.resolve()
    on_path = shutil.which("node")
    if on_path is None:
        raise MissingPartError(
            "no Node found, neither in Playwright's wheel nor on PATH; install one with: pip install playwright"
        )
    return Path(on_path).resolve()
