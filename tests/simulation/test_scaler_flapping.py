"""Devices and nodes come and go with the load, but do not flap, whatever the load does."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kit.log import START
from kit.scaled_cluster import FABRIC, MODEL, ScaledCluster, composable
from muster.core import after, seconds_between
from muster.core.settings import ModelSettings, ScalingSettings
from muster.scaler.core.groups import ScalingConfig
from muster.schemas.base import Payload
from muster.schemas.facts.job import JobUnschedulable

AFTER_LOAD_S = 1_500.0


@dataclass(frozen=True)
class Arrival:
    """A job that comes so many seconds after the one before."""

    gap_s: float
    gpus: int
    run_s: float
    cores: int


@dataclass(frozen=True)
class Rules:
    """What the group and the scaler are told to keep. spare: devices of the pool beyond those that every job needs."""

    gpu_idle_s: float
    node_unneeded_s: float
    warm: int
    gpus_min: int
    nodes_min: int
    spare: int

    @property
    def pool(self) -> int:
        """The largest job has 4, while two other nodes keep their least."""
        return 4 + 2 * self.gpus_min + self.spare


ARRIVALS = st.lists(
    st.builds(
        Arrival,
        gap_s=st.sampled_from([0.0, 1.0, 15.0, 40.0, 61.0, 120.0]),
        gpus=st.integers(0, 4),
        run_s=st.sampled_from([1.0, 20.0, 59.0, 150.0]),
        cores=st.sampled_from([1, 2, 6]),
    ),
    min_size=1,
    max_size=14,
)
RULES = st.builds(
    Rules,
    gpu_idle_s=st.sampled_from([30.0, 60.0, 120.0]),
    node_unneeded_s=st.sampled_from([20.0, 60.0, 150.0]),
    warm=st.integers(0, 2),
    gpus_min=st.integers(0, 1),
    nodes_min=st.integers(0, 2),
    spare=st.integers(0, 4),
)


def cluster_of(rules: Rules, *, racing: bool = False) -> ScaledCluster:
    group = composable(warm_gpus=rules.warm, gpus_min=rules.gpus_min, nodes_min=rules.nodes_min)
    settings = ScalingSettings(
        groups=(group,),
        models={MODEL: ModelSettings(attach_s=8.0, detach_s=5.0)},
        gpu_idle_s=rules.gpu_idle_s,
        node_unneeded_s=rules.node_unneeded_s,
        delay_after_add_s=30.0,
        delay_after_failure_s=20.0,
        withhold_s=10.0,
    )
    return ScaledCluster(
        ScalingConfig(settings, frozenset({FABRIC})), nodes=max(1, rules.nodes_min), pool=rules.pool, racing=racing
    )


def play(
    rules: Rules,
    arrivals: list[Arrival],
    *,
    restarts: Sequence[float] = (),
    looks: Sequence[float] = (),
    racing: bool = False,
) -> tuple[ScaledCluster, float]:
    """Run the load, and then long enough for everything to come to rest.

    restarts: when another scaler takes over. looks: when everybody decides although nothing happened.
    """
    cluster, second = cluster_of(rules, racing=racing), 0.0
    for index, one in enumerate(arrivals):
        second += one.gap_s
        cluster.at(
            after(START, second),
            lambda one=one, index=index: cluster.submit(
                f"job-{index}", gpus=one.gpus, run_s=one.run_s, cpu_milli=1_000 * one.cores
            ),
        )
    for moment in restarts:
        cluster.at(after(START, moment), cluster.restart_scaler)
    for moment in looks:  # once all that happens at the moment has happened
        cluster.at(after(START, moment), lambda: cluster.at(cluster.now, lambda: cluster.step(ask_all=True)))
    second += sum(one.run_s for one in arrivals) + 40.0 * len(arrivals) + AFTER_LOAD_S
    cluster.advance_to(after(START, second))
    return cluster, second


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(RULES, ARRIVALS)
def test_no_load_makes_devices_or_nodes_flap_and_every_job_runs(rules: Rules, arrivals: list[Arrival]) -> None:
    """What the cluster checks at every step, and the bound on round trips over the whole time."""
    cluster, second = play(rules, arrivals)
    assert not cluster.waiting, f"jobs that never ran: {cluster.said}"
    assert not cluster.running
    for device in cluster.devices.values():
        assert len(device.spells) <= second / rules.gpu_idle_s
        assert all(end - start >= rules.gpu_idle_s - 1e-6 for start, end in device.spells)
    assert all(spell >= rules.node_unneeded_s for spell in cluster.node_spells)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(RULES, ARRIVALS)
def test_after_the_load_only_what_is_to_be_kept_is_left(rules: Rules, arrivals: list[Arrival]) -> None:
    cluster, _ = play(rules, arrivals)
    attached = sum(len([uuid for uuid in uuids if uuid]) for uuids in cluster.nodes.values())
    assert attached <= max(rules.warm, rules.gpus_min * len(cluster.nodes))
    kept = rules.nodes_min + (attached > 0 or rules.warm > 0)
    assert len(cluster.nodes) <= max(kept, rules.nodes_min + attached)
    assert len(cluster.scaler.state.choices.open) == 0


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(RULES, ARRIVALS)
def test_a_job_that_gets_a_device_while_it_is_chosen_to_go_keeps_it(rules: Rules, arrivals: list[Arrival]) -> None:
    cluster, _ = play(rules, arrivals, racing=True)
    assert not cluster.waiting
    assert not cluster.running
    assert len(cluster.scaler.state.choices.open) == 0


@settings(max_examples=15, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(RULES, ARRIVALS, st.lists(st.integers(1, 400), min_size=1, max_size=4))
def test_a_scaler_that_takes_over_from_a_checkpoint_goes_on_as_the_one_before(
    rules: Rules, arrivals: list[Arrival], restarts: list[int]
) -> None:
    undisturbed, _ = play(rules, arrivals)
    restarted, _ = play(rules, arrivals, restarts=[second + 0.5 for second in restarts])
    assert told(restarted) == told(undisturbed)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(RULES, ARRIVALS)
def test_looking_more_often_finds_nothing_that_was_not_found_in_time(rules: Rules, arrivals: list[Arrival]) -> None:
    """A scaler that is asked every few seconds chooses what one does that is asked when it said."""
    undisturbed, _ = play(rules, arrivals)
    looked_at, _ = play(rules, arrivals, looks=[2.5 * step for step in range(400)])
    assert told(looked_at) == told(undisturbed)


def told(cluster: ScaledCluster) -> list[tuple[int, str, str, Payload]]:
    """What the scaler did, and when; that it did nothing may be said sooner by one that has not looked before."""
    said = [fact for fact in cluster.log if fact.writer == "scaler" and fact.name != "nothing-chosen"]
    return [(fact.time, fact.subject_id, fact.name, fact.payload) for fact in said]


def test_a_steady_trickle_of_short_jobs_keeps_one_device_and_moves_none() -> None:
    rules = Rules(gpu_idle_s=60.0, node_unneeded_s=60.0, warm=0, gpus_min=0, nodes_min=1, spare=0)
    arrivals = [Arrival(gap_s=30.0, gpus=1, run_s=5.0, cores=1)] * 20
    cluster, _ = play(rules, arrivals)
    assert cluster.said["gpu-attach-chosen"] == 1
    assert cluster.said["gpu-remove-chosen"] == 1


def test_a_load_that_comes_just_after_devices_went_costs_one_round_trip_each_time_and_no_more() -> None:
    rules = Rules(gpu_idle_s=60.0, node_unneeded_s=500.0, warm=0, gpus_min=0, nodes_min=1, spare=0)
    arrivals = [Arrival(gap_s=100.0, gpus=1, run_s=5.0, cores=1)] * 10
    cluster, _ = play(rules, arrivals)
    assert cluster.said["gpu-attach-chosen"] == cluster.said["gpu-remove-chosen"] == 10


def test_a_warm_device_spares_that_load_every_round_trip() -> None:
    rules = Rules(gpu_idle_s=60.0, node_unneeded_s=500.0, warm=1, gpus_min=0, nodes_min=1, spare=0)
    arrivals = [Arrival(gap_s=100.0, gpus=1, run_s=5.0, cores=1)] * 10
    cluster, _ = play(rules, arrivals)
    assert cluster.said["gpu-attach-chosen"] == 1
    assert cluster.said["gpu-remove-chosen"] == 0


@pytest.mark.parametrize("late_s", [0.0, 0.5, 1.0, 2.0, 4.0])
def test_jobs_that_come_while_a_device_goes_back_get_others_at_once(late_s: float) -> None:
    """What is on its way out is no illness of the fleet, which might heal if one waited."""
    rules = Rules(gpu_idle_s=60.0, node_unneeded_s=500.0, warm=0, gpus_min=0, nodes_min=1, spare=0)
    one = Arrival(gap_s=0.0, gpus=1, run_s=5.0, cores=1)
    alone, _ = play(rules, [one])
    (gone,) = [fact for fact in alone.log if fact.name == "gpu-remove-chosen"]
    second = seconds_between(START, gone.time) + late_s
    cluster, _ = play(rules, [one, Arrival(gap_s=second, gpus=1, run_s=5.0, cores=1), one])
    reasons = [fact.payload.reason for fact in cluster.log if isinstance(fact.payload, JobUnschedulable)]
    assert set(reasons) == {"gpu"}
    placed = [seconds_between(START, fact.time) for fact in cluster.log if fact.name == "placed"]
    assert len(placed) == 3
    assert max(placed) - second <= placed[0] + cluster.config.model(MODEL).detach_s
