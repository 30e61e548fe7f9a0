"""How suites reach the fake API server of their module."""

from collections.abc import AsyncIterator

import pytest

from kit.kube.fake import FakeKube
from muster.kube.connection import KubeConnection
from muster.kube.objects import name_of
from muster.kube.resources import NAMESPACES


@pytest.fixture
async def kube(fake: FakeKube) -> AsyncIterator[KubeConnection]:
    async with KubeConnection.plain(fake.url, user_agent="muster-test/1") as connection:
        yield connection


@pytest.fixture
def space(fake: FakeKube) -> str:
    return name_of(fake.add(NAMESPACES, {"metadata": {"name": "contract"}}))
