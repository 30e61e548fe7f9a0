"""Services hosted over a real nats-server, each with the rights of its own user."""

import asyncio
import json
import urllib.request

import pytest

from kit.ports import own_port
from kit.stack.hosted import HostedServices, until_leading
from kit.toys import Releasing, agent, scheduler
from kit.waiting import until
from muster.bus.fold import PoisonedError
from muster.bus.process import DisconnectedError
from muster.bus.shell import Shell
from muster.core.fact import Draft
from muster.schemas.facts.control import Voided
from muster.schemas.ids import request_fact_id

pytestmark = pytest.mark.connected


def released(shell: Shell) -> set[str]:
    assert isinstance(shell.core, Releasing)
    return shell.core.released


async def test_services_in_one_process_work_together_and_decode_a_fact_once(harness: HostedServices) -> None:
    hosting = await harness.host(scheduler(), agent("n1", "n2", "n3"))
    first = hosting.shells[0]
    await until(lambda: first.leading and released(first) == {"n1", "n2", "n3"})
    await until(lambda: {shell.folded_seq for shell in hosting.shells} == {first.folded_seq})
    assert first.log.counters.decoded == first.folded_seq  # type: ignore[attr-defined]


async def test_a_follower_takes_over_when_the_leader_leaves_and_decides_what_it_left(harness: HostedServices) -> None:
    first, second = await harness.host(scheduler()), await harness.host(scheduler())
    leader = await until_leading([*first.shells, *second.shells])
    await harness.join("n1")
    await until(lambda: released(leader) == {"n1"})
    leaving, staying = (first, second) if leader in first.shells else (second, first)
    heir = staying.shells[0]
    assert not heir.leading
    await leaving.end()
    await harness.join("n2")
    await until(lambda: heir.leading and released(heir) == {"n1", "n2"})
    assert len(await harness.facts("released")) == 2


async def test_a_service_whose_connection_is_closed_for_good_ends_its_process(harness: HostedServices) -> None:
    hosting = await harness.host(scheduler())
    await until_leading(hosting.shells)
    waiting = asyncio.create_task(hosting.process.wait(asyncio.Event()))
    await hosting.process._connections["scheduler"].close()
    with pytest.raises(DisconnectedError, match="scheduler"):
        await asyncio.wait_for(waiting, 10)


async def test_a_lone_poisoned_service_ends_its_process(harness: HostedServices) -> None:
    hosting = await harness.host(scheduler(lambda: Releasing(poison="n1")))
    await harness.join("n1")
    with pytest.raises(PoisonedError, match="muster log skip"):
        await asyncio.wait_for(hosting.process.wait(asyncio.Event()), 10)


async def test_a_poisoned_service_stands_still_beside_others_until_an_operator_voids_the_fact(
    harness: HostedServices,
) -> None:
    hosting = await harness.host(scheduler(lambda: Releasing(poison="n1")), agent())
    poisoned, other = hosting.shells
    seq = await harness.join("n0", "n1")
    newest = await harness.join("n2")
    stopped = hosting.process._conditions[0]
    await until(lambda: stopped.stopped)
    assert f"at sequence {seq}:" in stopped.stopped
    well, report = hosting.process._health()
    assert not well, report
    await until(lambda: other.leading and other.folded_seq >= newest)
    draft = Draft("log", str(seq), "voided", Voided(seq=seq, service="scheduler"))
    await harness.store("operator", draft, request_fact_id("void", str(seq)))
    await until(lambda: poisoned.leading and released(poisoned) == {"n0", "n2"})
    assert hosting.process._health()[0]
    await until(lambda: {"n0", "n1", "n2"} == other.core.joined)  # type: ignore[attr-defined]


async def test_an_idle_service_survives_a_restart_of_the_broker(harness: HostedServices) -> None:
    hosting = await harness.host(scheduler())
    shell = await until_leading(hosting.shells)
    await asyncio.to_thread(harness.server.restart)
    harness.clients.clear()
    await until(lambda: shell.log._reader.is_connected)  # type: ignore[attr-defined]
    await harness.join("n1")
    await until(lambda: released(shell) == {"n1"})
    assert hosting.process._conditions[0].stopped == ""


async def test_the_door_tells_metrics_and_health(harness: HostedServices) -> None:
    harness.metrics_port = own_port()
    hosting = await harness.host(scheduler())
    await until_leading(hosting.shells)

    def get(path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{harness.metrics_port}{path}", timeout=5) as answer:
            text: str = answer.read().decode()
            return text

    health = json.loads(await asyncio.to_thread(get, "/healthz"))
    assert health["services"][0]["service"] == "scheduler"
    assert health["services"][0]["leading"]
    metrics = await asyncio.to_thread(get, "/metrics")
    assert 'muster_leading{log="LOG_atlas",service="scheduler"} 1.0' in metrics
    assert 'muster_log_batches_total{log="LOG_atlas"}' in metrics
