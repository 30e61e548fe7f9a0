"""What repeats is told once for what was observed, whatever the rules say of bursts; and what is news of a job."""

from dataclasses import replace

from kit.health import CONFIG, VirtualHealth, uuid
from muster.core import Instant, after
from muster.health.core.config import LemonConfig
from muster.health.core.signals import FaultSignal
from muster.health.rule_files import book_of, built_in_rules, read_rules
from muster.schemas.facts.health import FaultObserved, HealthPhase, VerifyRequested
from muster.schemas.facts.job import JobQueued, JobRunning
from muster.schemas.facts.operations import CheckOutcome, CheckResult, PreflightFailed

JOB = "A" * 26
NO_BURSTS = """
version: 1
models: ["*"]
rules:
  - {codes: [xid-31], class: application, burst_s: 0, because: a program}
  - {codes: [xid-999], class: note, burst_s: 0, because: many}
  - {codes: [lemon], class: note, scope: node, burst_s: 0, because: often}
escalations:
  - {code: xid-999, codes: ["xid-*"], times: 2, within_s: 3600}
"""


def harness_without_bursts() -> VirtualHealth:
    rules = book_of((*built_in_rules().sets, read_rules(NO_BURSTS, origin="own")))
    lemon = LemonConfig(incidents=2, window_s=86_400.0, ratio=1.0)
    harness = VirtualHealth(config=replace(CONFIG, rules=rules, lemon=lemon))
    harness.join("a", "b")
    return harness


def see(harness: VirtualHealth, code: str) -> None:
    harness.core.verdicts.signals.add(FaultSignal("a", code, harness.now, uuid("a", 0)))
    harness.settle()
    harness.now = after(harness.now, 120)


def codes(harness: VirtualHealth) -> list[str]:
    return [fact.payload.code for fact in harness.log if isinstance(fact.payload, FaultObserved)]


def test_an_escalation_is_told_once_for_what_it_counts_and_does_not_count_itself() -> None:
    harness = harness_without_bursts()
    for _ in range(2):
        see(harness, "xid-31")
    assert codes(harness) == ["xid-31", "xid-31", "xid-999"]
    see(harness, "xid-31")
    assert codes(harness)[3:] == ["xid-31", "xid-999"], "another observation is reason to tell it again"


def test_a_lemon_is_told_once_for_the_illnesses_that_make_it_one() -> None:
    harness = harness_without_bursts()
    for _ in range(2):
        see(harness, "xid-79")
        harness.now = after(harness.now, 7200)
        harness.settle()
    assert codes(harness).count("lemon") == 1
    see(harness, "xid-79")
    assert codes(harness).count("lemon") == 2


def failed_checks(harness: VirtualHealth, attempt: int) -> None:
    bad = CheckResult(node="a", check="device-count", outcome=CheckOutcome.FAIL)
    failed = PreflightFailed(attempt=attempt, suite="quick", nodes=("a",), reason="one is gone", failed=(bad,))
    harness.write("health", "job", JOB, "preflight-failed", failed)
    harness.settle()
    harness.now = Instant(harness.now + 7_200_000_000_000)


def test_checks_that_fail_again_count_against_the_node_only_after_the_job_ran() -> None:
    """As the scheduler counts them, whose count is what a checkpoint has of it."""
    harness = VirtualHealth()
    harness.join("a", "b")
    harness.run(JOB, "red", "a")
    for attempt in (1, 2):
        failed_checks(harness, attempt)
        harness.write("scheduler", "job", JOB, "queued", JobQueued(queue="q", attempt=attempt + 1))
    assert codes(harness) == ["check-device-count"]
    harness.run(JOB, "red", "a")
    harness.write("scheduler", "job", JOB, "running", JobRunning(attempt=3))
    failed_checks(harness, 3)
    assert codes(harness) == ["check-device-count"] * 2


def test_a_lemon_that_a_person_gave_back_is_none_again_because_a_program_fails() -> None:
    harness = VirtualHealth()
    harness.join(*(f"n{number}" for number in range(30)), "a")
    for _ in range(5):
        see(harness, "xid-79")
        harness.now = after(harness.now, 43_200)
    told = codes(harness).count("lemon")
    assert told
    harness.write("federation", "node", "a", "verify-forwarded", VerifyRequested(principal="ann", trust=True))
    harness.settle()
    harness.now = after(harness.now, 8 * 86_400)
    harness.run(JOB, "red", "a")
    harness.fail(JOB, "a")
    harness.settle()
    assert codes(harness).count("lemon") == told
    assert harness.phase("node", "a") is HealthPhase.HEALTHY


def test_what_a_lemon_is_withheld_for_is_no_further_illness() -> None:
    harness = VirtualHealth()
    harness.join(*(f"n{number}" for number in range(30)), "a")
    see(harness, "lemon")
    unit = harness.unit("node", "a")
    assert unit is not None
    assert harness.facts("suspect")
    assert not unit.incidents
