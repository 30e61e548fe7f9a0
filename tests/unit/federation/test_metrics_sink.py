"""What the federation's metrics show."""

from prometheus_client import REGISTRY

from kit.federation import job
from kit.federation_clusters import LEASED, LOST_AFTER_S, MARGIN_S, FederatedClusters
from muster.bus.service import LeaderHandle
from muster.federation.app import FederationSink

SEAT = LeaderHandle(lambda: None, lambda: True)


def value(name: str, **labels: str) -> float | None:
    return REGISTRY.get_sample_value(f"muster_federation_{name}", labels)


async def test_clusters_jobs_that_wait_and_moves_are_shown_while_it_leads() -> None:
    world = FederatedClusters(LEASED, policy={"teams": [{"team": "physics", "gpus": 0}]})
    sink = FederationSink()
    await sink.open(world.core, None, SEAT)  # type: ignore[arg-type]
    moved, lost = (value("job_moves_total", how="dropped") or 0), (value("cluster_losses_total", cluster="east") or 0)
    world.submit_all(job("one"), job("held", team="physics"))
    world.summary("east", number=1)
    world.summary("west", number=1)
    world.advance(LOST_AFTER_S + MARGIN_S - 1)
    world.summary("west", number=2, contact=1, gpu_milli_total=8_000, gpu_milli_free=6_000, jobs_queued=3)
    world.advance(1)
    await sink.after_fold(world.log, last_seq=len(world.log), now=world.now)
    assert value("cluster_state", cluster="east", state="lost") == 1
    assert value("cluster_state", cluster="east", state="active") == 0
    assert (value("cluster_jobs", cluster="west"), value("cluster_gpus", cluster="west")) == (1, 1)
    assert value("cluster_losses_total", cluster="west") == 0, "before the first: a rate sees it from there"
    assert (value("cluster_gpus_there", cluster="west"), value("cluster_gpus_free", cluster="west")) == (8, 6)
    assert value("cluster_jobs_queued", cluster="west") == 3
    assert value("jobs_waiting", reason="team-limit") == 1
    assert (value("cluster_heard_timestamp_seconds", cluster="west") or 0) > 0
    assert value("job_moves_total", how="dropped") == moved + 1
    assert value("cluster_losses_total", cluster="east") == lost + 1
    await sink.close()
    assert value("cluster_jobs", cluster="west") is None
