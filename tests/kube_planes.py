"""Control planes for tests: real API servers on loopback, in a folder that is removed with them.

Beside tests/kubernetes rather than in it, because the folder's name is that of the official client's package.
"""

import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from muster.kube.local.options import CONTROLLERS, PlaneOptions
from muster.kube.local.plane import ControlPlane, control_plane

ORDINARY = "ordinary"
"""A user without rights until a test binds some to it, and whom flow control does not exempt."""

SHARED = PlaneOptions(controllers=CONTROLLERS, users=((ORDINARY, ("muster:tests",)),))
"""What most tests need: one API server, etcd, KWOK and a few controllers; nobody schedules."""


@asynccontextmanager
async def open_plane(options: PlaneOptions = SHARED) -> AsyncIterator[ControlPlane]:
    """A control plane of a test's own; where a test fails, its logs' folder is gone, so say what matters in it."""
    directory = Path(tempfile.mkdtemp(prefix="muster-plane-"))
    try:
        async with control_plane(directory, options) as plane:
            yield plane
    finally:
        shutil.rmtree(directory, ignore_errors=True)
