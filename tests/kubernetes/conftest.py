"""One control plane for all tests of this folder that need nothing special of it; nothing here ever skips."""

import asyncio
from collections.abc import Iterator

import pytest

from kube_planes import open_plane
from muster.kube.local.plane import ControlPlane


@pytest.fixture(scope="session")
def plane() -> Iterator[ControlPlane]:
    """API server, etcd, KWOK and a few controllers; tests take namespaces and node names of their own."""
    with asyncio.Runner() as runner:
        opened = open_plane()
        found = runner.run(opened.__aenter__())
        try:
            yield found
        finally:
            runner.run(opened.__aexit__(None, None, None))
