"""From a fault to health again: quarantine, repair, checks, and evidence."""

from dataclasses import replace

import pytest

from kit.health import CONFIG, START, VirtualHealth, device, uuid
from muster.core import after
from muster.core.virtual import recover
from muster.health.core.signals import FaultSignal
from muster.schemas.facts.health import HealthMoved, HealthPhase, VerifyRequested
from muster.schemas.facts.node import NodeLeft, RunningJobs, Withheld, WithholdRequested, WithholdWithdrawn
from muster.schemas.facts.operations import CheckOutcome, NodeAction, NodeActionRequested
from muster.schemas.telemetry import ExporterState, WatchLevel, WatchReading


@pytest.fixture
def harness() -> VirtualHealth:
    one = VirtualHealth()
    one.join("a", "b", "c", "d")
    for node in ("a", "b", "c", "d"):
        one.page(node)
    one.now = after(one.now, 10)
    return one


def test_a_gpu_off_the_bus_takes_its_node_through_repair_and_checks_and_back(harness: VirtualHealth) -> None:
    harness.page("a", device("a", 3, xid=79))
    first = len(harness.log)
    harness.settle()
    assert harness.names(first) == [
        "fault-observed", "suspect", "withhold-requested", "withheld", "quarantined", "repairing", "action-requested",
        "action-ended", "verifying", "checks-requested", "checks-reported", "healthy", "withhold-withdrawn",
    ]  # fmt: skip
    withhold = next(fact.payload for fact in harness.log if fact.name == "withhold-requested")
    assert isinstance(withhold, WithholdRequested)
    assert withhold.running is RunningJobs.REQUEUE
    action = next(fact.payload for fact in harness.log if fact.name == "action-requested")
    assert isinstance(action, NodeActionRequested)
    assert action.action is NodeAction.REBOOT
    withdrawn = harness.log[-1].payload
    assert isinstance(withdrawn, WithholdWithdrawn)
    assert withdrawn.after_withheld


def test_what_withholding_waits_for_delays_every_further_step(harness: VirtualHealth) -> None:
    harness.answers = False
    harness.page("a", device("a", 3, xid=79))
    harness.settle()
    assert harness.phase("node", "a") is HealthPhase.SUSPECT
    assert not harness.facts("action-requested")


def test_a_fault_of_one_device_takes_that_device_alone(harness: VirtualHealth) -> None:
    harness.answers = False
    harness.page("a", device("a", 3, xid=48))
    harness.settle()
    assert harness.phase("device", uuid("a", 3)) is HealthPhase.SUSPECT
    assert harness.phase("node", "a") is HealthPhase.HEALTHY


def test_a_fault_that_ends_after_the_job_lets_it_finish(harness: VirtualHealth) -> None:
    harness.answers = False
    harness.page("a", device("a", 1, xid=94))
    harness.settle()
    (withhold,) = [fact.payload for fact in harness.facts("withhold-requested")]
    assert isinstance(withhold, WithholdRequested)
    assert withhold.running is RunningJobs.FINISH


def test_a_worse_fault_asks_more_of_those_who_still_run_there(harness: VirtualHealth) -> None:
    harness.answers = False
    harness.page("a", device("a", 1, xid=94))
    harness.settle()
    harness.now = after(harness.now, 10)
    harness.page("a", device("a", 1, xid=48))
    harness.settle()
    payloads = [fact.payload for fact in harness.facts("withhold-requested")]
    assert [one.running for one in payloads if isinstance(one, WithholdRequested)] == ["finish", "requeue"]
    assert len({one.request_id for one in payloads if isinstance(one, WithholdRequested)}) == 1


def test_checks_that_fail_lead_to_a_more_thorough_repair_and_then_to_a_person(harness: VirtualHealth) -> None:
    harness.passes = CheckOutcome.FAIL
    harness.page("a", device("a", 3, xid=79))
    harness.settle()
    actions = [fact.payload.action for fact in harness.facts("action-requested")]  # type: ignore[attr-defined]
    assert actions == [NodeAction.REBOOT, NodeAction.REPLACE]
    unit = harness.unit("node", "a")
    assert unit is not None
    assert unit.needs_person
    assert unit.phase is HealthPhase.QUARANTINED
    assert not harness.facts("withhold-withdrawn")


def test_checks_that_could_not_run_are_no_evidence(harness: VirtualHealth) -> None:
    harness.passes = CheckOutcome.CANNOT_RUN
    harness.page("a", device("a", 3, xid=79))
    harness.settle()
    assert not harness.facts("healthy")


def test_a_device_that_a_reset_does_not_help_becomes_its_nodes_matter(harness: VirtualHealth) -> None:
    harness.passes = CheckOutcome.FAIL
    harness.page("a", device("a", 3, xid=48))
    harness.answers = True
    harness.settle()
    actions = [(fact.payload.action, fact.payload.device) for fact in harness.facts("action-requested")]  # type: ignore[attr-defined]
    assert actions[0] == (NodeAction.RESET, uuid("a", 3))
    assert actions[1] == (NodeAction.REBOOT, "")
    assert harness.phase("node", "a") is HealthPhase.QUARANTINED


def test_a_node_that_was_checked_as_a_whole_gives_its_devices_back_too(harness: VirtualHealth) -> None:
    harness.passes = CheckOutcome.FAIL
    harness.page("a", device("a", 3, xid=48))
    for _ in range(12):  # until the node is the matter
        harness.settle()
        if harness.facts("unrepaired"):
            break
    harness.passes = CheckOutcome.PASS
    unit = harness.unit("node", "a")
    assert unit is not None
    harness.write("federation", "node", "a", "verify-forwarded", VerifyRequested(principal="ann"))
    harness.settle()
    assert harness.phase("node", "a") is HealthPhase.HEALTHY
    assert harness.phase("device", uuid("a", 3)) is HealthPhase.HEALTHY


def test_what_lasts_must_be_off_the_page_before_anything_is_given_back(harness: VirtualHealth) -> None:
    pending = device("a", 2, remap_pending=True)
    harness.pages("a", pending, seconds=60)
    assert harness.phase("device", uuid("a", 2)) is HealthPhase.VERIFYING, "checks passed, and the page still shows it"
    harness.pages("a", seconds=50)
    assert harness.phase("device", uuid("a", 2)) is HealthPhase.VERIFYING, "not yet a minute of evidence"
    harness.pages("a", seconds=30)
    assert harness.phase("device", uuid("a", 2)) is HealthPhase.HEALTHY


def test_silence_is_no_evidence(harness: VirtualHealth) -> None:
    harness.pages("a", device("a", 2, remap_pending=True), seconds=60)
    silent = device("a", 2, remap_pending=None)
    harness.pages("a", silent, seconds=300)
    assert harness.phase("device", uuid("a", 2)) is HealthPhase.VERIFYING


def test_an_exporter_that_answers_again_needs_no_repair(harness: VirtualHealth) -> None:
    harness.pages("a", exporter=ExporterState.HUNG, seconds=90)
    assert harness.phase("node", "a") is HealthPhase.QUARANTINED
    harness.pages("a", seconds=80)
    assert harness.phase("node", "a") is HealthPhase.HEALTHY
    assert not harness.facts("action-requested")


def test_an_exporter_that_answers_again_within_a_minute_was_never_suspected(harness: VirtualHealth) -> None:
    harness.pages("a", exporter=ExporterState.HUNG, seconds=40)
    harness.pages("a", seconds=200)
    assert not harness.facts("suspect")


def test_an_event_while_it_is_checked_sends_it_back(harness: VirtualHealth) -> None:
    harness.config = CONFIG
    harness.page("a", device("a", 3, xid=79))
    drafts = 0
    while harness.phase("node", "a") is not HealthPhase.VERIFYING:
        for draft in harness.core.decide(harness.now):
            harness._answer(harness.append("health", draft)) if draft.name != "checks-requested" else harness.append(
                "health", draft
            )
        drafts += 1
        assert drafts < 20
    harness.now = after(harness.now, 70)
    harness.page("a", device("a", 3, xid=95))
    harness.settle()
    because = [fact.payload.because for fact in harness.facts("quarantined") if isinstance(fact.payload, HealthMoved)]
    assert any("xid-95 came while it was checked" in one for one in because)


def test_repair_that_is_switched_off_calls_a_person() -> None:
    harness = VirtualHealth(config=replace(CONFIG, repair=False))
    harness.join("a", "b")
    harness.page("a", device("a", 3, xid=79))
    harness.settle()
    unit = harness.unit("node", "a")
    assert unit is not None
    assert unit.needs_person
    assert not harness.facts("action-requested")


def test_another_instance_goes_on_where_this_one_stood(harness: VirtualHealth) -> None:
    harness.answers = False
    harness.page("a", device("a", 3, xid=79))
    harness.settle()
    other = harness.recovered()
    assert other.phase("node", "a") is HealthPhase.SUSPECT
    assert list(other.core.snapshot()) == list(harness.core.snapshot())
    assert other.settle() == []
    assert START


def test_the_same_fault_right_after_the_repair_is_a_new_one(harness: VirtualHealth) -> None:
    for _ in range(2):
        harness.page("a", device("a", 3))
        harness.now = after(harness.now, 5)
        harness.page("a", device("a", 3, xid=79))
        harness.settle()
        harness.now = after(harness.now, 5)
    assert len(harness.facts("suspect")) == 2


def test_whoever_takes_over_after_any_fact_brings_the_node_back(harness: VirtualHealth) -> None:
    harness.page("a", device("a", 3, xid=79))
    harness.settle()
    story = list(harness.log)
    begun = next(index for index, fact in enumerate(story) if fact.name == "fault-observed") + 1
    said_with_the_next = {"suspect", "repairing", "verifying", "healthy"}
    for cut in range(begun, len(story) + 1):
        if story[cut - 1].name in said_with_the_next:
            continue  # they stand in one batch, which the broker takes whole or not at all
        other = VirtualHealth(now=harness.now)
        recover(other.core, (), story[:cut])
        other.log, other.seq = story[:cut], cut
        said = {getattr(fact.payload, "request_id", "") for fact in story[:cut] if fact.writer != "health"}
        for fact in story[:cut]:
            if fact.writer == "health" and getattr(fact.payload, "request_id", "") not in said:
                other._answer(fact)  # the cluster answers what was asked before
        other.settle()
        assert other.phase("node", "a") is HealthPhase.HEALTHY, f"after {story[cut - 1].name}"
        asked = [fact for fact in other.log if fact.name == "action-requested"]
        assert len(asked) == 1, "the node is rebooted once"


def test_what_came_again_is_repaired_under_another_id(harness: VirtualHealth) -> None:
    """Its illnesses count anew, and the agent does nothing twice under one id."""
    for _ in range(2):
        harness.core.verdicts.signals.add(FaultSignal("a", "xid-119", harness.now, uuid("a", 0)))
        harness.settle()
        harness.now = after(harness.now, 3600)
        harness.write("agent", "node", "a", "left", NodeLeft())
        harness.join("a")
        harness.now = after(harness.now, 3600)
    for name in ("withhold-requested", "action-requested"):
        ids = [getattr(fact.payload, "request_id", "") for fact in harness.facts(name)]
        assert len(ids) == len(set(ids)) == 2


def test_a_device_that_its_nodes_repair_did_not_help_waits_for_a_person(harness: VirtualHealth) -> None:
    """The page goes on showing it, whatever is done: once the device alone, once its node, then somebody is called."""
    bad = device("a", 3, watches=(WatchReading(watch="PCIE", level=WatchLevel.FAIL, code="DCGM_FR_PCI_REPLAY_RATE"),))
    harness.pages("a", bad, seconds=12 * 3600)
    unit = harness.unit("device", uuid("a", 3))
    assert unit is not None
    assert unit.needs_person
    assert len([fact for fact in harness.facts("fault-observed") if fact.payload.code == "unrepaired"]) == 1  # type: ignore[attr-defined]


def test_a_fault_that_only_the_page_can_end_waits_for_a_person_in_the_end(harness: VirtualHealth) -> None:
    hot = device("a", 3, watches=(WatchReading(watch="THERMAL", level=WatchLevel.FAIL, code="DCGM_FR_TEMP"),))
    harness.pages("a", hot, seconds=5 * 3600)
    (unit,) = (one for one in harness.core.verdicts.state.units.values() if not one.is_healthy)
    assert not unit.needs_person
    harness.pages("a", hot, seconds=2 * 3600)
    assert unit.needs_person


@pytest.mark.parametrize("xid", [79, 94], ids=["of a node", "of a device"])
def test_a_persons_word_is_answered_once_where_no_checks_are_set(xid: int) -> None:
    harness = VirtualHealth(replace(CONFIG, verify=(), verify_device=()))
    harness.join("a", "b", "c", "d")
    harness.page("a")
    harness.now = after(harness.now, 10)
    harness.page("a", device("a", 3, xid=xid))
    harness.settle()
    harness.write("federation", "node", "a", "verify-forwarded", VerifyRequested(principal="bob"))
    assert [fact.name for fact in harness.settle()] == ["quarantined"]
    assert harness.settle() == []


def test_what_is_asked_again_more_strictly_is_had_where_it_was_given_already(harness: VirtualHealth) -> None:
    harness.answers = False
    harness.page("a", device("a", 3, xid=94))
    harness.settle()
    request = harness.facts("withhold-requested")[-1]
    assert isinstance(request.payload, WithholdRequested)
    stricter = request.payload.model_copy(update={"running": RunningJobs.REQUEUE})
    given = Withheld(request_id=request.payload.request_id)
    # the answer to the first stands before
    harness.write("scheduler", request.kind, request.subject_id, "withheld", given)
    harness.write("health", request.kind, request.subject_id, "withhold-requested", stricter)
    assert "quarantined" in [fact.name for fact in harness.settle()]


def test_a_move_of_a_node_that_left_meanwhile_is_nothing(harness: VirtualHealth) -> None:
    harness.write("agent", "node", "a", "left", NodeLeft())
    harness.write("health", "node", "a", "quarantined", HealthMoved(node="a", because="no repair", needs_person=True))
    harness.now = after(harness.now, 60)
    harness.join("a")
    assert harness.unit("node", "a") is None or harness.phase("node", "a") is HealthPhase.HEALTHY


def test_ids_of_requests_are_not_kept_for_ever() -> None:
    harness = VirtualHealth(replace(CONFIG, steady_s=10.0), answers=False)
    harness.join(*(f"n{number}" for number in range(40)))
    for _ in range(4):
        harness.pages("n0", seconds=60)
        harness.pages("n0", exporter=ExporterState.HUNG, seconds=900)
    harness.pages("n0", seconds=60)
    assert len(harness.facts("withhold-requested")) == 3
    assert len(harness.core.verdicts.state.requests) == 2, "the one that stands, and the one before"
