"""One control plane for all tests of this folder that need nothing special of it; nothing here ever skips."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from kit.kube.manifests import K8S, kubectl
from kit.kube.planes import AnyPlane, any_plane
from muster_tools.local_kubernetes.errors import BuildFailedError, NoProgramsError
from muster_tools.local_kubernetes.programs import ALL, TOPOLOGY_SCHEDULER, locate

HERE = Path(__file__).parent


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build what is missing before the first test: it takes minutes, and a test's time is limited.

    Without programs and without Go each test says what to install, or finds another cluster.
    """
    if session.config.option.collectonly or not any(item.path.is_relative_to(HERE) for item in session.items):
        return
    try:
        with suppress(NoProgramsError):
            locate((*ALL, TOPOLOGY_SCHEDULER), say=session.config.get_terminal_writer().line)
    except BuildFailedError as error:
        pytest.exit(str(error), returncode=1)


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


@pytest.fixture(scope="module")
def prepared(plane: AnyPlane) -> Iterator[AnyPlane]:
    """The same with what must be there before manifests: namespaces, which say how confined pods must be."""
    first = [word for name in ("namespaces", "priority") for word in ("-f", str(K8S / "base" / f"{name}.yaml"))]
    kubectl(plane, "apply", "--server-side", *first)
    yield plane
    kubectl(plane, "delete", "--ignore-not-found", *first)
