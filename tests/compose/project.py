"""The stack of compose/compose.yaml under a project name of the test's own, on ports that are free."""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import cast

import yaml
from docker.models.containers import Container

from compose.engine import Engine
from compose.gobuild import built
from muster.stack.ports import choose_ports

COMPOSE_FILE = Path(__file__).parents[2] / "compose" / "compose.yaml"
PORTS = ("HTTP_PORT", "WEBSOCKET_PORT", "NATS_PORT", "GRAFANA_PORT", "PROMETHEUS_PORT", "JAEGER_PORT")
COMMAND_S_MAX = 900
STILL_CONNECTED = "has active endpoints"
"""Said of a network whose last container is gone: the engine may take a moment longer to forget its endpoint."""


class ComposeError(Exception):
    """A compose command failed; the message holds what it said."""


def compose_command(engine: Engine) -> tuple[str, ...]:
    """`docker compose` where the plugin is, else the program itself, built from Go modules. Raises NoGoError."""
    if shutil.which("docker"):
        asked = subprocess.run(
            ("docker", "compose", "version"), env=engine.environment, capture_output=True, check=False, timeout=60
        )
        if asked.returncode == 0:
            return ("docker", "compose")
    return (str(built("compose")),)


@dataclass
class Project:
    """One project. image: of the services. without: those left out. files: each overrides what stands before it.

    directory: for a file of its own. stand_ins: by image, the one to use in its place.
    """

    engine: Engine
    command: tuple[str, ...]
    name: str
    ports: Mapping[str, int]
    image: str
    directory: Path
    stand_ins: Mapping[str, str]
    without: tuple[str, ...] = ()
    files: tuple[Path, ...] = (COMPOSE_FILE,)
    profiles: str = "observability"

    @classmethod
    def new(
        cls,
        engine: Engine,
        command: tuple[str, ...],
        *,
        directory: Path,
        stand_ins: Mapping[str, str],
        without: tuple[str, ...] = (),
    ) -> "Project":
        """On free ports, and with an image of its own, under a name that says whose they are."""
        name, ports = f"muster-test-{os.getpid()}", choose_ports(dict.fromkeys(PORTS, 0))
        return cls(engine, command, name, ports, f"{name}:test", directory, stand_ins, without)

    def beside(self, *overrides: Path) -> "Project":
        """Another one of the same image, with these overrides and without the observability containers."""
        return replace(
            self,
            name=f"{self.name}-beside",
            ports=choose_ports(dict.fromkeys(PORTS, 0)),
            files=(*self.files, *overrides),
            profiles="",
        )

    @property
    def environment(self) -> dict[str, str]:
        """Variables that compose.yaml reads."""
        ports = {name: str(port) for name, port in self.ports.items()}
        return {**self.engine.environment, **ports, "MUSTER_IMAGE": self.image, "COMPOSE_PROFILES": self.profiles}

    def run(self, *words: str) -> str:
        """A compose command; what it printed. Raises ComposeError."""
        files = (*self.files, self._stand_ins_named())
        done = subprocess.run(
            (*self.command, "--project-name", self.name, *(f"--file={file}" for file in files), *words),
            env=self.environment, capture_output=True, text=True, check=False, timeout=COMMAND_S_MAX,
        )  # fmt: skip
        if done.returncode:
            raise ComposeError(f"compose {' '.join(words)}: {done.returncode}\n{done.stdout}\n{done.stderr[-8000:]}")
        return done.stdout

    def _stand_ins_named(self) -> Path:
        """A file that gives every service of the others its stand-in, if its image has one."""
        services = chain.from_iterable(yaml.safe_load(file.read_text())["services"].items() for file in self.files)
        images = {name: service["image"] for name, service in services if "image" in service}
        named = {name: {"image": self.stand_ins[image]} for name, image in images.items() if image in self.stand_ins}
        path = self.directory / f"{self.name}.yaml"
        path.write_text(yaml.safe_dump({"services": named}))
        return path

    def config(self) -> dict[str, dict[str, object]]:
        """The services as compose understands them, by name."""
        told = json.loads(self.run("config", "--format", "json"))
        return cast("dict[str, dict[str, object]]", told["services"])

    def build(self, *, base: str) -> None:
        """The image of the services. base: that it is built on."""
        self.run("build", "--build-arg", f"PYTHON_IMAGE={base}", "init")

    def up(self) -> None:
        """Start everything but what is left out; returns when every container was started."""
        wanted = [service for service in self.config() if service not in self.without]
        try:
            self.run("up", "--detach", "--no-build", *wanted)
        except ComposeError as error:
            said = self.run("logs", "--no-color", "--tail", "30", "init", "bus")
            raise ComposeError(f"{error}\n{said}") from error

    def down(self) -> None:
        """Remove containers, networks and volumes."""
        words = ("--profile", "*", "down", "--volumes", "--remove-orphans", "--timeout", "20")
        try:
            self.run(*words)
        except ComposeError as error:
            if STILL_CONNECTED not in str(error):
                raise
            self.run(*words)

    def forget(self) -> None:
        """Remove the image of the services."""
        for image in self.engine.client.images.list(name=self.image):
            self.engine.client.images.remove(image.id, force=True)

    def containers(self) -> dict[str, Container]:
        """By service, also those that have ended."""
        label = f"com.docker.compose.project={self.name}"
        found = self.engine.client.containers.list(all=True, filters={"label": label})
        return {container.labels["com.docker.compose.service"]: container for container in found}

    def container(self, service: str) -> Container:
        """The container of a service."""
        return self.containers()[service]

    def cut_off(self, service: str, network: str) -> None:
        """Take the service out of a network, as if somebody had pulled the cable."""
        self.engine.client.networks.get(f"{self.name}_{network}").disconnect(self.container(service))

    def join(self, service: str, network: str) -> None:
        """Put it back."""
        self.engine.client.networks.get(f"{self.name}_{network}").connect(self.container(service))

    def copy_out(self, source: str, target: Path) -> None:
        """From `SERVICE:PATH` to this machine."""
        self.run("cp", source, str(target))

    def url(self, port: str, *, scheme: str = "http") -> str:
        """Of what is published on a port."""
        return f"{scheme}://127.0.0.1:{self.ports[port]}"
