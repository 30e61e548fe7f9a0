"""Programs that the test needs and a machine may lack, built from Go modules once and kept in the user's cache.

Versions and checksums stand in standins/<name>/go.mod and go.sum; the cache lies outside the repository.
"""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

STANDINS = Path(__file__).parent / "standins"
BUILD_S_MAX = 1_800
PACKAGES = {
    "compose": "github.com/docker/compose/v2/cmd",
    "jaeger": "github.com/jaegertracing/jaeger/cmd/all-in-one",
    "collector": ".",
}


class NoGoError(Exception):
    """A program must be built and there is no Go to build it with."""


def cache() -> Path:
    """`$XDG_CACHE_HOME/muster/compose-test`, or under ~/.cache."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    path = Path(base) / "muster" / "compose-test"
    path.mkdir(parents=True, exist_ok=True)
    return path


def built(name: str) -> Path:
    """The program, built if these very versions were not built before. Raises NoGoError, CalledProcessError."""
    source = STANDINS / name
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in sorted(source.iterdir()))).hexdigest()[:16]
    program = cache() / f"{name}-{digest}"
    if program.exists():
        return program
    if shutil.which("go") is None:
        raise NoGoError(f"{name} must be built and there is no go: install Go, or {name} itself")
    partial = program.with_suffix(f".{os.getpid()}")
    command = [
        "nice",
        "go",
        "build",
        "-mod=readonly",
        "-trimpath",
        "-ldflags=-s -w",
        "-o",
        str(partial),
        PACKAGES[name],
    ]
    environment = {**os.environ, "CGO_ENABLED": "0"}
    subprocess.run(command, cwd=source, env=environment, check=True, capture_output=True, timeout=BUILD_S_MAX)
    partial.replace(program)
    for older in set(cache().glob(f"{name}-*")) - {program}:
        older.unlink()
    return program
