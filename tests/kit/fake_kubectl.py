"""A `kubectl` in PATH that answers from files and notes how it is called."""

import os
import shlex
from dataclasses import dataclass
from pathlib import Path

import pytest

_SCRIPT = """#!/bin/sh
printf '%s\\n' "$*" >> {folder}/called
for last; do :; done
case "$1" in
config) cat {folder}/contexts ;;
logs) cat "{folder}/$last.log" || {{ printf 'no pod \\033[31m%s' "$last" >&2; exit 1; }} ;;
*) exit {code} ;;
esac
"""


@dataclass(frozen=True)
class FakeKubectl:
    """Its folder holds the output of pods, by their names."""

    folder: Path

    @property
    def called(self) -> list[list[str]]:
        """The words of each call, but those that list contexts."""
        path = self.folder / "called"
        calls = [shlex.split(line) for line in path.read_text().splitlines()] if path.exists() else []
        return [call for call in calls if call[0] != "config"]

    def printed(self, pod: str, *lines: str) -> None:
        """Have a pod print these lines."""
        (self.folder / f"{pod}.log").write_bytes("".join(f"{line}\n" for line in lines).encode())


def put_kubectl(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *, contexts: tuple[str, ...] = ("atlas",), code: int = 0
) -> FakeKubectl:
    """Put it first in PATH. code: exit code of exec and attach."""
    folder.mkdir()
    (folder / "contexts").write_text("".join(f"{context}\n" for context in contexts))
    script = folder / "kubectl"
    script.write_text(_SCRIPT.format(folder=shlex.quote(str(folder)), code=code))
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return FakeKubectl(folder)
