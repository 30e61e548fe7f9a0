"""Who holds which device, as the log says."""

from muster.schemas.facts.job import JobQueued, JobResized, QueuedReason
from muster.schemas.facts.node import NodeLeft, NodeLost, NodeReturned
from muster.telemetry.core.holdings import Holdings
from unit.telemetry.house import TelemetryHouse, slot, uuid


def test_devices_belong_to_a_job_from_its_placement_to_the_exit_of_its_pods() -> None:
    house = TelemetryHouse()
    house.join("n1", "n2")
    job = house.place(0, slot("n1", 0, 1), slot("n2", 7))
    assert house.core.holdings.holders("n1") == {uuid("n1", 0): {job: 1000}, uuid("n1", 1): {job: 1000}}
    assert house.core.holdings.holders("n2") == {uuid("n2", 7): {job: 1000}}
    assert job in house.core.holdings.holding
    house.exit(job)
    assert house.core.holdings.holders("n1") == house.core.holdings.holders("n2") == {}
    assert job not in house.core.holdings.holding, "a page that still names it is behind"


def test_a_device_may_be_shared() -> None:
    house = TelemetryHouse()
    house.join("n1")
    first, second = house.place(0, slot("n1", 3, milli=300)), house.place(1, slot("n1", 3, milli=500))
    assert house.core.holdings.holders("n1") == {uuid("n1", 3): {first: 300, second: 500}}


def test_where_the_kubelet_picks_what_was_observed_counts() -> None:
    house = TelemetryHouse()
    house.join("n1", "n2")
    job = house.place(0, slot("n1", gpus=1), slot("n2", gpus=2), picked=(("GPU-a",), ("GPU-b", "GPU-c")))
    assert house.core.holdings.holders("n1") == {"GPU-a": {job: 1000}}
    assert house.core.holdings.holders("n2") == {"GPU-b": {job: 1000}, "GPU-c": {job: 1000}}


def test_a_job_that_is_queued_again_holds_nothing() -> None:
    house = TelemetryHouse()
    house.join("n1")
    job = house.place(0, slot("n1", 0))
    queued = JobQueued(queue="other", attempt=2, reason=QueuedReason.NODE_LOST)
    house.write("scheduler", "job", job, "queued", queued)
    assert house.core.holdings.holders("n1") == {}
    assert house.core.holdings.jobs[job].queue == "other"


def test_a_resized_job_has_its_new_slots_since_it_has_any() -> None:
    house = TelemetryHouse()
    house.join("n1", "n2")
    job = house.place(0, slot("n1", 0), slot("n2", 0))
    house.now_s = 100.0
    house.write("scheduler", "job", job, "resized", JobResized(attempt=1, slots=(slot("n1", 0),)))
    assert house.core.holdings.holders("n2") == {}
    assert house.core.holdings.jobs[job].held_since < house.now


def test_nodes_come_and_go() -> None:
    house = TelemetryHouse()
    house.join("n1")
    house.write("agent", "node", "n1", "lost", NodeLost())
    assert house.core.holdings.nodes["n1"].is_lost
    house.write("agent", "node", "n1", "returned", NodeReturned())
    assert not house.core.holdings.nodes["n1"].is_lost
    job = house.place(0, slot("n1", 0))
    house.write("agent", "node", "n1", "left", NodeLeft())
    assert house.core.holdings.nodes["n1"].description is None
    house.end(job)
    assert house.core.holdings.nodes == {}


def test_what_is_said_of_a_job_that_is_not_known_is_counted() -> None:
    house = TelemetryHouse()
    house.exit("X" * 26)
    assert house.core.holdings.anomalies == {"pods-exited": 1}
    assert Holdings().holders("nowhere") == {}
