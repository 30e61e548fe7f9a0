"""One control plane for all tests of this folder that need nothing special of it; nothing here ever skips."""

import asyncio
from collections.abc import Iterator

import pytest

from kube_planes import AnyPlane, any_plane


@pytest.fixture(scope="session")
def plane() -> Iterator[AnyPlane]:
    """API server, etcd, KWOK and a few controllers; tests take namespaces and node names of their own.

    It may be a cluster that was given: a test that stops processes, or needs more of them, opens a plane of its own.
    """
    with asyncio.Runner() as runner:
        opened = any_plane()
        found = runner.run(opened.__aenter__())
        try:
            yield found
        finally:
            runner.run(opened.__aexit__(None, None, None))
