"""A whole simulated cluster whose kubelets pick the GPUs: the harness runs on counts, and its invariants hold."""

import pytest

from kit.invariants import violations
from muster.agent.core.behaviour import Behaviour
from muster.agent.core.fleet import Fleet, regular_fleet
from muster.core import Fact, after
from muster.schemas.facts.job import PodsStarted
from muster.schemas.facts.queue import QueueSpec
from muster.schemas.job import Job, JobSpec, Phase, Slot, TaskGroup
from muster.schemas.labels import RUN_S
from muster.simulator.engine import START, Engine, join_nodes, set_queue
from muster.simulator.load.trace import job_of

NODES, GPUS = 4, 8


def fleet(*, kubelet_picks: bool) -> Fleet:
    return regular_fleet(
        nodes=NODES, gpus_per_node=GPUS, gpu_model="H100", cpu_milli=128_000, memory_mib=1_048_576, rack_size=8,
        racks_per_block=8, kubelet_picks=kubelet_picks, share_milli=(250, 500),
    )  # fmt: skip


def jobs() -> list[Job]:
    """Whole GPUs, gangs over several nodes, and parts, more than fit at once."""
    made = []
    for number in range(60):
        shape = ({"gpus": 1 + number % 8}, {"gpu_milli": 200 + 40 * (number % 7)}, {"gpus": 4, "replicas": 3})[
            number % 3
        ]
        group = TaskGroup(cpu_milli=100, memory_mib=64, **shape)
        labels = {RUN_S: str(20 + 7 * (number % 11)), "sim.muster.dev/exit-code": "0"}
        spec = JobSpec(name=f"j{number}", team="q", task_groups=(group,), labels=labels)
        made.append(job_of(spec, after(START, float(number)), key=f"j{number}"))
    return made


def run(*, kubelet_picks: bool) -> tuple[Engine, list[Fact]]:
    log: list[Fact] = []
    behaviour = Behaviour(seed=3, start_s=1.0)
    world = Engine(fleet(kubelet_picks=kubelet_picks), behaviour=behaviour, start=START, watch=log.append)
    join_nodes(world)
    set_queue(world, QueueSpec(name="q"), at="queues[0]")
    for _ in world.moments(after(START, 1_500), arrivals=world.arrivals((one.submitted_at, one) for one in jobs())):
        pass
    return world, log


@pytest.fixture(scope="module")
def by_count() -> tuple[Engine, list[Fact]]:
    return run(kubelet_picks=True)


def test_every_job_ends_and_no_more_is_held_than_there_is(by_count: tuple[Engine, list[Fact]]) -> None:
    world, log = by_count
    assert violations(log, accepted=[one.id for one in jobs()], all_ended=True) == []
    assert {record.phase for record in world.scheduler.state.jobs.records.values()} == {Phase.SUCCEEDED}
    assert world.scheduler.state.ledger.misfits == 0


def test_every_placement_is_a_count(by_count: tuple[Engine, list[Fact]]) -> None:
    slots = [slot for fact in by_count[1] if fact.name == "placed" for slot in fact.payload.slots]
    assert slots
    assert all(slot.gpus and not slot.devices for slot in slots)
    assert {slot.gpu_milli for slot in slots} == {250, 500, 1000}


def test_no_device_is_picked_twice(by_count: tuple[Engine, list[Fact]]) -> None:
    """Of what the agent saw: whole devices, while their jobs ran."""
    held: dict[str, str] = {}
    slots: dict[str, tuple[Slot, ...]] = {}
    for fact in by_count[1]:
        if fact.name == "placed":
            slots[fact.subject_id] = fact.payload.slots
        if isinstance(fact.payload, PodsStarted):
            for slot, uuids in zip(slots[fact.subject_id], fact.payload.device_uuids, strict=True):
                assert len(set(uuids)) == slot.gpus
                if slot.gpu_milli == 1000:
                    assert not held.keys() & set(uuids)
                    held.update(dict.fromkeys(uuids, fact.subject_id))
        if fact.name == "succeeded":
            held = {uuid: job_id for uuid, job_id in held.items() if job_id != fact.subject_id}


def test_counts_place_as_well_as_devices_do(by_count: tuple[Engine, list[Fact]]) -> None:
    """What a node declares inside itself is all that is lost."""
    logs = by_count[1], run(kubelet_picks=False)[1]
    counted, picked = (max(fact.time for fact in log if fact.name == "succeeded") - START for log in logs)
    assert counted <= 1.1 * picked
