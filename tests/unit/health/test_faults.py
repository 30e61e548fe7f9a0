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
def house() -> VirtualHealth:
    one = VirtualHealth()
    one.join("a", "b", "c", "d")
    return one


def observed(house: VirtualHealth) -> list[FaultObserved]:
    return [fact.payload for fact in house.facts("fault-observed") if isinstance(fact.payload, FaultObserved)]


# --- events --------------------------------------------------------------------------------------------------------


def test_the_last_code_never_clears_and_is_told_once(house: VirtualHealth) -> None:
    house.pages("a", device("a", 0, xid=31), seconds=400)
    assert [one.code for one in observed(house)] == ["xid-31"]


def test_another_code_on_the_same_gpu_is_another_event(house: VirtualHealth) -> None:
    house.pages("a", device("a", 0, xid=31), seconds=10)
    house.pages("a", device("a", 0, xid=43), seconds=10)
    assert [one.code for one in observed(house)] == ["xid-31", "xid-43"]


def test_a_storm_of_one_code_is_one_fault_in_a_burst(house: VirtualHealth) -> None:
    for count in range(1, 18):
        house.page("a", device("a", 0, xid=45, xid_counts=((45, 100 * count),)))
        house.settle()
        house.now = after(house.now, 10)
    assert len(observed(house)) == 1


def test_after_the_burst_the_same_code_is_told_again(house: VirtualHealth) -> None:
    house.page("a", device("a", 0, xid=45, xid_counts=((45, 1),)))
    house.settle()
    house.now = after(house.now, 181)
    house.page("a", device("a", 0, xid=45, xid_counts=((45, 2),)))
    house.settle()
    assert len(observed(house)) == 2


def test_a_windowed_count_that_falls_is_no_event(house: VirtualHealth) -> None:
    house.page("a", device("a", 0, xid_counts=((43, 2),)))
    house.settle()
    house.now = after(house.now, 200)
    house.page("a", device("a", 0, xid_counts=((43, 1),)))
    house.settle()
    assert len(observed(house)) == 1


def test_a_double_bit_error_that_is_counted_further_is_an_event_and_an_old_count_is_none(house: VirtualHealth) -> None:
    house.pages("a", device("a", 0, ecc_dbe=7), seconds=10)
    assert not observed(house)
    house.page("a", device("a", 0, ecc_dbe=8))
    house.settle()
    assert [one.code for one in observed(house)] == ["ecc-dbe"]


def test_who_takes_over_tells_no_event_twice(house: VirtualHealth) -> None:
    house.pages("a", device("a", 0, xid=31), seconds=10)
    other = house.recovered()
    other.pages("a", device("a", 0, xid=31), seconds=10)
    assert len(observed(other)) == 1


def test_a_code_without_a_rule_of_its_own_is_kept_for_trends(house: VirtualHealth) -> None:
    house.pages("a", device("a", 0, xid=999), seconds=10)
    assert [one.fault_class for one in observed(house)] == [FaultClass.NOTE]
    assert house.phase("device", uuid("a", 0)) is HealthPhase.HEALTHY


# --- whose it is ---------------------------------------------------------------------------------------------------


def test_an_application_fault_is_told_its_owner_and_nothing_is_cordoned(house: VirtualHealth) -> None:
    house.run(JOBS[0], "vision", "a")
    house.pages("a", device("a", 0, xid=31), seconds=10)
    (told,) = house.facts("fault-told")
    assert told.subject_id == JOBS[0]
    assert isinstance(told.payload, JobFault)
    assert (told.payload.code, told.payload.node, told.payload.device) == ("xid-31", "a", uuid("a", 0))
    assert not house.facts("withhold-requested")


def test_an_owner_is_told_once_of_what_all_gpus_of_the_job_show(house: VirtualHealth) -> None:
    house.run(JOBS[0], "vision", "a", "b")
    for node in ("a", "b"):
        house.page(node, *(device(node, index, xid=45) for index in range(8)))
    house.settle()
    assert len(house.facts("fault-told")) == 1
    assert [one.count for one in observed(house)] == [8, 8], "a storm on all GPUs of a node is one fact"
    assert (
        len({one.device for one in observed(house)} | {uuid for one in observed(house) for uuid in one.more_devices})
        == 16
    )


def checking_house() -> VirtualHealth:
    """With checks that may run beside jobs."""
    house = VirtualHealth(config=replace(CONFIG, patrol=PatrolConfig(periodic=CHECKS)))
    house.join("a", "b")
    return house


def test_application_faults_of_several_teams_on_one_gpu_have_its_node_checked_and_no_more() -> None:
    house = checking_house()
    for job, team in zip(JOBS, ("vision", "speech", "robots"), strict=False):
        house.run(job, team, "a")
        house.page("a", device("a", 5, xid=31, xid_counts=((31, JOBS.index(job) + 1),)))
        house.settle()
        house.write("scheduler", "job", job, "failed", JobFinished(attempt=1, exit_code=1))
        house.now = after(house.now, 600)
    assert "programs-failing" in [one.code for one in observed(house)]
    assert [fact.subject_id for fact in house.facts("checks-requested")] == ["a"]
    assert not house.facts("suspect")


def test_application_faults_of_one_team_are_its_own(house: VirtualHealth) -> None:
    house.run(JOBS[0], "vision", "a")
    for count in range(1, 6):
        house.page("a", device("a", 5, xid=31, xid_counts=((31, count),)))
        house.settle()
        house.now = after(house.now, 200)
    assert len(observed(house)) == 5
    assert not house.facts("suspect")


@pytest.mark.parametrize(("passes", "suspected"), [(CheckOutcome.PASS, []), (CheckOutcome.FAIL, ["b"])])
def test_where_programs_of_three_teams_fail_the_checks_decide(passes: CheckOutcome, suspected: list[str]) -> None:
    house = checking_house()
    house.passes = passes
    for job, team in zip(JOBS, ("vision", "speech", "robots"), strict=False):
        house.run(job, team, "b")
        house.fail(job, "b")
    house.settle()
    assert [fact.subject_id for fact in house.facts("checks-requested")][:1] == ["b"]
    assert [fact.subject_id for fact in house.facts("suspect")] == suspected


@pytest.mark.parametrize("check", ["command", "storage"])
def test_a_check_that_depends_on_the_job_is_no_evidence_against_the_node(house: VirtualHealth, check: str) -> None:
    house.run(JOBS[0], "vision", "a")
    preflight(house, JOBS[0], "a", check=check)
    assert not house.facts("suspect")


def test_one_teams_failing_programs_do_not(house: VirtualHealth) -> None:
    for job in JOBS:
        house.run(job, "vision", "b")
        house.fail(job, "b")
    house.settle()
    assert not house.facts("suspect")


def preflight(
    house: VirtualHealth, job: str, *nodes: str, check: str = "gpu-health", blamed: tuple[str, ...] = ()
) -> None:
    results = tuple(CheckResult(node=node, check=check, outcome=CheckOutcome.FAIL) for node in nodes)
    failed = PreflightFailed(attempt=1, suite="quick", nodes=blamed or nodes, reason="x", failed=results)
    house.write("health", "job", job, "preflight-failed", failed)
    house.settle()


def test_a_node_that_fails_a_jobs_checks_is_suspect_and_is_checked_without_the_job(house: VirtualHealth) -> None:
    house.run(JOBS[0], "vision", "a", "b")
    preflight(house, JOBS[0], "a")
    assert [one.code for one in observed(house)] == ["check-gpu-health"]
    assert [fact.name for fact in house.log if fact.subject_id == "a"][-2:] == ["healthy", "withhold-withdrawn"]
    assert house.facts("checks-requested")


def test_a_job_that_fails_wherever_it_goes_is_evidence_against_one_node_alone(house: VirtualHealth) -> None:
    house.run(JOBS[0], "vision", "a")
    for node in ("a", "b", "c", "d"):
        preflight(house, JOBS[0], node)
    assert [fact.subject_id for fact in house.facts("suspect")] == ["a"]


def test_the_owners_own_check_is_no_evidence_against_a_node(house: VirtualHealth) -> None:
    house.run(JOBS[0], "vision", "a")
    preflight(house, JOBS[0], "a", check="command")
    assert not observed(house)


def test_who_failed_with_the_gang_and_is_not_blamed_is_not_suspect(house: VirtualHealth) -> None:
    house.run(JOBS[0], "vision", "a", "b")
    preflight(house, JOBS[0], "a", "b", check="all-reduce", blamed=("b",))
    assert [fact.subject_id for fact in house.facts("suspect")] == ["b"]


# --- what lasts ----------------------------------------------------------------------------------------------------


def test_a_gpu_that_is_expected_and_not_shown_is_a_fault(house: VirtualHealth) -> None:
    house.page("a", missing=(uuid("a", 7),))
    house.settle()
    assert [(one.code, one.device) for one in observed(house)] == [("gpu-missing", uuid("a", 7))]
    assert house.facts("suspect")[0].subject_id == "a"


def test_a_hot_gpu_is_a_fault_once_it_stays_hot(house: VirtualHealth) -> None:
    hot = device("a", 0, temperature_c=95.0)
    house.pages("a", hot, seconds=100)
    assert not observed(house)
    house.pages("a", hot, seconds=40)
    assert [one.code for one in observed(house)] == ["gpu-hot"]


def test_a_watch_that_fails_is_one_and_a_watch_that_warns_is_kept_for_trends(house: VirtualHealth) -> None:
    warning = WatchReading(watch="PCIE", level=WatchLevel.WARN, code="DCGM_FR_PCI_REPLAY_RATE")
    house.pages("a", device("a", 0, watches=(warning,)), seconds=40)
    assert [one.fault_class for one in observed(house)] == [FaultClass.NOTE]
    failing = warning.model_copy(update={"level": WatchLevel.FAIL})
    house.pages("b", device("b", 0, watches=(failing,)), seconds=40)
    assert house.facts("suspect")[0].subject_id == uuid("b", 0)


@pytest.mark.parametrize(
    ("watch", "code"), [("CONNECTX", "watch-connectx"), ("NVSWITCH_FATAL", "watch-nvswitch-fatal")]
)
def test_a_failed_adapter_or_switch_takes_the_node_away(house: VirtualHealth, watch: str, code: str) -> None:
    failing = WatchReading(watch=watch, level=WatchLevel.FAIL)
    house.page("a", device("a", 0, watches=(failing,)))
    house.settle()
    assert [one.code for one in observed(house)] == [code]
    assert house.facts("suspect")[0].subject_id == "a"


def test_what_the_driver_recommends_is_what_is_done(house: VirtualHealth) -> None:
    house.pages("a", device("a", 0, recovery_action="NODE_REBOOT"), seconds=10)
    assert [one.action for one in observed(house)] == ["reboot"]


@pytest.mark.parametrize("state", [ExporterState.STALE, ExporterState.DOWN, ExporterState.NONSENSE])
def test_a_page_that_tells_nothing_for_long_is_a_fault_of_the_node(house: VirtualHealth, state: ExporterState) -> None:
    house.page("b")
    house.page("a")
    house.now = after(house.now, 10)
    house.pages("a", exporter=state, seconds=110)
    assert not observed(house)
    house.pages("a", exporter=state, seconds=30)
    assert [one.code for one in observed(house)] == [f"exporter-{state.value}"]


def test_where_no_exporter_ever_answered_none_is_missed(house: VirtualHealth) -> None:
    for _ in range(40):
        for node in ("a", "b", "c", "d"):
            house.page(node, exporter=ExporterState.DOWN)
        house.settle()
        house.now = after(house.now, 10)
    assert not observed(house)


def test_where_most_exporters_answer_one_that_never_did_is_missed(house: VirtualHealth) -> None:
    for node in ("b", "c", "d"):
        house.page(node)
    house.pages("a", exporter=ExporterState.DOWN, seconds=150)
    assert [one.code for one in observed(house)] == ["exporter-down"]


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
    house = VirtualHealth()
    house.join("a", "b", model="NVIDIA B200")
    house.page("a", device("a", 0, xid=163), model="NVIDIA B200")
    house.answers = False
    house.settle()
    house.now = after(house.now, 10)
    house.page("a", device("a", 0, xid=162), model="NVIDIA B200")
    house.settle()
    assert [fact.payload.code for fact in house.facts("fault-cleared")] == ["xid-163"]  # type: ignore[attr-defined]


# --- who is left alone ---------------------------------------------------------------------------------------------


def test_a_dry_run_records_and_does_nothing() -> None:
    house = VirtualHealth(config=replace(CONFIG, dry_run=True))
    house.join("a", "b")
    house.page("a", device("a", 0, xid=79))
    house.settle()
    assert [one.store_only for one in observed(house)] == [True]
    assert not house.facts("suspect")


def test_a_node_that_opted_out_is_observed_and_left_as_it_is(house: VirtualHealth) -> None:
    house.join("e", labels=(("muster.dev/health", "observe"),))
    for node in ("a", "e"):
        house.page(node, device(node, 0, xid=79))
    house.settle()
    assert len(observed(house)) == 2
    assert {fact.subject_id for fact in house.facts("suspect")} == {"a"}


# --- when ----------------------------------------------------------------------------------------------------------


def test_a_fault_on_a_page_wakes_the_core_at_once_and_a_page_without_one_does_not(house: VirtualHealth) -> None:
    house.settle()
    house.page("a")
    assert house.core.next_wakeup() is None
    house.now = after(house.now, 10)
    house.page("a", device("a", 0, xid=79))
    wakeup = house.core.next_wakeup()
    assert wakeup is not None
    assert wakeup <= house.now


def test_who_has_said_everything_is_not_woken_again(house: VirtualHealth) -> None:
    house.answers = False
    house.page("a", device("a", 0, xid=79))
    house.settle()
    assert house.core.next_wakeup() is None


def test_no_owner_is_told_of_a_job_that_was_given_back_to_the_federation(house: VirtualHealth) -> None:
    job = JOBS[0]
    house.run(job, "red", "a")
    state = house.core.verdicts.state
    assert (state.holders("a"), state.owners.team(job)) == ((job,), "red")
    house.write("scheduler", "job", job, "returned", JobReturned(assignment=1))
    assert (state.holders("a"), state.owners.team(job)) == ((), "")


def test_who_takes_over_tells_no_owner_twice(house: VirtualHealth) -> None:
    house.run(JOBS[0], "vision", "a", "b")
    house.pages("a", device("a", 0, xid=31), seconds=10)
    other = house.recovered()
    other.pages("b", device("b", 0, xid=31), seconds=10)
    assert len(observed(other)) == 2
    assert len(other.facts("fault-told")) == 1


def test_of_what_an_owner_was_told_the_newest_is_remembered_and_nothing_of_a_job_that_ended(
    house: VirtualHealth,
) -> None:
    house.run(JOBS[0], "vision", "a")
    for number in range(TOLD_MAX + 1):
        house.write("health", "job", JOBS[0], "fault-told", JobFault(code=f"xid-{number}", node="a", at=house.now))
    ((_, stored),) = house.core.verdicts.state.owners.stored()
    assert [code for code, _ in stored.told] == [f"xid-{number}" for number in range(1, TOLD_MAX + 1)]
    house.write("scheduler", "job", JOBS[0], "failed", JobFinished(attempt=1, exit_code=1))
    assert list(house.core.verdicts.state.owners.stored()) == []
