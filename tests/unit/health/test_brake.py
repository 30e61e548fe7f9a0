"""The brake, planned maintenance, lemons: where health holds itself back, and where it looks further than one fault."""

from dataclasses import replace

from kit.health import CONFIG, VirtualHealth, device, uuid
from muster.core import after
from muster.health.core.config import BrakeConfig, LemonConfig
from muster.schemas.facts.health import BrakeResetRequested, BrakeTripped, FaultObserved, HealthPhase
from muster.schemas.facts.node import NodeLeft, NodeLost, Withheld, WithholdRequested, WithholdWithdrawn
from muster.schemas.telemetry import ExporterState


def fleet(count: int = 20, **config: object) -> VirtualHealth:
    harness = VirtualHealth(config=replace(CONFIG, brake=BrakeConfig(share=0.1, nodes_min=3, window_s=600.0), **config))  # type: ignore[arg-type]
    harness.join(*(f"n{index:02}" for index in range(count)))
    for index in range(count):
        harness.page(f"n{index:02}")
    harness.now = after(harness.now, 10)
    return harness


def break_all(harness: VirtualHealth, count: int, *, first: int = 0) -> None:
    for index in range(first, first + count):
        harness.page(f"n{index:02}", device(f"n{index:02}", 0, xid=79))


def reset(harness: VirtualHealth, *, skip: bool = False) -> None:
    harness.write(
        "federation", "health", "brake", "brake-reset-forwarded", BrakeResetRequested(principal="ann", skip=skip)
    )
    harness.settle()


# --- brake ---------------------------------------------------------------------------------------------------------


def test_as_many_as_may_be_are_suspected() -> None:
    harness = fleet()
    break_all(harness, 3)
    harness.settle()
    assert len(harness.facts("suspect")) == 3
    assert not harness.facts("brake-tripped")


def test_one_more_trips_it_and_nothing_further_is_done() -> None:
    harness = fleet()
    harness.answers = False
    break_all(harness, 3)
    harness.settle()
    break_all(harness, 1, first=3)
    first = len(harness.log)
    harness.settle()
    assert harness.names(first) == ["fault-observed", "brake-tripped"]
    tripped = harness.log[-1].payload
    assert isinstance(tripped, BrakeTripped)
    assert (tripped.nodes, tripped.most, tripped.fleet) == (4, 3, 20)
    for node in ("n00", "n01", "n02"):
        withheld = next(fact.payload for fact in harness.facts("withhold-requested") if fact.subject_id == node)
        assert isinstance(withheld, WithholdRequested)
        harness.write("scheduler", "node", node, "withheld", Withheld(request_id=withheld.request_id))
    assert harness.settle() == [], "no repair either"


def test_a_whole_fleet_that_looks_broken_is_left_as_it_is() -> None:
    harness = fleet()
    break_all(harness, 20)
    harness.settle()
    assert not harness.facts("withhold-requested")
    assert len(harness.facts("brake-tripped")) == 1


def test_faults_that_come_slowly_do_not_trip_it() -> None:
    harness = fleet()
    for index in range(12):
        break_all(harness, 1, first=index)
        harness.settle()
        harness.now = after(harness.now, 300)
    assert len(harness.facts("healthy")) == 12
    assert not harness.facts("brake-tripped")


def test_only_a_person_resets_it_and_then_what_waited_is_done() -> None:
    harness = fleet()
    break_all(harness, 4)
    harness.settle()
    harness.now = after(harness.now, 86_400)
    assert harness.settle() == []
    harness.now = after(harness.now, 1)
    reset(harness)
    assert len(harness.facts("brake-reset")) == 1
    assert len(harness.facts("suspect")) == 0, "all four at once are still too many"
    assert len(harness.facts("brake-tripped")) == 2


def test_a_person_may_have_what_waited_dropped() -> None:
    harness = fleet()
    break_all(harness, 20)
    harness.settle()
    reset(harness, skip=True)
    assert not harness.facts("suspect")
    harness.now = after(harness.now, 1_000)
    harness.page("n05", device("n05", 0, xid=95))
    harness.settle()
    assert {fact.subject_id for fact in harness.facts("suspect")} == {uuid("n05", 0)}


def test_it_stays_tripped_for_who_takes_over() -> None:
    harness = fleet()
    break_all(harness, 20)
    harness.settle()
    assert harness.recovered().core.verdicts.state.brake.tripped is not None


# --- maintenance ---------------------------------------------------------------------------------------------------


def maintained(harness: VirtualHealth, node: str, *, is_over: bool = False) -> None:
    if is_over:
        harness.write(
            "upgrader", "node", node, "withhold-withdrawn", WithholdWithdrawn(request_id="up-1", after_withheld=True)
        )
        return
    harness.write("upgrader", "node", node, "withhold-requested", WithholdRequested(request_id="up-1"))
    harness.write("scheduler", "node", node, "withheld", Withheld(request_id="up-1"))


def test_what_the_upgrader_does_to_a_node_is_no_fault() -> None:
    harness = fleet()
    maintained(harness, "n01")
    harness.pages("n01", exporter=ExporterState.DOWN, seconds=300)
    harness.page("n01", device("n01", 0, xid=79))
    harness.settle()
    assert not harness.facts("fault-observed")


def test_until_the_node_is_the_upgraders_faults_there_are_faults() -> None:
    harness = fleet()
    harness.write("upgrader", "node", "n01", "withhold-requested", WithholdRequested(request_id="up-1"))
    harness.page("n01", device("n01", 0, xid=79))
    harness.settle()
    assert harness.facts("suspect")


def test_what_lasts_beyond_the_upgrade_is_a_fault_then() -> None:
    harness = fleet()
    maintained(harness, "n01")
    harness.pages("n01", exporter=ExporterState.DOWN, seconds=300)
    maintained(harness, "n01", is_over=True)
    harness.settle()
    assert [fact.subject_id for fact in harness.facts("suspect")] == ["n01"]


def test_a_node_that_is_lost_while_it_is_upgraded_is_no_lemon() -> None:
    harness = fleet()
    maintained(harness, "n01")
    harness.write("agent", "node", "n01", "lost", NodeLost())
    unit = harness.unit("node", "n01")
    assert unit is not None
    assert not unit.incidents


# --- history -------------------------------------------------------------------------------------------------------


def test_a_node_that_is_ill_far_more_often_than_others_is_a_lemon() -> None:
    harness = fleet(lemon=LemonConfig(incidents=4, window_s=14 * 86_400.0, ratio=4.0))
    for turn in range(4):
        harness.page("n07", device("n07", turn, xid=79, xid_counts=((79, 1),)))
        harness.settle()
        harness.now = after(harness.now, 7_200)
    codes = [fact.payload.code for fact in harness.facts("fault-observed") if isinstance(fact.payload, FaultObserved)]
    assert codes.count("lemon") == 1
    assert harness.phase("node", "n07") is HealthPhase.HEALTHY, "it was replaced, checked and given back"
    harness.page("n07", device("n07", 6, xid=79, xid_counts=((79, 1),)))
    harness.settle()
    codes = [fact.payload.code for fact in harness.facts("fault-observed") if isinstance(fact.payload, FaultObserved)]
    assert codes.count("lemon") == 1, "once a week is enough"


def test_where_every_node_is_ill_often_none_is_a_lemon() -> None:
    harness = fleet(count=4, lemon=LemonConfig(incidents=4, window_s=14 * 86_400.0, ratio=4.0))
    for turn in range(5):
        for node in ("n00", "n01", "n02", "n03"):
            harness.page(node, device(node, turn, xid=79, xid_counts=((79, 1),)))
            harness.settle()
            harness.now = after(harness.now, 7_200)
    codes = [fact.payload.code for fact in harness.facts("fault-observed") if isinstance(fact.payload, FaultObserved)]
    assert "lemon" not in codes


def test_nothing_is_remembered_of_a_node_that_left() -> None:
    harness = fleet()
    break_all(harness, 2)
    harness.answers = False
    harness.settle()
    for node in ("n00", "n01"):
        harness.write("agent", "node", node, "left", NodeLeft())
    state = harness.core.verdicts.state
    assert not state.units
    assert not state.ill
    assert not state.requests
    assert state.incidents == 0
