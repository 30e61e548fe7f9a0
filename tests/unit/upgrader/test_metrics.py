"""What the metrics tell of campaigns."""

from typing import cast

from nats.aio.client import Client
from prometheus_client import REGISTRY

from kit.log import CLUSTER
from kit.upgrader import DAY, VirtualUpgrader, a_campaign
from muster.bus.service import LeaderHandle
from muster.upgrader.app import CampaignsSink


def sample(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(f"muster_upgrade_{name}", labels) or 0.0


async def test_campaigns_and_their_nodes_are_counted_by_state() -> None:
    world, sink, seen = VirtualUpgrader(3, action_s=540, check_s=60), CampaignsSink(CLUSTER), 0

    async def look() -> None:
        nonlocal seen
        facts, seen = world.log[seen:], len(world.log)
        await sink.after_fold(facts, last_seq=seen, now=world.now)

    await sink.open(world.core, cast("Client", None), LeaderHandle())
    await look()
    before = sample("turns_total", outcome="done"), sample("turn_seconds_sum"), sample("gpu_hours_lost_total")
    world.bad["n002"] = "action"
    world.start(a_campaign())
    world.advance(60)
    await look()
    assert (sample("campaigns", state="going"), sample("campaigns", state="stopped")) == (1, 0)
    assert (sample("nodes", step="upgrading"), sample("nodes", step="planned")) == (1, 2)
    world.advance(DAY)
    await look()
    assert (sample("campaigns", state="going"), sample("campaigns", state="stopped")) == (0, 0), "nothing is left to do"
    assert sample("turns_total", outcome="done") == before[0] + 2
    assert sample("turns_total", outcome="failed") >= 1
    assert sample("turn_seconds_sum") == before[1] + 600 + 600 + 540
    assert sample("gpu_hours_lost_total") > before[2]
    await sink.close()
    assert REGISTRY.get_sample_value("muster_upgrade_campaigns", {"state": "going"}) is None
