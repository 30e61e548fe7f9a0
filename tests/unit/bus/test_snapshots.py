"""Uploads of checkpoints: what goes wrong with one is told and does not end the others."""

import asyncio

import pytest

from kit.checkpoints import MemoryCheckpoints
from kit.toys import JOINED, LOG
from kit.waiting import until
from muster.bus.checkpoint import Checkpoints
from muster.bus.limits import ShellLimits
from muster.bus.metrics import shell_metrics
from muster.bus.snapshots import Snapshots
from muster.core.fact import Draft
from muster.core.instant import Instant
from muster.schemas.facts.node import NodeState


class Unwritable(NodeState):
    """A state fact with a defect."""

    def model_dump_json(self) -> str:
        raise RuntimeError("cannot be written")


async def test_a_part_that_cannot_be_written_does_not_end_the_uploads(caplog: pytest.LogCaptureFixture) -> None:
    store = MemoryCheckpoints()
    metrics, limits = shell_metrics("agent", LOG.stream), ShellLimits()
    snapshots = Snapshots(Checkpoints(store, LOG), "agent", LOG, metrics, limits)
    uploads = asyncio.create_task(snapshots.run())
    snapshots.offer(1, Instant(1), [Draft("node", "n1", "state-recorded", Unwritable(description=JOINED))])
    snapshots.offer(2, Instant(2), [Draft("node", "n1", "state-recorded", NodeState(description=JOINED))])
    await until(lambda: store.parts)
    assert {seq for _, seq, _ in store.parts} == {2}
    assert "cannot be written" in caplog.text
    uploads.cancel()
    await asyncio.gather(uploads, return_exceptions=True)
