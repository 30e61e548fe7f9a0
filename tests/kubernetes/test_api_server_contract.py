"""A real API server keeps the same contract as the fake one."""

import itertools
from collections.abc import AsyncIterator

import pytest

from contract.kube.devices import DeviceKindsContract
from contract.kube.suite import ApiServerContract
from kit.kube.planes import AnyPlane
from muster.kube.connection import KubeConnection
from muster.kube.dialects import newest
from muster.kube.errors import AlreadyExistsError
from muster.kube.objects import objects, text
from muster.kube.resources import NAMESPACES

_NUMBERS = itertools.count()


@pytest.fixture
async def kube(plane: AnyPlane) -> AsyncIterator[KubeConnection]:
    async with await KubeConnection.open(kubeconfig=plane.kubeconfig(), user_agent="muster-test/1") as connection:
        yield connection


@pytest.fixture
async def space(kube: KubeConnection) -> AsyncIterator[str]:
    while True:
        name = f"contract-{next(_NUMBERS)}"
        try:
            await kube.create(NAMESPACES, {"metadata": {"name": name}})
            break
        except AlreadyExistsError:  # of another run on a cluster that was given
            continue
    yield name
    await kube.delete(NAMESPACES, name)


@pytest.fixture
async def version(kube: KubeConnection) -> str:
    """What it serves: a cluster that was given may be an older one."""
    served = await kube.get_path("/apis/resource.k8s.io")
    return newest(text(one, "version") for one in objects(served, "versions"))


class TestRealApiServer(ApiServerContract):
    """The same as of a fake one."""


class TestRealDeviceKinds(DeviceKindsContract):
    """The same in whichever version."""
