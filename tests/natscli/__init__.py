"""The `nats` command for tests: the machine's, or one built from Go modules whose checksums stand here."""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PACKAGE = "github.com/nats-io/natscli/nats"
BUILD_S_MAX = 900


def nats_command() -> Path:
    """The program; built once and kept in the user's cache. Skips the test where there is neither it nor Go."""
    there = shutil.which("nats")
    if there:
        return Path(there)
    sources = b"".join((HERE / name).read_bytes() for name in ("go.mod", "go.sum"))
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "muster"
    program = base / f"nats-{hashlib.sha256(sources).hexdigest()[:16]}"
    if program.exists():
        return program
    if shutil.which("go") is None:
        pytest.skip("there is no `nats` and no Go to build it with")
    base.mkdir(parents=True, exist_ok=True)
    partial = program.with_suffix(f".{os.getpid()}")
    command = ("nice", "go", "build", "-mod=readonly", "-trimpath", "-ldflags=-s -w", "-o", str(partial), PACKAGE)
    environment = {**os.environ, "CGO_ENABLED": "0"}
    subprocess.run(command, cwd=HERE, env=environment, check=True, timeout=BUILD_S_MAX)
    partial.replace(program)
    return program
