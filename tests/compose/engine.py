"""A Docker engine to test with: the one that answers, or one that is started here and ended again."""

import os
import shutil
import subprocess
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import docker
from docker.errors import DockerException

from muster.stack.process import die_with_parent

ANSWER_S_MAX = 5
START_S_MAX = 60.0
STOP_S_MAX = 30.0
POLL_S = 0.2


class NoEngineError(Exception):
    """There is no Docker engine here and none can be started; the message says why."""


@dataclass(frozen=True)
class Engine:
    """An engine that answers. host: as `DOCKER_HOST` names it; "" is where clients look by themselves."""

    client: docker.DockerClient
    host: str = ""

    @property
    def environment(self) -> dict[str, str]:
        """For command lines that speak to it."""
        return {**os.environ, **({"DOCKER_HOST": self.host} if self.host else {})}


@contextmanager
def engine(directory: Path) -> Iterator[Engine]:
    """Raises NoEngineError. directory: for an engine that is started here, with all that it keeps."""
    if (client := _answering("")) is not None:
        yield Engine(client)
        return
    dockerd = shutil.which("dockerd")
    if dockerd is None:
        raise NoEngineError("no Docker engine answers and dockerd is not installed (Debian: docker.io)")
    if os.getuid() != 0:
        raise NoEngineError("no Docker engine answers and only root can start one")
    with _started(dockerd, directory) as started:
        yield started


def _answering(host: str) -> docker.DockerClient | None:
    try:
        client = docker.DockerClient(host, timeout=600) if host else docker.from_env(timeout=600)
        client.ping()
    except (DockerException, OSError):
        return None
    return client


@contextmanager
def _started(dockerd: str, directory: Path) -> Iterator[Engine]:
    socket, log = directory / "docker.sock", directory / "dockerd.log"
    host = f"unix://{socket}"
    places = {"data-root": "data", "exec-root": "exec", "pidfile": "pid"}
    argv = [dockerd, "--host", host, *(f"--{option}={directory / name}" for option, name in places.items())]
    with log.open("wb") as said:
        process = subprocess.Popen(argv, stdout=said, stderr=said, preexec_fn=die_with_parent)  # noqa: PLW1509
    try:
        yield Engine(_wait_for(process, host, log), host)
    finally:
        process.terminate()
        process.wait(STOP_S_MAX)
        shutil.rmtree(directory / "data", ignore_errors=True)


def _wait_for(process: subprocess.Popen[bytes], host: str, log: Path) -> docker.DockerClient:
    end = time.monotonic() + START_S_MAX
    while time.monotonic() < end:
        if (client := _answering(host)) is not None:
            return client
        if process.poll() is not None:
            raise NoEngineError(f"dockerd cannot run here: {_last_error(log)}")
        time.sleep(POLL_S)
    raise NoEngineError(f"dockerd did not answer within {START_S_MAX:g} s: {_last_error(log)}")


def _last_error(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1][-400:] if lines else "it said nothing"


def build_cache(of: Engine) -> list[str]:
    """What the engine keeps of builds, by id, newest first."""
    records = of.client.df()["BuildCache"] or ()
    return [str(record["ID"]) for record in sorted(records, key=lambda record: str(record["CreatedAt"]), reverse=True)]


def forget_builds(of: Engine, *, but: Collection[str]) -> None:
    """Drop from the build cache what was not there before: some gigabytes that nobody would use again.

    A record goes only when no other stands on it, so rounds are made as long as one of them frees something.
    """
    while new := [record for record in build_cache(of) if record not in but]:
        for record in new:
            of.client.api.prune_builds(filters={"id": record}, all=True)
        if set(new) <= set(build_cache(of)):
            return
