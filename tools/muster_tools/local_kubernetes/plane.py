"""A control plane of its own on loopback: `async with control_plane(directory, options) as plane`."""

import asyncio
import json
import os
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import aiohttp

from muster_tools.local_kubernetes import access, bounds, commands, programs
from muster_tools.local_kubernetes.child import Child, Command, Usage
from muster_tools.local_kubernetes.commands import CLIENT_BURST, CLIENT_QPS, Layout, Ports
from muster_tools.local_kubernetes.errors import LocalPlaneError, PortTakenError
from muster_tools.local_kubernetes.options import ADMIN, PlaneOptions, Profile
from muster_tools.local_kubernetes.pki import make_pki
from muster_tools.local_kubernetes.ports import LOOPBACK, free_ports
from muster_tools.local_kubernetes.programs import Programs, locate

Probe = Callable[[], Awaitable[bool]]
_OK = 200


def answers(url: str, *, tls: ssl.SSLContext | bool = True) -> Probe:
    """Return a probe that `GET url` returns 200. tls: the trusted authorities; False for a self-signed certificate."""

    async def is_ready() -> bool:
        try:
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=bounds.PROBE_S_MAX)) as session,
                session.get(url, ssl=tls) as answer,
            ):
                return answer.status == _OK
        except (aiohttp.ClientError, OSError, TimeoutError):
            return False

    return is_ready


GPU = "nvidia.com/gpu"
TOPOLOGY_PLUGIN = "NodeTopology"
"""As go/topology-scheduler calls it."""


def configuration(profile: Profile, *, scheduler_name: str, kubeconfig: Path) -> Mapping[str, object]:
    """Return the whole configuration of one scheduler with one profile."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": CLIENT_QPS, "burst": CLIENT_BURST},
        "profiles": [{"schedulerName": scheduler_name, **_profile(profile)}],
    }


def _profile(profile: Profile) -> Mapping[str, object]:
    match profile:
        case Profile.DEFAULT:
            return {}
        case Profile.BIN_PACKING:
            return {"pluginConfig": [_FULLEST_FIRST], "plugins": {"score": _NO_BALANCE}}
        case Profile.TOPOLOGY:
            by_zone = {"enabled": [{"name": TOPOLOGY_PLUGIN, "weight": 2}]}
            return {"pluginConfig": [_FULLEST_FIRST], "plugins": {"multiPoint": by_zone, "score": _NO_BALANCE}}


_FULLEST_FIRST = {
    "name": "NodeResourcesFit",
    "args": {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": GPU, "weight": 1}]}},
}
"""Judged by GPUs alone: what keeps whole nodes free for large pods."""
_NO_BALANCE = {"disabled": [{"name": "NodeResourcesBalancedAllocation"}]}


STAGES = Path(__file__).parent / "stages.yaml"
KWOK_CONFIG = Path(__file__).parent / "kwok.yaml"
_TOKEN_BYTES = 16


class ControlPlane:
    """A running control plane. Processes are named etcd, kube-apiserver-0, kube-controller-manager, kwok, and
    the schedulers by their own names.
    """

    def __init__(self, layout: Layout, tokens: Mapping[str, str]) -> None:
        self.directory = layout.directory
        self.options = layout.options
        self.servers = layout.server_urls
        self.ca = layout.pki.ca
        self._layout = layout
        self._tokens = tokens
        self._children: dict[str, Child] = {}
        self._tls = ssl.create_default_context(cafile=str(layout.pki.ca))

    def token(self, user: str = ADMIN) -> str:
        """Return a user's bearer token. Raises LocalPlaneError if there is no such user."""
        if user not in self._tokens:
            raise LocalPlaneError(f"user: no {user!r}; PlaneOptions.users names {', '.join(self._tokens)}")
        return self._tokens[user]

    def kubeconfig(self, user: str = ADMIN, server: int = 0) -> Path:
        """Return a kubeconfig for one user and one API server. Raises LocalPlaneError if there is no such user."""
        name = f"{user.replace(':', '_').replace('/', '_')}-{server}.kubeconfig"
        return access.write_kubeconfig(
            self.directory / "kubeconfigs" / name,
            server=self.servers[server],
            ca=self.ca,
            user=user,
            token=self.token(user),
        )

    def client(self, user: str = ADMIN, server: int = 0, *, connections: int = 64) -> aiohttp.ClientSession:
        """Return a session with the user's token and one API server as its base; the caller closes it."""
        return aiohttp.ClientSession(
            self.servers[server],
            headers={"Authorization": f"Bearer {self.token(user)}"},
            connector=aiohttp.TCPConnector(ssl=self._tls, limit=connections),
            timeout=aiohttp.ClientTimeout(total=bounds.REQUEST_S_MAX),
            read_bufsize=2**21,  # one watch event is one line
        )

    def program(self, name: str) -> Path:
        """Return a program that the plane was started with, for example kubectl. Raises NoProgramsError."""
        return self._layout.programs.path(name)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of all processes, in the order of starting."""
        return tuple(self._children)

    @property
    def pids(self) -> Mapping[str, int]:
        """Process ids by name, of what runs now."""
        return {name: pid for name, child in self._children.items() if (pid := child.pid) is not None}

    def usage(self) -> Mapping[str, Usage]:
        """Memory and processor time by name, of what runs now."""
        return {name: found for name, child in self._children.items() if (found := child.usage()) is not None}

    def log(self, name: str) -> Path:
        """Return the log file of a process."""
        return self._child(name).log

    async def stop(self, name: str) -> None:
        """End one process politely and wait until it is gone; the others run on."""
        await self._child(name).stop()

    async def kill(self, name: str) -> None:
        """SIGKILL one process and wait until it is gone."""
        await self._child(name).kill()

    async def start(self, name: str) -> None:
        """Start a stopped process again, same port and same store, and wait until it is ready. Raises NotReadyError."""
        await self._child(name).start()

    async def upgrade(self, options: PlaneOptions) -> None:
        """Stop the API servers one by one and start each with other options, same port and same store: another emulated
        version, other APIs. Raises NotReadyError.
        """
        self.options, self._layout = options, replace(self._layout, options=options)
        for index, url in enumerate(self.servers):
            await self.stop(commands.api_server_name(index))
            await self._add_server(index, url).start()

    def _add_server(self, index: int, url: str) -> Child:
        return self._add(commands.api_server(self._layout, index), answers(f"{url}/readyz", tls=self._tls))

    def _child(self, name: str) -> Child:
        if name not in self._children:
            raise LocalPlaneError(f"name: no process {name!r}; this plane has {', '.join(self._children)}")
        return self._children[name]

    async def start_all(self) -> None:
        """Start what the options ask for, in an order in which each finds what it needs. Raises NotReadyError."""
        layout = self._layout
        etcd = self._add(commands.etcd(layout), answers(f"{layout.etcd_url}/health"))
        etcd.launch()
        servers = [self._add_server(index, url) for index, url in enumerate(self.servers)]
        await etcd.ready()
        for server in servers:  # one after the other: the first writes what all of them want to be there
            await server.start()
        later = {scheduler.name for scheduler in self.options.schedulers if not scheduler.at_once}
        components = [child for child in self._components() if child.name not in later]
        for child in components:
            child.launch()
        for child in components:
            await child.ready()

    def _components(self) -> list[Child]:
        layout, options = self._layout, self.options
        found = []
        if options.controllers:
            probe = answers(f"https://{LOOPBACK}:{layout.ports.controllers}/healthz", tls=False)
            found.append(self._add(commands.controller_manager(layout, self.kubeconfig()), probe))
        for scheduler in options.schedulers:
            config = self._scheduler_config(scheduler.name)
            probe = answers(f"https://{LOOPBACK}:{layout.ports.schedulers[scheduler.name]}/readyz", tls=False)
            found.append(self._add(commands.scheduler(layout, scheduler, config), probe))
        if options.kwok:
            configs = (KWOK_CONFIG, *(options.kwok_stages or (STAGES,)))
            probe = answers(f"http://{LOOPBACK}:{layout.ports.kwok}/healthz")
            found.append(self._add(commands.kwok(layout, self.kubeconfig(), configs), probe))
        return found

    def _scheduler_config(self, name: str) -> Path:
        scheduler = next(each for each in self.options.schedulers if each.name == name)
        if not isinstance(scheduler.profile, Profile):
            return scheduler.profile
        content = configuration(
            scheduler.profile,
            scheduler_name=scheduler.scheduler_name,
            kubeconfig=self.kubeconfig(scheduler.user.name),
        )
        return access.write_private(self.directory / f"{name}.json", json.dumps(content))

    def _add(self, command: Command, probe: Probe) -> Child:
        child = Child(command, self.directory / f"{command.name}.log", probe)
        self._children[command.name] = child
        return child

    def close(self) -> None:
        """Kill every process at once; etcd's data is discarded, so no process needs to shut down cleanly."""
        for child in reversed(self._children.values()):
            child.abandon()
        for child in self._children.values():
            child.reap()


@asynccontextmanager
async def control_plane(
    directory: Path, options: PlaneOptions | None = None, *, located: Programs | None = None
) -> AsyncIterator[ControlPlane]:
    """Start a control plane in a directory of its own and end it with the block, also when that is cancelled.

    located: programs that were found before; without, they are found now, or built (minutes). Raises NoProgramsError,
    BuildFailedError, NotReadyError, OSError.
    """
    wanted = options or PlaneOptions()
    found = await asyncio.to_thread(locate, programs_of(wanted)) if located is None else located
    for attempt in range(bounds.PORT_TRIES_MAX):
        folder = directory / f"try-{attempt}" if attempt else directory
        plane = _laid_out(folder, wanted, found, seed=os.getpid() + attempt)
        try:
            try:
                await plane.start_all()
            except PortTakenError:
                if attempt + 1 == bounds.PORT_TRIES_MAX:
                    raise
                continue
            yield plane
            return
        finally:
            plane.close()


def programs_of(options: PlaneOptions) -> tuple[str, ...]:
    """Return the programs that a plane with these options needs, and kubectl."""
    wanted = [programs.API_SERVER, programs.ETCD, programs.KUBECTL]
    if options.controllers:
        wanted.append(programs.CONTROLLER_MANAGER)
    wanted.extend(scheduler.program for scheduler in options.schedulers)
    if options.kwok:
        wanted.append(programs.KWOK)
    return tuple(wanted)


def _laid_out(directory: Path, options: PlaneOptions, found: Programs, *, seed: int) -> ControlPlane:
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    tokens = {user.name: os.urandom(_TOKEN_BYTES).hex() for user in options.everybody}
    path = access.write_private(directory / "tokens.csv", access.token_rows(options.everybody, tokens.__getitem__))
    schedulers = [scheduler.name for scheduler in options.schedulers]
    etcd, peer, controllers, kwok, *rest = free_ports(4 + options.apiservers + len(schedulers), seed=seed)
    ports = Ports(
        etcd=etcd,
        etcd_peer=peer,
        apiservers=tuple(rest[: options.apiservers]),
        controllers=controllers,
        kwok=kwok,
        schedulers=dict(zip(schedulers, rest[options.apiservers :], strict=True)),
    )
    pki = make_pki(directory / "pki", now=datetime.now(UTC))  # noqa: TID251 - no fact carries it
    return ControlPlane(Layout(directory, options, found, ports, pki, path), tokens)
