"""What teams used, day by day: folded from jobs' reports, and what live jobs used since then."""

import pytest

from kit.telemetry import VirtualTelemetry, device, slot
from muster.core import Instant
from muster.core.instant import NS_PER_S
from muster.core.virtual import recover
from muster.schemas.facts.telemetry import JobUseReported, Use
from muster.schemas.usage import AskEnergy, Energy
from muster.schemas.usage_words import EnergyBy
from muster.telemetry.core import core
from muster.telemetry.core.answers import answer_energy
from muster.telemetry.core.core import DAYS_KEPT, OTHERS, S_PER_DAY, Accounts

KWH_J = 3.6e6


def at_day(number: float) -> Instant:
    return Instant(round(number * S_PER_DAY) * NS_PER_S)


def said(team: str, energy_j: float, *, queue: str = "q", measured_s: float = 0.0) -> JobUseReported:
    return JobUseReported(use=Use(energy_j=energy_j, measured_s=measured_s), team=team, queue=queue)


def asked(harness: VirtualTelemetry, **fields: object) -> Energy:
    return answer_energy(harness.core, AskEnergy.model_validate(fields), harness.now)


def drawing(harness: VirtualTelemetry, *jobs: tuple[str, int], seconds: float) -> None:
    """Each of these jobs has a GPU of n1 that draws 1 kW, in readings of 10 s."""
    for _ in range(round(seconds / 10)):
        harness.now_s += 10.0
        harness.read("n1", *(device("n1", index, job, power_w=1_000.0) for job, index in jobs))
        harness.settle()


def measured(seconds: float) -> VirtualTelemetry:
    """Two teams, of which `lab` has two jobs; all of them run for so long."""
    harness = VirtualTelemetry()
    harness.join("n1")
    jobs = [
        (harness.place(number, slot("n1", number), team=team), number)
        for number, team in enumerate(("lab", "lab", "art"))
    ]
    drawing(harness, *jobs, seconds=seconds)
    return harness


def test_energy_is_summed_by_team_reported_or_not() -> None:
    harness = measured(900.0)
    assert harness.core.state.reports, "some of it was reported"
    answer = asked(harness)
    assert [(row.key, row.energy_kwh, row.gpu_hours) for row in answer.rows] == [("lab", 0.5, 0.5), ("art", 0.25, 0.25)]
    assert (answer.energy_kwh, answer.total) == (0.75, 2)


def test_what_a_job_used_counts_once_when_it_is_over() -> None:
    harness = measured(900.0)
    before = asked(harness)
    for job in tuple(harness.core.holdings.jobs):
        harness.end(job)
    harness.settle()
    assert harness.core.meters.jobs == {}
    assert asked(harness).rows == before.rows


def test_one_team_by_queue() -> None:
    answer = asked(measured(900.0), by=EnergyBy.QUEUE, team="art")
    assert [(row.energy_kwh, row.idle_gpu_hours) for row in answer.rows] == [(0.25, 0.0)]


def test_no_more_rows_than_asked_for_but_the_sum_of_all() -> None:
    answer = asked(measured(900.0), limit=1)
    assert (len(answer.rows), answer.total, answer.energy_kwh) == (1, 2, 0.75)


def test_only_what_was_reported_on_these_days_counts() -> None:
    book = Accounts()
    book.report(at_day(10.9), said("lab", KWH_J), None)
    book.report(at_day(11.1), said("lab", 3 * KWH_J), Use(energy_j=KWH_J))
    assert book.since(11)["lab", "q"].energy_j == 2 * KWH_J
    assert book.since(10)["lab", "q"].energy_j == 3 * KWH_J


def test_a_report_that_says_less_than_the_one_before_adds_nothing() -> None:
    book = Accounts()
    book.report(at_day(10), said("lab", 5.0), None)
    book.report(at_day(10), said("lab", 3.0), Use(energy_j=5.0))
    assert book.since(0)["lab", "q"].energy_j == 5.0


def test_days_and_accounts_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "ACCOUNTS_A_DAY_MAX", 3)
    book = Accounts()
    for day in range(1, DAYS_KEPT + 11):
        for team in ("a", "b", "c", "d"):
            book.report(at_day(day), said(team, 1.0), None)
    sums = {whose: account.energy_j for whose, account in book.since(0).items()}
    assert sums == {("a", "q"): DAYS_KEPT, ("b", "q"): DAYS_KEPT, OTHERS: 2 * DAYS_KEPT}


def test_a_checkpoint_holds_what_was_used() -> None:
    harness = measured(900.0)
    for job in tuple(harness.core.holdings.jobs):
        harness.end(job)
    harness.settle()
    again = VirtualTelemetry()
    again.now = harness.now
    recover(again.core, harness.snapshot())
    assert asked(again) == asked(harness)
    assert list(again.core.snapshot()) == list(harness.core.snapshot())
