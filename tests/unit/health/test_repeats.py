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


def house_without_bursts() -> VirtualHealth:
    rules = book_of((*built_in_rules().sets, read_rules(NO_BURSTS, origin="own")))
    lemon = LemonConfig(incidents=2, window_s=86_400.0, ratio=1.0)
    house = VirtualHealth(config=replace(CONFIG, rules=rules, lemon=lemon))
    house.join("a", "b")
    return house


def see(house: VirtualHealth, code: str) -> None:
    house.core.verdicts.signals.add(FaultSignal("a", code, house.now, uuid("a", 0)))
    house.settle()
    house.now = after(house.now, 120)


def codes(house: VirtualHealth) -> list[str]:
    return [fact.payload.code for fact in house.log if isinstance(fact.payload, FaultObserved)]


def test_an_escalation_is_told_once_for_what_it_counts_and_does_not_count_itself() -> None:
    house = house_without_bursts()
    for _ in range(2):
        see(house, "xid-31")
    assert codes(house) == ["xid-31", "xid-31", "xid-999"]
    see(house, "xid-31")
    assert codes(house)[3:] == ["xid-31", "xid-999"], "another observation is reason to tell it again"


def test_a_lemon_is_told_once_for_the_illnesses_that_make_it_one() -> None:
    house = house_without_bursts()
    for _ in range(2):
        see(house, "xid-79")
        house.now = after(house.now, 7200)
        house.settle()
    assert codes(house).count("lemon") == 1
    see(house, "xid-79")
    assert codes(house).count("lemon") == 2


def failed_checks(house: VirtualHealth, attempt: int) -> None:
    bad = CheckResult(node="a", check="device-count", outcome=CheckOutcome.FAIL)
    failed = PreflightFailed(attempt=attempt, suite="quick", nodes=("a",), reason="one is gone", failed=(bad,))
    house.write("health", "job", JOB, "preflight-failed", failed)
    house.settle()
    house.now = Instant(house.now + 7_200_000_000_000)


def test_checks_that_fail_again_count_against_the_node_only_after_the_job_ran() -> None:
    """As the scheduler counts them, whose count is what a checkpoint has of it."""
    house = VirtualHealth()
    house.join("a", "b")
    house.run(JOB, "red", "a")
    for attempt in (1, 2):
        failed_checks(house, attempt)
        house.write("scheduler", "job", JOB, "queued", JobQueued(queue="q", attempt=attempt + 1))
    assert codes(house) == ["check-device-count"]
    house.run(JOB, "red", "a")
    house.write("scheduler", "job", JOB, "running", JobRunning(attempt=3))
    failed_checks(house, 3)
    assert codes(house) == ["check-device-count"] * 2


def test_a_lemon_that_a_person_gave_back_is_none_again_because_a_program_fails() -> None:
    house = VirtualHealth()
    house.join(*(f"n{number}" for number in range(30)), "a")
    for _ in range(5):
        see(house, "xid-79")
        house.now = after(house.now, 43_200)
    told = codes(house).count("lemon")
    assert told
    house.write("federation", "node", "a", "verify-forwarded", VerifyRequested(principal="ann", trust=True))
    house.settle()
    house.now = after(house.now, 8 * 86_400)
    house.run(JOB, "red", "a")
    house.fail(JOB, "a")
    house.settle()
    assert codes(house).count("lemon") == told
    assert house.phase("node", "a") is HealthPhase.HEALTHY


def test_what_a_lemon_is_withheld_for_is_no_further_illness() -> None:
    house = VirtualHealth()
    house.join(*(f"n{number}" for number in range(30)), "a")
    see(house, "lemon")
    unit = house.unit("node", "a")
    assert unit is not None
    assert house.facts("suspect")
    assert not unit.incidents
