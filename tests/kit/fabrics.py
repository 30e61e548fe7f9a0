"""Simulated fabrics for tests: their settings, and one that is served on loopback."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from kit.loopback import served
from muster.bus.settings import FabricSettings
from muster.core.settings import GroupSettings, SimulatedFabricSettings
from muster.fabric.layout import machine_id, node_name
from muster.fabric.simulator.clock import FabricClock
from muster.fabric.simulator.manager import Manager
from muster.fabric.simulator.server import make_app, open_manager

NAME = "east"
GROUP = "cdi"
MODEL = "NVIDIA-A100-PCIE-40GB"
OTHER_MODEL = "NVIDIA-L40S"
LOGIN = {
    "username": "muster",
    "password": "correct horse",
    "realm": "fabric",
    "client_id": "muster",
    "client_secret": "battery staple",
}
GROUPS = (
    GroupSettings(
        name=GROUP, composable=True, nodes=2, nodes_max=4, gpus=1, gpus_max=8, gpu_models=(MODEL,), fabric=NAME
    ),
)


def machine(index: int) -> str:
    """The machine under the node at `index` (from 1)."""
    return machine_id(node_name(GROUP, index))


def simulated(**changed: object) -> SimulatedFabricSettings:
    """A pool of 4, and switches that take a tenth of a second, always."""
    fields: dict[str, object] = {
        "pool": {MODEL: 4, OTHER_MODEL: 2},
        "memory_pool": {"CXL-128G": 1},
        "switch_median_s": 0.1,
        "switch_sigma": 0.0,
        **changed,
    }
    return SimulatedFabricSettings.model_validate(fields)


def fabric(directory: Path | None = None, *, driver: str = "fm", **changed: object) -> FabricSettings:
    """Settings of a simulated fabric; with a directory, callers must log in with LOGIN."""
    credentials = None
    if directory is not None:
        credentials = directory / f"{NAME}-login.json"
        credentials.write_text(json.dumps(LOGIN))
    return FabricSettings.model_validate(
        {"name": NAME, "driver": driver, "credentials": credentials, "simulated": simulated(**changed)}
    )


@dataclass(frozen=True)
class ServedFabric:
    """A fabric that answers at `url`; http: a client below it; manager: the same from inside."""

    url: str
    http: httpx.AsyncClient
    manager: Manager


@asynccontextmanager
async def served_fabric(
    settings: FabricSettings,
    groups: Sequence[GroupSettings] = GROUPS,
    *,
    path: Path | None = None,
    clock: FabricClock | None = None,
) -> AsyncIterator[ServedFabric]:
    """Serve one while the block runs. path: where it is kept. clock: None is the machine's."""
    manager = open_manager(settings, groups, path=path, clock=clock)
    async with served(make_app([manager])) as root:
        url = f"{root}/{settings.name}"
        async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=10) as http:
            yield ServedFabric(url, http, manager)
