"""A real API server keeps the same contract as the fake one."""

import itertools
from collections.abc import AsyncIterator

import pytest

from contract.kube.suite import ApiServerContract
from kube_planes import AnyPlane
from muster.kube.connection import KubeConnection
from muster.kube.errors import AlreadyExistsError
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


class TestRealApiServer(ApiServerContract):
    """The same as of a fake one."""
