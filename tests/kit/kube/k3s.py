"""K3s in a container, for machines that can run containers but hold no programs: the last resort."""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

IMAGE = "rancher/k3s:v1.34.4-k3s1"
SOCKET = Path("/var/run/docker.sock")


class Container(Protocol):
    def start(self) -> object: ...
    def stop(self) -> object: ...
    def config_yaml(self) -> str: ...


@asynccontextmanager
async def k3s() -> AsyncIterator[Path | None]:
    """The kubeconfig of a cluster that ends with the block; None if no engine answers or the image cannot be had."""
    container = await asyncio.to_thread(_started)
    if container is None:
        yield None
        return
    try:
        with tempfile.TemporaryDirectory(prefix="muster-k3s-") as directory:
            path = Path(directory) / "kubeconfig"
            path.write_text(container.config_yaml())
            yield path
    finally:
        await asyncio.to_thread(container.stop)


def _started() -> Container | None:
    if not os.environ.get("DOCKER_HOST") and not SOCKET.exists():
        return None
    from docker.errors import DockerException  # noqa: PLC0415 - only where an engine may answer
    from testcontainers.community.k3s import K3SContainer  # noqa: PLC0415

    try:
        container: Container = K3SContainer(IMAGE)
        container.start()
    except (DockerException, OSError):
        return None
    return container
