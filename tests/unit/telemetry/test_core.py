"""What is said of jobs' use, when, and what survives a change of leaders."""

import pytest

from kit.telemetry import CONFIG, VirtualTelemetry, device, job_id, slot
from muster.core import Draft
from muster.core.virtual import recover
from muster.schemas.facts.federation import JobReturned
from muster.schemas.facts.telemetry import JobUseReported
from muster.schemas.telemetry import ExporterState
from muster.telemetry.core import core
from muster.telemetry.core.core import TelemetryCore


def measured(seconds: int = 30) -> tuple[VirtualTelemetry, str]:
    """A job of two GPUs that was read every ten seconds."""
    harness = VirtualTelemetry()
    harness.join("n1")
    job = harness.place(0, slot("n1", 0, 1))
    for step in range(1, seconds // 10 + 1):
        harness.now_s = 10.0 * step
        energy = 5_000_000 * step
        harness.read(
            "n1",
            device("n1", 0, job, busy=80.0, sm_active_pct=50.0, energy_mj=energy),
            device("n1", 1, job, busy=0.0, sm_active_pct=0.0, energy_mj=energy),
        )
    return harness, job


def report_of(drafts: list[Draft]) -> JobUseReported:
    (draft,) = drafts
    assert isinstance(draft.payload, JobUseReported)
    return draft.payload


def test_a_running_job_is_reported_now_and_then_and_a_short_one_at_its_end_alone() -> None:
    harness, job = measured()
    assert harness.settle() == []
    harness.end(job)
    report = report_of(harness.settle())
    assert report.is_last
    assert (report.gpus, report.use.measured_s, report.use.busy_s, report.use.idle_s) == (2, 60.0, 24.0, 30.0)
    assert (report.use.sm_active_s, report.use.sm_measured_s) == (15.0, 60.0)
    assert [one.index for one in report.devices] == [1, 0], "the least busy first"
    assert harness.settle() == []
    assert harness.core.next_wakeup() is None


def test_reports_come_at_their_interval() -> None:
    harness, job = measured()
    harness.now_s = 10.0 + CONFIG.report_s
    harness.read("n1", device("n1", 0, job))
    assert harness.core.next_wakeup() is not None
    assert not report_of(harness.settle()).is_last
    assert harness.settle() == []
    harness.now_s += CONFIG.report_s
    assert len(harness.settle()) == 1


def test_energy_comes_from_the_counters_and_from_the_power_until_there_are_two() -> None:
    harness, _ = measured(30)
    total = harness.core.meters.jobs[job_id(0)].total()
    assert total.energy_j == 2 * (500.0 * 10) + 2 * 2 * 5_000.0


def test_a_counter_that_began_anew_is_no_energy() -> None:
    harness, job = measured(20)
    before = harness.core.meters.jobs[job].total().energy_j
    harness.now_s = 30.0
    harness.read("n1", device("n1", 0, job, energy_mj=7))
    assert harness.core.meters.jobs[job].total().energy_j - before == 500.0 * 10


def test_what_was_not_read_was_not_measured() -> None:
    harness, job = measured(20)
    harness.now_s = 320.0
    harness.read("n1", device("n1", 0, job))
    assert harness.core.meters.jobs[job].total().measured_s == 40.0 + 10.0


def test_a_job_that_began_within_the_interval_is_measured_from_its_placement() -> None:
    harness = VirtualTelemetry()
    harness.join("n1")
    harness.now_s = 7.0
    job = harness.place(0, slot("n1", 0))
    harness.now_s = 10.0
    harness.read("n1", device("n1", 0, job))
    assert harness.core.meters.jobs[job].total().measured_s == 3.0


def test_a_part_of_a_gpu_counts_as_its_part() -> None:
    harness = VirtualTelemetry()
    harness.join("n1")
    first, second = harness.place(0, slot("n1", 0, milli=250)), harness.place(1, slot("n1", 0, milli=500))
    harness.now_s = 10.0
    harness.read("n1", device("n1", 0, first, second))
    assert harness.core.meters.jobs[first].total().measured_s == 2.5
    assert harness.core.meters.jobs[second].total().measured_s == 5.0


@pytest.mark.parametrize("how", [ExporterState.STALE, ExporterState.HUNG])
def test_a_page_that_cannot_be_believed_measures_nothing(how: ExporterState) -> None:
    harness = VirtualTelemetry()
    harness.join("n1")
    job = harness.place(0, slot("n1", 0))
    harness.now_s = 10.0
    harness.read("n1", device("n1", 0, job), state=how)
    assert harness.core.meters.jobs == {}


def test_another_leader_goes_on_from_what_was_reported() -> None:
    harness, job = measured()
    harness.now_s = 10.0 + CONFIG.report_s
    harness.settle()
    heir = VirtualTelemetry()
    recover(heir.core, harness.snapshot())
    heir.join("n1")
    heir.now_s = 0.0
    heir.place(0, slot("n1", 0, 1))
    heir.now_s = harness.now_s + 10.0
    heir.read("n1", device("n1", 0, job, busy=100.0), device("n1", 1, job))
    total = heir.core.meters.jobs[job].total()
    assert total.measured_s == 60.0 + 20.0
    assert heir.core.meters.jobs[job].gpus == 2


def test_the_last_word_is_said_though_nobody_measured_when_the_job_ended() -> None:
    harness, job = measured()
    harness.now_s = 10.0 + CONFIG.report_s
    harness.settle()
    harness.core.forget()
    harness.end(job)
    report = report_of(harness.settle())
    assert (report.is_last, report.use.measured_s) == (True, 60.0)
    assert harness.settle() == []


@pytest.mark.parametrize("is_settled", [True, False])
def test_a_job_that_was_given_back_and_comes_again_is_a_live_one(is_settled: bool) -> None:
    harness, job = measured()
    harness.exit(job)
    harness.write("scheduler", "job", job, "returned", JobReturned(assignment=1))
    if is_settled:
        assert report_of(harness.settle()).is_last
    harness.place(0, slot("n1", 0))
    for step in range(1, 12):
        harness.now_s = 60.0 + CONFIG.report_s / 10 * step
        harness.read("n1", device("n1", 0, job))
        for draft in harness.settle():
            assert isinstance(draft.payload, JobUseReported)
            assert not draft.payload.is_last
            assert harness.settle() == []
    assert (list(harness.core.state.over), list(harness.core.state.unfinished)) == ([], [])
    assert job in harness.core.meters.jobs
    harness.end(job)
    assert report_of(harness.settle()).is_last
    assert list(harness.core.state.over) == [job]


def test_a_last_word_that_crosses_the_jobs_coming_again_does_not_end_it() -> None:
    harness, job = measured()
    harness.exit(job)
    harness.write("scheduler", "job", job, "returned", JobReturned(assignment=1))
    last = report_of(harness.core.decide(harness.now))
    harness.place(0, slot("n1", 0))
    harness.write("telemetry", "job", job, "use-reported", last)
    harness.write("telemetry", "job", job, "use-reported", last.model_copy(update={"is_last": False}))
    assert (list(harness.core.state.over), list(harness.core.state.unfinished)) == ([], [])


def test_a_snapshot_folds_to_the_same_state() -> None:
    harness, job = measured()
    harness.end(job)
    harness.settle()
    copy = recover(TelemetryCore(CONFIG), harness.snapshot())
    assert copy.state.reports == harness.core.state.reports
    assert list(copy.state.over) == list(harness.core.state.over) == [job]
    assert copy.decide(harness.now) == []


def test_jobs_that_are_over_are_forgotten_by_and_by(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "OVER_MAX", 2)
    harness = VirtualTelemetry()
    for number in range(4):
        last = JobUseReported.model_validate({"use": {}, "is_last": True})
        harness.write("telemetry", "job", job_id(number), "use-reported", last)
    assert list(harness.core.state.reports) == [job_id(2), job_id(3)]


def test_short_jobs_that_no_reading_met_are_not_spoken_of() -> None:
    harness = VirtualTelemetry()
    harness.join("n1")
    harness.end(harness.place(0, slot("n1", 0)))
    assert harness.settle() == []
    assert harness.core.state.reports == {}
