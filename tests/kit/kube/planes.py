"""Control planes for tests: real API servers, found or started, never none in silence.

1. With MUSTER_TEST_KUBECONFIG set: the cluster of KUBECONFIG, as it is.
2. Our own on loopback, from programs that are here (KUBEBUILDER_ASSETS) or are built once.
3. K3s by testcontainers, where a container engine answers.

Beside tests/kubernetes rather than in it, because that folder's name is that of the official client's package.
"""

import os
import shutil
import ssl
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import aiohttp

from kit.kube.k3s import k3s
from muster.kube.official import from_kubeconfig
from muster_tools.local_kubernetes.errors import LocalPlaneError, NoProgramsError
from muster_tools.local_kubernetes.options import ADMIN, CONTROLLERS, PlaneOptions
from muster_tools.local_kubernetes.plane import ControlPlane, control_plane
from muster_tools.local_kubernetes.programs import KUBECTL, locate

GIVEN = "MUSTER_TEST_KUBECONFIG"
INSTALL = (
    "no control plane for tests: install Go 1.26 or newer (Kubernetes is then built once, about 15 minutes), or set "
    "KUBEBUILDER_ASSETS to a folder with kube-apiserver, etcd, kube-controller-manager, kube-scheduler, kubectl and "
    f"kwok, or set {GIVEN}=1 and KUBECONFIG to a cluster for tests, or start a Docker engine for K3s"
)
ORDINARY = "ordinary"
"""A user without rights until a test binds some to it, and whom flow control does not exempt."""
ORDINARY_GROUP = "muster:tests"

SHARED = PlaneOptions(controllers=CONTROLLERS, users=((ORDINARY, (ORDINARY_GROUP,)),))
"""What most tests need: one API server, etcd, KWOK and a few controllers; nobody schedules."""


class AnyPlane(Protocol):
    """What every control plane can: be reached."""

    def kubeconfig(self, user: str = ADMIN, server: int = 0) -> Path: ...

    def client(self, user: str = ADMIN, server: int = 0, *, connections: int = 64) -> aiohttp.ClientSession: ...

    def program(self, name: str) -> Path: ...


@dataclass(frozen=True)
class GivenPlane:
    """A cluster that somebody else runs: nothing of it can be stopped, and its admin plays the ordinary user."""

    path: Path
    url: str
    authorization: str
    tls: ssl.SSLContext | None

    @classmethod
    async def at(cls, path: Path) -> "GivenPlane":
        credentials = await from_kubeconfig(path)
        authorization = await credentials.authorization()
        return cls(path, credentials.url, authorization, await credentials.tls())

    def kubeconfig(self, user: str = ADMIN, server: int = 0) -> Path:
        if user != ADMIN or server:
            raise LocalPlaneError(f"user {user!r} at API server {server}: {self.path} has one of each; unset {GIVEN}")
        return self.path

    def client(self, user: str = ADMIN, server: int = 0, *, connections: int = 64) -> aiohttp.ClientSession:
        headers = {"Authorization": self.authorization} if self.authorization else {}
        if user != ADMIN:
            headers |= {"Impersonate-User": user, "Impersonate-Group": ORDINARY_GROUP}
        connector = aiohttp.TCPConnector(ssl=True if self.tls is None else self.tls, limit=connections)
        return aiohttp.ClientSession(self.url, headers=headers, connector=connector)

    def program(self, name: str) -> Path:
        on_path = shutil.which(name)
        return Path(on_path) if on_path else locate((KUBECTL,)).path(name)


def given(environment: Mapping[str, str]) -> Path | None:
    """The kubeconfig that the environment says to use; None where it says nothing of the kind."""
    if not environment.get(GIVEN):
        return None
    named = environment.get("KUBECONFIG", "")
    if not named or not Path(named).is_file():
        raise LocalPlaneError(f"KUBECONFIG: {named!r} is no file, and {GIVEN} asks to use it; name one file")
    return Path(named)


def kubectl_argv(plane: AnyPlane, *words: str, user: str = ADMIN) -> list[str]:
    """A command line of kubectl.

    What it remembers of an API server lies beside the kubeconfig, not in the home directory by address: a plane may
    have the address of one that served other kinds, and was stopped a moment ago.
    """
    kubeconfig = plane.kubeconfig(user)
    cache = kubeconfig.parent / "cache"
    return [str(plane.program(KUBECTL)), "--kubeconfig", str(kubeconfig), "--cache-dir", str(cache), *words]


@asynccontextmanager
async def open_plane(options: PlaneOptions = SHARED) -> AsyncIterator[ControlPlane]:
    """A control plane of a test's own, which can stop and start its processes; it needs the programs."""
    directory = Path(tempfile.mkdtemp(prefix="muster-plane-"))
    try:
        async with control_plane(directory, options) as plane:
            yield plane
    except NoProgramsError as missing:
        raise NoProgramsError(f"{INSTALL} ({missing})") from missing
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@asynccontextmanager
async def any_plane(options: PlaneOptions = SHARED) -> AsyncIterator[AnyPlane]:
    """The first of the three that there is. options: of our own; the others are as they are."""
    if (path := given(os.environ)) is not None:
        yield await GivenPlane.at(path)
        return
    try:
        locate()
    except NoProgramsError as missing:
        async with k3s() as path:
            if path is None:
                raise NoProgramsError(f"{INSTALL} ({missing})") from missing
            yield await GivenPlane.at(path)
        return
    async with open_plane(options) as plane:
        yield plane
