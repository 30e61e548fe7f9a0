"""Verdicts on pre-flight checks: what the agent reports against what the plan asks."""

from collections.abc import Iterable

import pytest

from kit.log import VirtualService
from muster.core import NS_PER_S, Draft, Instant
from muster.core.virtual import recover
from muster.health.core.core import HealthCore
from muster.health.core.preflight import REPORT_S
from muster.schemas.base import Payload
from muster.schemas.facts.federation import JobReturned
from muster.schemas.facts.job import JobPlaced, JobStopRequested, PodsStarted, StopReason
from muster.schemas.facts.operations import (
    CheckOrder,
    CheckOutcome,
    CheckResult,
    CheckScope,
    ChecksReported,
    PreflightFailed,
    PreflightPassed,
    PreflightPlan,
)
from muster.schemas.job import Slot

JOB = "J" * 26
T0 = 1_700_000_000
PASS, FAIL, CANNOT_RUN = CheckOutcome.PASS, CheckOutcome.FAIL, CheckOutcome.CANNOT_RUN
CHECKS = (CheckOrder(check="gpu-health"), CheckOrder(check="all-reduce", scope=CheckScope.GANG))
LENIENT = PreflightPlan(suite="standard", checks=CHECKS, limit_s=100.0)
STRICT = LENIENT.model_copy(update={"cannot_run_passes": False})


def at(seconds: float) -> Instant:
    return Instant(round((T0 + seconds) * NS_PER_S))


class Preflight(VirtualService[HealthCore]):
    """One job's checks, and the verdicts that follow at each moment."""

    def __init__(self) -> None:
        super().__init__("health", HealthCore(), cluster="local", start=at(0))

    def happen(self, name: str, payload: Payload, *, at_s: float = 0.0, writer: str = "agent") -> None:
        self.now = at(at_s)
        self.write(writer, "job", JOB, name, payload, trace="00-t-s-01")

    def begin(self, plan: PreflightPlan = LENIENT, *, nodes: int = 2, attempt: int = 1, at_s: float = 0.0) -> None:
        slots = tuple(Slot(group=0, replica=n, node=f"n{n}", devices=(0,)) for n in range(nodes))
        placed = JobPlaced(attempt=attempt, slots=slots, preflight=plan)
        self.happen("placed", placed, at_s=at_s, writer="scheduler")
        self.happen("pods-started", PodsStarted(attempt=attempt), at_s=at_s)

    def report(self, *results: CheckResult, at_s: float = 10.0, is_last: bool = True, attempt: int = 1) -> None:
        self.happen("checks-reported", ChecksReported(attempt=attempt, results=results, is_last=is_last), at_s=at_s)

    def verdicts(self, at_s: float = 10.0) -> list[Draft]:
        return self.core.decide(at(at_s))

    def verdict(self, at_s: float = 10.0) -> Payload:
        (draft,) = self.verdicts(at_s)
        return draft.payload


def result(node: str, check: str = "gpu-health", outcome: CheckOutcome = PASS, **more: object) -> CheckResult:
    return CheckResult.model_validate({"node": node, "check": check, "outcome": outcome, **more})


def whole(outcomes: Iterable[CheckOutcome], *, nodes: int = 2) -> list[CheckResult]:
    """Each outcome is of the node's checks, in order."""
    pairs = [(f"n{node}", check.check) for node in range(nodes) for check in CHECKS]
    return [result(node, check, outcome) for (node, check), outcome in zip(pairs, outcomes, strict=True)]


def test_a_gang_whose_checks_all_pass_may_begin() -> None:
    log = Preflight()
    log.begin()
    assert log.verdicts(5) == []
    log.report(*whole([PASS] * 4))
    (draft,) = log.verdicts()
    assert (draft.kind, draft.subject_id, draft.name) == ("job", JOB, "preflight-passed")
    assert (draft.causes, draft.trace) == (("f3",), "00-t-s-01")
    assert draft.payload == PreflightPassed(attempt=1, suite="standard", took_s=10.0)


def test_a_failure_of_one_node_fails_the_gang_and_names_that_node_alone() -> None:
    log = Preflight()
    log.begin()
    log.report(*whole([PASS, PASS, FAIL, PASS]))
    verdict = log.verdict()
    assert isinstance(verdict, PreflightFailed)
    assert (verdict.nodes, verdict.suite, verdict.attempt) == (("n1",), "standard", 1)
    assert verdict.reason == "gpu-health failed on n1"
    assert [one.node for one in verdict.failed] == ["n1"]


def test_a_failure_counts_before_the_others_have_reported() -> None:
    log = Preflight()
    log.begin()
    log.report(result("n0", outcome=FAIL, code="DCGM_FR_X", device="GPU-7"), is_last=False)
    verdict = log.verdict()
    assert isinstance(verdict, PreflightFailed)
    assert verdict.reason == "gpu-health failed on n0: DCGM_FR_X GPU-7"


def test_parts_of_a_report_without_a_failure_wait_for_the_last() -> None:
    log = Preflight()
    log.begin()
    log.report(result("n0"), is_last=False)
    assert log.verdicts() == []
    log.report(result("n1"), at_s=12.0)
    assert isinstance(log.verdict(12.0), PreflightPassed)


@pytest.mark.parametrize(("plan", "passes"), [(LENIENT, True), (STRICT, False)])
def test_the_plan_says_whether_what_could_not_run_passes(plan: PreflightPlan, passes: bool) -> None:
    log = Preflight()
    log.begin(plan)
    log.report(*whole([PASS, PASS, CANNOT_RUN, PASS]))
    verdict = log.verdict()
    if passes:
        assert isinstance(verdict, PreflightPassed)
        assert verdict.warned == ("gpu-health could not run on n1",)
    else:
        assert isinstance(verdict, PreflightFailed)
        assert verdict.nodes == ("n1",)


def test_a_failure_beside_what_could_not_run_is_a_failure() -> None:
    log = Preflight()
    log.begin()
    log.report(*whole([CANNOT_RUN, PASS, FAIL, PASS]))
    verdict = log.verdict()
    assert isinstance(verdict, PreflightFailed)
    assert verdict.nodes == ("n1",)


def test_a_report_that_never_comes_is_what_could_not_run_after_the_limit() -> None:
    log = Preflight()
    log.begin(STRICT)
    log.report(result("n0"), result("n0", "all-reduce"), is_last=False)
    deadline_s = 100.0 + REPORT_S
    assert log.core.next_wakeup() == at(deadline_s)
    assert log.verdicts(deadline_s - 0.1) == []
    verdict = log.verdict(deadline_s)
    assert isinstance(verdict, PreflightFailed)
    assert verdict.nodes == ("n1",)
    assert verdict.reason == "gpu-health could not run on n1: nothing was reported in time (and 1 more)"


def test_deciding_changes_nothing_until_the_verdict_is_folded() -> None:
    log = Preflight()
    log.begin()
    log.report(*whole([PASS] * 4))
    first = log.verdicts()
    assert log.verdicts(11.0) == first
    log.happen("preflight-passed", first[0].payload, writer="health")
    assert log.verdicts(12.0) == []
    assert log.core.next_wakeup() is None


def test_an_attempt_that_is_over_gets_no_verdict() -> None:
    log = Preflight()
    log.begin()
    stop = JobStopRequested(attempt=1, reason=StopReason.CANCELLED)
    log.happen("stop-requested", stop, writer="scheduler")
    log.report(*whole([FAIL] * 4))
    assert log.verdicts(500.0) == []


def test_the_next_attempt_is_judged_for_itself() -> None:
    log = Preflight()
    log.begin()
    log.report(*whole([FAIL, PASS, PASS, PASS]))
    log.happen("preflight-failed", log.verdict(), writer="health")
    log.begin(attempt=2, at_s=20.0)
    log.report(*whole([PASS] * 4), attempt=1, at_s=21.0)
    assert log.verdicts(22.0) == []
    log.report(*whole([PASS] * 4), attempt=2, at_s=25.0)
    verdict = log.verdict(25.0)
    assert isinstance(verdict, PreflightPassed)
    assert (verdict.attempt, verdict.took_s) == (2, 5.0)


def test_a_job_without_a_plan_gets_no_verdict() -> None:
    log = Preflight()
    log.happen("placed", JobPlaced(attempt=1, slots=()), writer="scheduler")
    log.happen("pods-started", PodsStarted(attempt=1))
    assert log.verdicts(1e6) == []
    assert log.core.next_wakeup() is None


@pytest.mark.parametrize(
    ("values", "nodes"),
    [
        ([300.0, 290.0, 80.0], ("n2",)),  # one is distinctly slower than the others
        ([80.0, 80.0, 80.0], ("n0", "n1", "n2")),  # nobody knows which: a small gang goes elsewhere
    ],
)
def test_whom_a_failure_of_the_whole_gang_is_blamed_on(values: list[float], nodes: tuple[str, ...]) -> None:
    log = Preflight()
    log.begin(nodes=3)
    log.report(*(result(f"n{n}", "all-reduce", FAIL, value=value, least=400.0) for n, value in enumerate(values)))
    verdict = log.verdict()
    assert isinstance(verdict, PreflightFailed)
    assert verdict.nodes == nodes


def test_a_node_that_failed_by_itself_is_to_blame_for_what_its_gang_failed_together() -> None:
    log = Preflight()
    log.begin(nodes=3)
    together = (result(f"n{n}", "all-reduce", FAIL, value=80.0) for n in range(3))
    log.report(result("n1", "gpu-health", FAIL), *together)
    verdict = log.verdict()
    assert isinstance(verdict, PreflightFailed)
    assert verdict.nodes == ("n1",)


def test_a_large_gang_that_fails_together_is_not_kept_away_from_all_its_nodes() -> None:
    log = Preflight()
    log.begin(nodes=20)
    log.report(*(result(f"n{n}", "all-reduce", FAIL) for n in range(20)))
    verdict = log.verdict()
    assert isinstance(verdict, PreflightFailed)
    assert verdict.nodes == ()


@pytest.mark.parametrize("when", ["placed", "partly", "whole"])
def test_a_core_that_begins_from_a_checkpoint_gives_the_same_verdict(when: str) -> None:
    log, other = Preflight(), Preflight()
    log.begin(STRICT)
    if when != "placed":
        log.report(result("n0"), is_last=False)
    if when == "whole":
        log.report(result("n1", outcome=FAIL), is_last=True, at_s=11.0)
    recover(other.core, log.snapshot())
    assert other.verdicts(200.0) == log.verdicts(200.0) != []
    assert list(other.core.snapshot()) == list(log.core.snapshot())


def test_of_a_job_that_was_given_back_to_the_federation_nothing_is_kept() -> None:
    log = Preflight()
    log.begin()
    log.happen("returned", JobReturned(assignment=1), writer="scheduler")
    assert [draft for draft in log.core.snapshot() if draft.kind == "preflight"] == []
    assert log.core.next_wakeup() is None
