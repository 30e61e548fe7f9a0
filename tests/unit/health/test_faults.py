"""What is a fault, whose it is, and what repeats: rules over readings, both ways."""

from dataclasses import replace

import pytest

from kit.health import CHECKS, CONFIG, RULES, VirtualHealth, device, uuid
from muster.core import after
from muster.health.core.config import PatrolConfig
from muster.health.core.rules import RuleTable
from muster.schemas.facts.federation import JobReturned
from muster.schemas.facts.health import TOLD_MAX, FaultClass, FaultObserved, HealthPhase
from muster.schemas.facts.job import JobFinished
from muster.schemas.facts.operations import CheckOutcome, CheckResult, JobFault, PreflightFailed
from muster.schemas.telemetry import ExporterState, WatchLevel, WatchReading

JOBS = tuple(letter * 26 for letter in "ABCDEFGH")


@pytest.fixture
def harness() -> VirtualHealth:
    one = VirtualHealth()
    one.join("a", "b", "c", "d")
    return one


def observed(harness: VirtualHealth) -> list[FaultObserved]:
    return [fact.payload for fact in harness.facts("fault-observed") if isinstance(fact.payload, FaultObserved)]


# --- events --------------------------------------------------------------------------------------------------------


def test_the_last_code_never_clears_and_is_told_once(harness: VirtualHealth) -> None:
    harness.pages("a", device("a", 0, xid=31), seconds=400)
    assert [one.code for one in observed(harness)] == ["xid-31"]


def test_another_code_on_the_same_gpu_is_another_event(harness: VirtualHealth) -> None:
    harness.pages("a", device("a", 0, xid=31), seconds=10)
    harness.pages("a", device("a", 0, xid=43), seconds=10)
    assert [one.code for one in observed(harness)] == ["xid-31", "xid-43"]


def test_a_storm_of_one_code_is_one_fault_in_a_burst(harness: VirtualHealth) -> None:
    for count in range(1, 18):
        harness.page("a", device("a", 0, xid=45, xid_counts=((45, 100 * count),)))
        harness.settle()
        harness.now = after(harness.now, 10)
    assert len(observed(harness)) == 1


def test_after_the_burst_the_same_code_is_told_again(harness: VirtualHealth) -> None:
    harness.page("a", device("a", 0, xid=45, xid_counts=((45, 1),)))
    harness.settle()
    harness.now = after(harness.now, 181)
    harness.page("a", device("a", 0, xid=45, xid_counts=((45, 2),)))
    harness.settle()
    assert len(observed(harness)) == 2


def test_a_windowed_count_that_falls_is_no_event(harness: VirtualHealth) -> None:
    harness.page("a", device("a", 0, xid_counts=((43, 2),)))
    harness.settle()
    harness.now = after(harness.now, 200)
    harness.page("a", device("a", 0, xid_counts=((43, 1),)))
    harness.settle()
    assert len(observed(harness)) == 1


def test_a_double_bit_error_that_is_counted_further_is_an_event_and_an_old_count_is_none(
    harness: VirtualHealth,
) -> None:
    harness.pages("a", device("a", 0, ecc_dbe=7), seconds=10)
    assert not observed(harness)
    harness.page("a", device("a", 0, ecc_dbe=8))
    harness.settle()
    assert [one.code for one in observed(harness)] == ["ecc-dbe"]


def test_who_takes_over_tells_no_event_twice(harness: VirtualHealth) -> None:
    harness.pages("a", device("a", 0, xid=31), seconds=10)
    other = harness.recovered()
    other.pages("a", device("a", 0, xid=31), seconds=10)
    assert len(observed(other)) == 1


def test_a_code_without_a_rule_of_its_own_is_kept_for_trends(harness: VirtualHealth) -> None:
    harness.pages("a", device("a", 0, xid=999), seconds=10)
    assert [one.fault_class for one in observed(harness)] == [FaultClass.NOTE]
    assert harness.phase("device", uuid("a", 0)) is HealthPhase.HEALTHY


# --- whose it is ---------------------------------------------------------------------------------------------------


def test_an_application_fault_is_told_its_owner_and_nothing_is_cordoned(harness: VirtualHealth) -> None:
    harness.run(JOBS[0], "vision", "a")
    harness.pages("a", device("a", 0, xid=31), seconds=10)
    (told,) = harness.facts("fault-told")
    assert told.subject_id == JOBS[0]
    assert isinstance(told.payload, JobFault)
    assert (told.payload.code, told.payload.node, told.payload.device) == ("xid-31", "a", uuid("a", 0))
    assert not harness.facts("withhold-requested")


def test_an_owner_is_told_once_of_what_all_gpus_of_the_job_show(harness: VirtualHealth) -> None:
    harness.run(JOBS[0], "vision", "a", "b")
    for node in ("a", "b"):
        harness.page(node, *(device(node, index, xid=45) for index in range(8)))
    harness.settle()
    assert len(harness.facts("fault-told")) == 1
    assert [one.count for one in observed(harness)] == [8, 8], "a storm on all GPUs of a node is one fact"
    assert (
        len(
            {one.device for one in observed(harness)} | {uuid for one in observed(harness) for uuid in one.more_devices}
        )
        == 16
    )


def checking_harness() -> VirtualHealth:
    """With checks that may run beside jobs."""
    harness = VirtualHealth(config=replace(CONFIG, patrol=PatrolConfig(periodic=CHECKS)))
    harness.join("a", "b")
    return harness


def test_application_faults_of_several_teams_on_one_gpu_have_its_node_checked_and_no_more() -> None:
    harness = checking_harness()
    for job, team in zip(JOBS, ("vision", "speech", "robots"), strict=False):
        harness.run(job, team, "a")
        harness.page("a", device("a", 5, xid=31, xid_counts=((31, JOBS.index(job) + 1),)))
        harness.settle()
        harness.write("scheduler", "job", job, "failed", JobFinished(attempt=1, exit_code=1))
        harness.now = after(harness.now, 600)
    assert "programs-failing" in [one.code for one in observed(harness)]
    assert [fact.subject_id for fact in harness.facts("checks-requested")] == ["a"]
    assert not harness.facts("suspect")


def test_application_faults_of_one_team_are_its_own(harness: VirtualHealth) -> None:
    harness.run(JOBS[0], "vision", "a")
    for count in range(1, 6):
        harness.page("a", device("a", 5, xid=31, xid_counts=((31, count),)))
        harness.settle()
        harness.now = after(harness.now, 200)
    assert len(observed(harness)) == 5
    assert not harness.facts("suspect")


@pytest.mark.parametrize(("passes", "suspected"), [(CheckOutcome.PASS, []), (CheckOutcome.FAIL, ["b"])])
def test_where_programs_of_three_teams_fail_the_checks_decide(passes: CheckOutcome, suspected: list[str]) -> None:
    harness = checking_harness()
    harness.passes = passes
    for job, team in zip(JOBS, ("vision", "speech", "robots"), strict=False):
        harness.run(job, team, "b")
        harness.fail(job, "b")
    harness.settle()
    assert [fact.subject_id for fact in harness.facts("checks-requested")][:1] == ["b"]
    assert [fact.subject_id for fact in harness.facts("suspect")] == suspected


@pytest.mark.parametrize("check", ["command", "storage"])
def test_a_check_that_depends_on_the_job_is_no_evidence_against_the_node(harness: VirtualHealth, check: str) -> None:
    harness.run(JOBS[0], "vision", "a")
    preflight(harness, JOBS[0], "a", check=check)
    assert not harness.facts("suspect")


def test_one_teams_failing_programs_do_not(harness: VirtualHealth) -> None:
    for job in JOBS:
        harness.run(job, "vision", "b")
        harness.fail(job, "b")
    harness.settle()
    assert not harness.facts("suspect")


def preflight(
    harness: VirtualHealth, job: str, *nodes: str, check: str = "gpu-health", blamed: tuple[str, ...] = ()
) -> None:
    results = tuple(CheckResult(node=node, check=check, outcome=CheckOutcome.FAIL) for node in nodes)
    failed = PreflightFailed(attempt=1, suite="quick", nodes=blamed or nodes, reason="x", failed=results)
    harness.write("health", "job", job, "preflight-failed", failed)
    harness.settle()


def test_a_node_that_fails_a_jobs_checks_is_suspect_and_is_checked_without_the_job(harness: VirtualHealth) -> None:
    harness.run(JOBS[0], "vision", "a", "b")
    preflight(harness, JOBS[0], "a")
    assert [one.code for one in observed(harness)] == ["check-gpu-health"]
    assert [fact.name for fact in harness.log if fact.subject_id == "a"][-2:] == ["healthy", "withhold-withdrawn"]
    assert harness.facts("checks-requested")


def test_a_job_that_fails_wherever_it_goes_is_evidence_against_one_node_alone(harness: VirtualHealth) -> None:
    harness.run(JOBS[0], "vision", "a")
    for node in ("a", "b", "c", "d"):
        preflight(harness, JOBS[0], node)
    assert [fact.subject_id for fact in harness.facts("suspect")] == ["a"]


def test_the_owners_own_check_is_no_evidence_against_a_node(harness: VirtualHealth) -> None:
    harness.run(JOBS[0], "vision", "a")
    preflight(harness, JOBS[0], "a", check="command")
    assert not observed(harness)


def test_who_failed_with_the_gang_and_is_not_blamed_is_not_suspect(harness: VirtualHealth) -> None:
    harness.run(JOBS[0], "vision", "a", "b")
    preflight(harness, JOBS[0], "a", "b", check="all-reduce", blamed=("b",))
    assert [fact.subject_id for fact in harness.facts("suspect")] == ["b"]


# --- what lasts ----------------------------------------------------------------------------------------------------


def test_a_gpu_that_is_expected_and_not_shown_is_a_fault(harness: VirtualHealth) -> None:
    harness.page("a", missing=(uuid("a", 7),))
    harness.settle()
    assert [(one.code, one.device) for one in observed(harness)] == [("gpu-missing", uuid("a", 7))]
    assert harness.facts("suspect")[0].subject_id == "a"


def test_a_hot_gpu_is_a_fault_once_it_stays_hot(harness: VirtualHealth) -> None:
    hot = device("a", 0, temperature_c=95.0)
    harness.pages("a", hot, seconds=100)
    assert not observed(harness)
    harness.pages("a", hot, seconds=40)
    assert [one.code for one in observed(harness)] == ["gpu-hot"]


def test_a_watch_that_fails_is_one_and_a_watch_that_warns_is_kept_for_trends(harness: VirtualHealth) -> None:
    warning = WatchReading(watch="PCIE", level=WatchLevel.WARN, code="DCGM_FR_PCI_REPLAY_RATE")
    harness.pages("a", device("a", 0, watches=(warning,)), seconds=40)
    assert [one.fault_class for one in observed(harness)] == [FaultClass.NOTE]
    failing = warning.model_copy(update={"level": WatchLevel.FAIL})
    harness.pages("b", device("b", 0, watches=(failing,)), seconds=40)
    assert harness.facts("suspect")[0].subject_id == uuid("b", 0)


@pytest.mark.parametrize(
    ("watch", "code"), [("CONNECTX", "watch-connectx"), ("NVSWITCH_FATAL", "watch-nvswitch-fatal")]
)
def test_a_failed_adapter_or_switch_takes_the_node_away(harness: VirtualHealth, watch: str, code: str) -> None:
    failing = WatchReading(watch=watch, level=WatchLevel.FAIL)
    harness.page("a", device("a", 0, watches=(failing,)))
    harness.settle()
    assert [one.code for one in observed(harness)] == [code]
    assert harness.facts("suspect")[0].subject_id == "a"


def test_what_the_driver_recommends_is_what_is_done(harness: VirtualHealth) -> None:
    harness.pages("a", device("a", 0, recovery_action="NODE_REBOOT"), seconds=10)
    assert [one.action for one in observed(harness)] == ["reboot"]


@pytest.mark.parametrize("state", [ExporterState.STALE, ExporterState.DOWN, ExporterState.NONSENSE])
def test_a_page_that_tells_nothing_for_long_is_a_fault_of_the_node(
    harness: VirtualHealth, state: ExporterState
) -> None:
    harness.page("b")
    harness.page("a")
    harness.now = after(harness.now, 10)
    harness.pages("a", exporter=state, seconds=110)
    assert not observed(harness)
    harness.pages("a", exporter=state, seconds=30)
    assert [one.code for one in observed(harness)] == [f"exporter-{state.value}"]


def test_where_no_exporter_ever_answered_none_is_missed(harness: VirtualHealth) -> None:
    for _ in range(40):
        for node in ("a", "b", "c", "d"):
            harness.page(node, exporter=ExporterState.DOWN)
        harness.settle()
        harness.now = after(harness.now, 10)
    assert not observed(harness)


def test_where_most_exporters_answer_one_that_never_did_is_missed(harness: VirtualHealth) -> None:
    for node in ("b", "c", "d"):
        harness.page(node)
    harness.pages("a", exporter=ExporterState.DOWN, seconds=150)
    assert [one.code for one in observed(harness)] == ["exporter-down"]


# --- rules as data -------------------------------------------------------------------------------------------------

FATAL = ("xid-48", "xid-64", "xid-74", "xid-79", "xid-95", "xid-119", "xid-120", "xid-140", "remap-failed")
APPLICATION = ("xid-13", "xid-31", "xid-43", "xid-45", "xid-68", "xid-109")


@pytest.mark.parametrize("model", ["NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB", "NVIDIA B200", "Tesla T4", ""])
def test_what_takes_hardware_away_and_what_never_does_holds_for_every_model(model: str) -> None:
    table = RULES.of(model)
    assert {_class_of(table, code) for code in FATAL} == {FaultClass.FATAL}
    assert {_class_of(table, code) for code in APPLICATION} == {FaultClass.APPLICATION}


def _class_of(table: RuleTable, code: str) -> FaultClass | None:
    rule = table.rule(code)
    return rule.fault_class if rule is not None else None


def test_one_code_means_different_things_on_different_models() -> None:
    assert _class_of(RULES.of("NVIDIA H100 80GB HBM3"), "xid-63") is FaultClass.NOTE
    assert _class_of(RULES.of("NVIDIA A100-SXM4-80GB"), "xid-63") is FaultClass.DEGRADED


def test_a_code_may_end_the_fault_of_another() -> None:
    harness = VirtualHealth()
    harness.join("a", "b", model="NVIDIA B200")
    harness.page("a", device("a", 0, xid=163), model="NVIDIA B200")
    harness.answers = False
    harness.settle()
    harness.now = after(harness.now, 10)
    harness.page("a", device("a", 0, xid=162), model="NVIDIA B200")
    harness.settle()
    assert [fact.payload.code for fact in harness.facts("fault-cleared")] == ["xid-163"]  # type: ignore[attr-defined]


# --- who is left alone ---------------------------------------------------------------------------------------------


def test_a_dry_run_records_and_does_nothing() -> None:
    harness = VirtualHealth(config=replace(CONFIG, dry_run=True))
    harness.join("a", "b")
    harness.page("a", device("a", 0, xid=79))
    harness.settle()
    assert [one.store_only for one in observed(harness)] == [True]
    assert not harness.facts("suspect")


def test_a_node_that_opted_out_is_observed_and_left_as_it_is(harness: VirtualHealth) -> None:
    harness.join("e", labels=(("muster.dev/health", "observe"),))
    for node in ("a", "e"):
        harness.page(node, device(node, 0, xid=79))
    harness.settle()
    assert len(observed(harness)) == 2
    assert {fact.subject_id for fact in harness.facts("suspect")} == {"a"}


# --- when ----------------------------------------------------------------------------------------------------------


def test_a_fault_on_a_page_wakes_the_core_at_once_and_a_page_without_one_does_not(harness: VirtualHealth) -> None:
    harness.settle()
    harness.page("a")
    assert harness.core.next_wakeup() is None
    harness.now = after(harness.now, 10)
    harness.page("a", device("a", 0, xid=79))
    wakeup = harness.core.next_wakeup()
    assert wakeup is not None
    assert wakeup <= harness.now


def test_who_has_said_everything_is_not_woken_again(harness: VirtualHealth) -> None:
    harness.answers = False
    harness.page("a", device("a", 0, xid=79))
    harness.settle()
    assert harness.core.next_wakeup() is None


def test_no_owner_is_told_of_a_job_that_was_given_back_to_the_federation(harness: VirtualHealth) -> None:
    job = JOBS[0]
    harness.run(job, "red", "a")
    state = harness.core.verdicts.state
    assert (state.holders("a"), state.owners.team(job)) == ((job,), "red")
    harness.write("scheduler", "job", job, "returned", JobReturned(assignment=1))
    assert (state.holders("a"), state.owners.team(job)) == ((), "")


def test_who_takes_over_tells_no_owner_twice(harness: VirtualHealth) -> None:
    harness.run(JOBS[0], "vision", "a", "b")
    harness.pages("a", device("a", 0, xid=31), seconds=10)
    other = harness.recovered()
    other.pages("b", device("b", 0, xid=31), seconds=10)
    assert len(observed(other)) == 2
    assert len(other.facts("fault-told")) == 1


def test_of_what_an_owner_was_told_the_newest_is_remembered_and_nothing_of_a_job_that_ended(
    harness: VirtualHealth,
) -> None:
    harness.run(JOBS[0], "vision", "a")
    for number in range(TOLD_MAX + 1):
        harness.write("health", "job", JOBS[0], "fault-told", JobFault(code=f"xid-{number}", node="a", at=harness.now))
    ((_, stored),) = harness.core.verdicts.state.owners.stored()
    assert [code for code, _ in stored.told] == [f"xid-{number}" for number in range(1, TOLD_MAX + 1)]
    harness.write("scheduler", "job", JOBS[0], "failed", JobFinished(attempt=1, exit_code=1))
    assert list(harness.core.verdicts.state.owners.stored()) == []
