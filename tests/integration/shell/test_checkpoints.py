"""Checkpoints in the object store of a real nats-server, taken, found and used with the services' own rights."""

import pytest

from kit.stack.hosted import LOG, HostedServices, until_leading
from kit.toys import Releasing, agent, bystanders, scheduler
from kit.waiting import until
from muster.bus.checkpoint import Checkpoints, Pointer
from muster.bus.checkpoint_store import NatsCheckpoints
from muster.bus.limits import CHECKPOINTS_KEPT
from muster.core.fact import Draft
from muster.schemas.facts.control import Voided
from muster.schemas.ids import request_fact_id

pytestmark = pytest.mark.connected


async def checkpoints(harness: HostedServices) -> tuple[NatsCheckpoints, Checkpoints]:
    store = NatsCheckpoints(await harness.client("scheduler"))
    return store, Checkpoints(store, LOG)


async def take_checkpoint(harness: HostedServices) -> int:
    """Ask for one and wait until it is complete; its sequence."""
    seq = await harness.request_checkpoint()
    _, known = await checkpoints(harness)
    newest = 0
    for _ in range(2000):
        recorded = await known.newest()
        newest = 0 if recorded is None else recorded.seq
        if newest == seq:
            break
    assert newest == seq
    return seq


async def test_recovery_from_a_checkpoint_equals_folding_everything(harness: HostedServices) -> None:
    hosting = await harness.host(scheduler(), agent("n1", "n2"), *bystanders())
    shell = hosting.shells[0]
    await until(lambda: shell.leading and shell.core.released == {"n1", "n2"})  # type: ignore[attr-defined]
    await take_checkpoint(harness)
    await harness.join("n3")
    await until(lambda: "n3" in shell.core.released)  # type: ignore[attr-defined]
    await hosting.end()
    again = (await harness.host(scheduler())).shells[0]
    await until(lambda: again.leading)
    assert isinstance(again.core, Releasing)
    assert isinstance(shell.core, Releasing)
    assert again.core.states_folded == 4
    assert shell.core.states_folded == 0
    assert again.core.released == shell.core.released
    assert again.core.joined.keys() == shell.core.joined.keys()


async def test_a_service_that_never_ran_starts_on_a_trimmed_log(harness: HostedServices) -> None:
    hosting = await harness.host(scheduler(), agent("n1", "n2"), *bystanders())
    shell = hosting.shells[0]
    await until(lambda: shell.leading and shell.core.released == {"n1", "n2"})  # type: ignore[attr-defined]
    seq = await take_checkpoint(harness)
    await hosting.end()
    tools = await harness.client("admin-tools")
    await tools.jetstream().purge_stream(LOG.stream, seq=seq)
    newcomer = (await harness.host(scheduler())).shells[0]
    await until(lambda: newcomer.leading)
    assert newcomer.core.released == {"n1", "n2"}  # type: ignore[attr-defined]


async def test_two_checkpoints_are_kept_and_older_ones_deleted(harness: HostedServices) -> None:
    hosting = await harness.host(scheduler(), agent("n1"), *bystanders())
    await until(lambda: all(shell.leading for shell in hosting.shells))
    taken = [await take_checkpoint(harness) for _ in range(CHECKPOINTS_KEPT + 1)]
    store, _ = await checkpoints(harness)
    pointer, _ = await store.pointer(LOG.stream)
    assert [recorded.seq for recorded in pointer.checkpoints] == taken[:0:-1]
    assert await store.has_part(LOG.stream, taken[-1], "agent")
    await hosting.end()  # old parts are deleted after the pointer moved, before the service leaves
    for service in ("agent", "scheduler"):
        assert not await store.has_part(LOG.stream, taken[0], service)


async def test_parts_of_a_leader_killed_before_the_others_uploaded_theirs_are_removed(harness: HostedServices) -> None:
    store, _ = await checkpoints(harness)
    await store.put_part(LOG.stream, 1, "scheduler", b"of a process that is gone")
    hosting = await harness.host(scheduler(), agent("n1"), *bystanders())
    await until(lambda: all(shell.leading for shell in hosting.shells))
    taken = [await take_checkpoint(harness) for _ in range(CHECKPOINTS_KEPT)]
    await hosting.end()
    assert sorted(await store.part_seqs(LOG.stream, "scheduler")) == taken


async def test_the_pointer_moves_only_from_where_it_was_read(harness: HostedServices) -> None:
    store, _ = await checkpoints(harness)
    pointer, revision = await store.pointer(LOG.stream)
    assert (pointer, revision) == (Pointer(), 0)
    assert await store.move_pointer(LOG.stream, Pointer(), revision=0)
    assert not await store.move_pointer(LOG.stream, Pointer(), revision=0)
    _, revision = await store.pointer(LOG.stream)
    assert await store.move_pointer(LOG.stream, Pointer(), revision=revision)


async def test_a_checkpoint_that_holds_a_voided_message_is_not_used_by_its_service(harness: HostedServices) -> None:
    hosting = await harness.host(scheduler(), agent(), *bystanders())
    shell = await until_leading(hosting.shells[:1])
    seq = await harness.join("n1", "n2")
    await until(lambda: shell.core.released == {"n1", "n2"})  # type: ignore[attr-defined]
    await take_checkpoint(harness)
    await hosting.end()
    draft = Draft("log", str(seq), "voided", Voided(seq=seq, service="scheduler"))
    await harness.store("operator", draft, request_fact_id("void", str(seq)))
    again = (await harness.host(scheduler(Releasing))).shells[0]
    await until(lambda: again.leading)
    assert again.core.states_folded == 0  # type: ignore[attr-defined]
    assert set(again.core.joined) == {"n1"}  # type: ignore[attr-defined]
