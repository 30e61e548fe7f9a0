"""Make a fleet of simulated nodes at an API server, many requests at a time."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import aiohttp

from muster.kube.dialects import CANONICAL, worded
from muster.kube.resources import DEVICE_CLASSES, RESOURCE_SLICES, Resource
from muster_tools.local_kubernetes import bounds
from muster_tools.local_kubernetes.errors import FleetError
from muster_tools.local_kubernetes.nodes import (
    Devices,
    Manifest,
    NodeShape,
    device_class,
    node,
    node_name,
    resource_slice,
)

NODES = "/api/v1/nodes"
CLASSES = DEVICE_CLASSES.path()
_CONFLICT = 409
_WORDS_MAX = 500


@dataclass(frozen=True, slots=True)
class Fleet:
    """Nodes that were made. shape: of each."""

    names: tuple[str, ...]
    shape: NodeShape

    @property
    def gpus(self) -> int:
        """Return the number of GPUs of all nodes."""
        return len(self.names) * self.shape.gpus


async def make_fleet(
    client: aiohttp.ClientSession,
    count: int,
    *,
    shape: NodeShape | None = None,
    prefix: str = "gpu",
    labels: Mapping[str, str] | None = None,
    device_class_name: str = "gpu.nvidia.com",
    devices_api: str = CANONICAL,
) -> Fleet:
    """Create `count` nodes, and with DRA their slices and the device class. What is there already stays as it is.

    devices_api: the version of `resource.k8s.io` that the server has.
    client: a session of an API server with a base URL (`ControlPlane.client`). Raises FleetError, aiohttp.ClientError.
    """
    made = shape or NodeShape()
    await create_all(client, ((NODES, node(index, made, prefix=prefix, labels=labels)) for index in range(count)))
    if made.devices is Devices.DRA:
        there = [_device_kind(DEVICE_CLASSES, device_class(device_class_name), devices_api)]
        await create_all(client, there)
        slices = (resource_slice(index, made, prefix=prefix) for index in range(count))
        await create_all(client, (_device_kind(RESOURCE_SLICES, one, devices_api) for one in slices))
    return Fleet(tuple(node_name(index, prefix=prefix) for index in range(count)), made)


def _device_kind(resource: Resource, manifest: Manifest, version: str) -> tuple[str, Manifest]:
    """Path and body in this version."""
    return replace(resource, version=version).path(), worded(resource, dict(manifest), version)


async def create_all(
    client: aiohttp.ClientSession,
    objects: Iterable[tuple[str, Manifest]],
    *,
    parallel: int = bounds.FLEET_PARALLEL,
    begun: Callable[[int], None] = lambda _index: None,
) -> int:
    """POST each object to its path, `parallel` at a time; call `begun` with the index of each just before.

    Returns the number of objects. Raises FleetError or aiohttp.ClientError at the first failure; the others are given
    up.
    """
    waiting = enumerate(objects)
    done = 0

    async def work() -> None:
        nonlocal done
        for index, (path, manifest) in waiting:
            begun(index)
            await post(client, path, manifest)
            done += 1

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(parallel):
                group.create_task(work())
    except* (FleetError, aiohttp.ClientError) as errors:
        raise errors.exceptions[0] from None
    return done


async def post(client: aiohttp.ClientSession, path: str, manifest: Manifest) -> None:
    """Create one object; one that is there already stays as it is. Raises FleetError, aiohttp.ClientError."""
    async with client.post(path, json=manifest) as answer:
        if not answer.ok and answer.status != _CONFLICT:
            words = (await answer.text())[:_WORDS_MAX]
            raise FleetError(f"POST {path}: {answer.status}; the API server said: {words}")
        await answer.read()
