"""A log that no longer begins at its start: whoever starts after the trim knows what folding everything would say."""

import asyncio
import shutil
from pathlib import Path

import pytest

from kit.stack.living import Harness, job, open_harness, options
from kit.waiting import until_async
from muster.bus.checkpoint import Checkpoints
from muster.bus.checkpoint_store import NatsCheckpoints
from muster.bus.fold import Folder
from muster.bus.service import CoreService
from muster.cli import log_files
from muster.core.fact import Core, Fact
from muster.core.instant import Instant
from muster.federation.app import services as federation
from muster.scheduler.app import services as scheduler
from muster.schemas.job import Phase
from muster.schemas.subjects import FED_LOG, LogName, cluster_log
from muster.schemas.views import JobView
from muster.stack.options import StartOptions

pytestmark = [pytest.mark.connected, pytest.mark.timeout(240)]

CHECKPOINT_EVERY_FACTS = 60
SEEN = {"seq": 0}  # where a row was last written is not part of what it says


def small(state_dir: Path) -> StartOptions:
    """A stack that takes a checkpoint every few facts and lets its log be trimmed at any age."""
    chosen = options(state_dir, trim_keep_s=0.0)
    often = {"scheduler": {"checkpoint_every_facts": CHECKPOINT_EVERY_FACTS}}
    return chosen.model_copy(update={"settings": {**chosen.settings, **often}})


async def has_checkpoints(harness: Harness, log: LogName, count: int) -> bool:
    """Whether the services have taken so many."""
    async with harness.connection() as client:
        pointer, _ = await NatsCheckpoints(client).pointer(log.stream)
        return len(pointer.checkpoints) >= count


async def has_checkpoints_or_more_facts(harness: Harness, log: LogName) -> bool:
    """A checkpoint that a newer one overtook is given up, so the facts so far may have made fewer than two."""
    if await has_checkpoints(harness, log, 2):
        return True
    await harness.ended([(await harness.muster.submit(job("one-more", gpus=0, run_s=0.1))).id])
    return False


async def recovered(harness: Harness, log: LogName, service: CoreService) -> tuple[Core, int]:
    """A core as a process that never ran would have it: the newest checkpoint, and the facts after it; up to which."""
    name = service.declaration.service
    folder = Folder(name, service.core(), voided=(), take=lambda *_: None)
    async with harness.connection() as client:
        recorded, facts = await Checkpoints(NatsCheckpoints(client), log).recover(name, ())
    assert recorded is not None, "there is a checkpoint"
    folder.restore(facts, seq=recorded.seq, time=Instant(recorded.time_ns))
    younger = await harness.facts(log, after_seq=recorded.seq)
    return fold(folder, younger), younger[-1].seq if younger else recorded.seq


def fold(folder: Folder, facts: list[Fact]) -> Core:
    """The core after these facts."""
    for fact in facts:
        if fact.kind != "log" or fact.name == "checkpoint-requested":
            folder.core.apply(fact)
    return folder.core


def said(core: Core) -> set[str]:
    """Everything that the core would put into a checkpoint."""
    return {repr((draft.kind, draft.subject_id, draft.payload)) for draft in core.snapshot()}


async def shown(harness: Harness, job_ids: list[str]) -> tuple[object, ...]:
    """What people see: every job, queue and node."""
    views = [(await harness.muster.get(job_id)).model_copy(update=SEEN) for job_id in job_ids]
    return views, list(await harness.muster.queues()), sorted(await harness.muster.nodes(), key=lambda node: node.name)


async def fill(harness: Harness) -> list[str]:
    """Jobs that ended, one that runs on through everything, one that waits behind it."""
    ids = [(await harness.muster.submit(job(f"ended-{index}", run_s=0.1))).id for index in range(40)]
    await harness.ended(ids)
    running = (await harness.muster.submit(job("runs-on", gpus=8, replicas=16, run_s=10_000))).id
    await harness.job_that(running, lambda view: view.phase is Phase.RUNNING)
    waiting = (await harness.muster.submit(job("waits", gpus=8))).id
    await harness.job_that(waiting, is_waiting)
    return [*ids, running, waiting]


def is_waiting(view: JobView) -> bool:
    return view.phase is Phase.QUEUED


async def lose_newest_checkpoint(harness: Harness, log: LogName, service: str) -> None:
    """One that is newer than the trim; the one before must do."""
    async with harness.connection(service) as client:
        store = NatsCheckpoints(client)
        pointer, _ = await store.pointer(log.stream)
        newest = pointer.checkpoints[0]
        for contributor in newest.services:
            await store.drop_part(log.stream, newest.seq, contributor)


async def trim(harness: Harness, log: LogName, archive: Path) -> int:
    """As `muster log trim --yes` does; the first sequence that is left."""
    await asyncio.to_thread(log_files.trim, harness.settings.state_dir, log.scope, archive=archive, yes=True)
    return (await harness.facts(log))[0].seq


async def test_services_that_never_ran_start_on_trimmed_logs_and_know_everything(tmp_path: Path) -> None:
    state_dir, chosen = tmp_path / "state", small(tmp_path / "state")
    async with open_harness(chosen) as harness:
        cluster = cluster_log(harness.settings.cluster)
        ids = await fill(harness)
        for log in (cluster, FED_LOG):
            await until_async(lambda log=log: has_checkpoints_or_more_facts(harness, log))  # type: ignore[misc]
    # A new term of every service, so that no leader's fence stands in what is cut off.
    async with open_harness(chosen) as harness:
        for log, service in ((cluster, scheduler(harness.settings)[0]), (FED_LOG, federation(harness.settings)[0])):
            assert isinstance(service, CoreService)
            whole = await harness.facts(log)
            first = await trim(harness, log, tmp_path / f"{log.scope}.gz")
            assert first > 1, f"{log.stream} was trimmed"
            newcomer, up_to = await recovered(harness, log, service)
            whole += [fact for fact in await harness.facts(log, after_seq=whole[-1].seq) if fact.seq <= up_to]
            everything = fold(Folder("test", service.core(), voided=(), take=lambda *_: None), whole)
            assert said(newcomer) == said(everything)
            assert said(newcomer)
            await lose_newest_checkpoint(harness, log, service.declaration.service)
        before = await shown(harness, ids)
    shutil.rmtree(state_dir / "redis")
    async with open_harness(chosen) as harness:
        assert await shown(harness, ids) == before
        await harness.muster.cancel(ids[-2])
        assert [view.phase for view in await harness.ended(ids[-2:])] == [Phase.CANCELLED, Phase.SUCCEEDED]
        late = (await harness.muster.submit(job("late"))).id
        assert [view.phase for view in await harness.ended([late])] == [Phase.SUCCEEDED]
