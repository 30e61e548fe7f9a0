"""The parts that `muster init kubernetes` writes, each as a process with nothing but its own volume, as a pod has it.

Three NATS servers listen on 127.0.0.1 to 127.0.0.3 with the same ports, as pods do on addresses of their own.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import httpx
import yaml

from kit.ports import own_ports
from muster.bus.clock import SystemTime
from muster.bus.settings import Settings, load_settings
from muster.core.instant import NS_PER_S
from muster.stack.declared import SERVICES
from muster.stack.in_kubernetes import write
from muster.stack.nats_server import nats_binary
from muster.stack.parts import Layout
from muster.stack.ports import LOOPBACK
from muster.stack.process import die_with_parent
from muster.stack.redis_server import redis_binary

COMMAND_S_MAX = 120.0
PROBE_S_MAX = 5.0
_WORDS = (sys.executable, "-m", "muster.cli.main")


@dataclass
class Pods:
    """Processes by the name of their pod. secrets: what `muster init kubernetes` wrote. ports: where things listen."""

    directory: Path
    secrets: Path
    settings: Settings
    ports: Mapping[str, int]
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def host(self) -> Path:
        """The administrator's state directory."""
        return self.secrets / "host"

    def volume(self, part: str) -> Path:
        """Where a part's Secret is mounted."""
        return self.directory / "volumes" / part

    def start_server(self, number: int) -> None:
        """One NATS server."""
        name = f"nats-{number}"
        data = self.directory / name
        data.mkdir(exist_ok=True)
        told = (self.volume("nats") / "nats-server.conf").read_text()
        (data / "nats-server.conf").write_text(_moved(told, number, data, self.ports))
        argv = (str(nats_binary()), "-c", str(data / "nats-server.conf"))
        self._start(name, argv, {"SERVER_NAME": name})

    def is_caught_up(self, number: int) -> bool:
        """Whether a NATS server has all that the others have: the probe by which a pod of k8s/ counts as started."""
        try:
            url = f"http://{_address(number)}:{self.ports['monitor']}/healthz"
            return httpx.get(url, trust_env=False, timeout=PROBE_S_MAX).is_success
        except httpx.HTTPError:
            return False

    def start_redis(self) -> None:
        """The read model's store."""
        told = (self.volume("redis") / "redis.conf").read_text()
        place = self.directory / "redis.conf"
        place.write_text(
            told.replace("bind 0.0.0.0", f"bind {LOOPBACK}").replace("port 6379", f"port {self.ports['redis']}")
        )
        self._start("redis", (str(redis_binary()), str(place)), {})

    def start_service(self, name: str) -> None:
        """`muster serve NAME`."""
        self._start(name, (*_WORDS, "serve", name, "--state-dir", str(self.volume(name))), self._variables(name))

    def run(self, part: str, *words: str) -> None:
        """A command that ends, in a part's pod. Raises AssertionError with what it said."""
        argv = (*_WORDS, *words, "--state-dir", str(self.volume(part)))
        done = subprocess.run(
            argv, env={**os.environ, **self._variables(part)}, capture_output=True, text=True,
            timeout=COMMAND_S_MAX, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{' '.join(words)}: {done.returncode}\n{done.stderr}"

    def kill(self, name: str) -> None:
        """SIGKILL."""
        process = self.running.pop(name)
        process.kill()
        process.wait()

    def end(self) -> None:
        """Everything, at once."""
        for name in list(self.running):
            self.kill(name)

    def said(self, name: str) -> str:
        """The end of what a process wrote."""
        return (self.directory / f"{name}.log").read_text(errors="replace")[-4_000:]

    def _start(self, name: str, argv: Sequence[str], environment: Mapping[str, str]) -> None:
        with (self.directory / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                argv, env={**os.environ, **environment}, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - one prctl call, safe after a fork
            )  # fmt: skip

    def _variables(self, part: str) -> dict[str, str]:
        """Where things listen here, and where this volume is: in a pod the settings say it."""
        told = load_settings(self.volume(part), {})
        redis = told.redis_url.replace("@redis:6379", f"@{LOOPBACK}:{self.ports['redis']}")
        return {
            "MUSTER_CREDENTIALS_DIR": str(self.volume(part)),
            "MUSTER_NATS_URL": f"nats://{LOOPBACK}:{self.ports['client']}",
            "MUSTER_REDIS_URL": redis,
            "MUSTER_HTTP_HOST": LOOPBACK,
            "MUSTER_HTTP_PORT": str(self.ports["http"]),
            "MUSTER_METRICS_PORT": "0",
        }


def free_ports() -> dict[str, int]:
    """Where things may listen."""
    return own_ports("client", "monitor", "websocket", "cluster", "redis", "http")


@contextmanager
def pods(directory: Path, sections: Mapping[str, object]) -> Iterator[Pods]:
    """A stack of its own, running. sections: of the settings."""
    ports = free_ports()
    http = f"http://{LOOPBACK}:{ports['http']}"
    layout = Layout(
        http_url=http,
        websocket_url=f"ws://{LOOPBACK}:{ports['websocket']}",
        nats_url=f"nats://{LOOPBACK}:{ports['client']}",
        flat=True,
    )
    settings = Settings.model_validate({"state_dir": layout.home, "credentials_dir": layout.home, **sections})
    write(directory / "secrets", layout, settings, now_s=SystemTime().wall() // NS_PER_S)
    with running(directory, directory / "secrets", ports) as started:
        yield started


@contextmanager
def running(
    directory: Path, secrets: Path, ports: Mapping[str, int], *, kubeconfigs: Mapping[str, Path] | None = None
) -> Iterator[Pods]:
    """What `muster init kubernetes` wrote, running: servers, streams, then services.

    kubeconfigs: by service, in the place of the account that its pod would have.
    """
    _mount(secrets, directory / "volumes", kubeconfigs or {})
    started = Pods(directory, secrets, load_settings(directory / "volumes" / "bus", {}), ports)
    try:
        for number in range(started.settings.bus.replicas):
            started.start_server(number)
        started.start_redis()
        started.run("bus", "init", "bus", "--patience-s", "60")
        for service in SERVICES:
            started.start_service(service)
        yield started
    finally:
        started.end()


def _mount(secrets: Path, volumes: Path, kubeconfigs: Mapping[str, Path]) -> None:
    """Every Secret as a directory of files, and none of the others."""
    told = yaml.safe_load((secrets / "kustomization.yaml").read_text())
    for one in cast("list[dict[str, object]]", told["secretGenerator"]):
        part = str(one["name"]).removeprefix("muster-")
        place = volumes / part
        place.mkdir(parents=True)
        for line in cast("list[str]", one["files"]):
            key, _, path = line.partition("=")
            (place / key).write_bytes((secrets / path).read_bytes())
        if part in kubeconfigs:
            file = place / "settings.json"
            settings = json.loads(file.read_text())
            settings["kubernetes"]["kubeconfig"] = str(kubeconfigs[part])
            file.write_text(json.dumps(settings))


def _address(number: int) -> str:
    """Of a NATS server."""
    return f"127.0.0.{number + 1}"


def _moved(told: str, number: int, data: Path, ports: Mapping[str, int]) -> str:
    """A server's configuration with the addresses that it has here."""
    own = _address(number)
    for port, name in ((4222, "client"), (9222, "websocket"), (6222, "cluster")):
        told = told.replace(f'"0.0.0.0:{port}"', f'"{own}:{ports[name]}"')
    for other in range(9):
        told = told.replace(f"nats-{other}.nats-servers:6222", f"{_address(other)}:{ports['cluster']}")
    told = told.replace('"127.0.0.1:8222"', f'"{own}:{ports["monitor"]}"')
    told = told.replace('store_dir: "/data"', f"store_dir: {json.dumps(str(data / 'store'))}")
    return told.replace('"/tmp/nats.pid"', json.dumps(str(data / "nats.pid")))
