"""What a replay is reported to have come to."""

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.cli.replaying import write_report
from muster.openb.account import Account, JobSeen, seen_in_fact
from muster.openb.report import ReplayReport, allocation, allocation_csv, percentile, report_of
from muster.openb.trace import OpenbNode
from muster.schemas.facts.job import JobFinished, JobUnschedulable
from muster.schemas.job import Phase
from unit.openb.virtual import task

NODES = (OpenbNode("n-1", 64_000, 1024, 8, "T4"), OpenbNode("n-2", 64_000, 1024, 2, "T4"))
S = 1_000_000_000


def an_account() -> Account:
    """a: placed at 2 s, ends at 6 s on 2 GPUs. b: at 4 s to 10 s on half a GPU. c: never. d: refused."""
    account = Account([task("a", gpus=2), task("b", gpus=0, gpu_milli=500), task("c"), task("d")])
    for index in range(3):
        account.submitted(index, f"id-{index}")
        account.see(JobSeen(f"id-{index}", Phase.SUBMITTED, 100 * S))
    account.refused(3, "unknown queue")
    account.see(JobSeen("id-0", Phase.PLACED, 102 * S))
    account.see(JobSeen("id-1", Phase.PLACED, 104 * S))
    account.see(JobSeen("id-0", Phase.SUCCEEDED, 106 * S))
    account.see(JobSeen("id-1", Phase.FAILED, 110 * S))
    account.see(JobSeen("id-2", Phase.QUEUED, 101 * S, "gpus", "1 wanted, 0 free"))
    account.give_up(account.records[2])
    account.see(JobSeen("id-2", Phase.CANCELLED, 109 * S, "the replay gave it up"))
    return account


def a_report() -> ReplayReport:
    return report_of(an_account(), NODES, speedup=3600.0)


def test_every_task_is_counted_once() -> None:
    report = a_report()
    assert (report.finished, report.never_placed, report.refused, report.unfinished) == (2, 1, 1, 0)
    assert (report.tasks, report.placed, report.succeeded, report.failed) == (4, 2, 1, 1)
    assert (report.nodes, report.gpus, report.wall_s) == (2, 10, 10.0)


def test_the_planned_time_stands_beside_the_real_one() -> None:
    report = report_of(an_account(), NODES, speedup=50.0)
    assert (report.planned_s, report.wall_s) == (2.0, 10.0)


def test_who_was_left_is_named_with_the_reason_for_waiting() -> None:
    left = {part.task: (part.reason, part.detail) for part in a_report().left}
    assert left == {"c": ("gpus", "1 wanted, 0 free"), "d": ("unknown queue", "")}


def test_waits_are_from_submitted_to_placed() -> None:
    wait = a_report().wait_s
    assert (wait.p50, wait.p99, wait.max) == (2.0, 4.0, 4.0)


def test_waits_are_told_in_the_time_of_the_trace_too() -> None:
    wait = a_report().wait_trace_s
    assert (wait.p50, wait.p99, wait.max) == (2 * 3600.0, 4 * 3600.0, 4 * 3600.0)


def late_account() -> Account:
    """Hourly tasks at 3600x, one a second: the second one and the third one are submitted 3 s late."""
    account = Account([task(name, at_s=hour * 3600, lasts_s=3600) for hour, name in enumerate("abc")])
    for index, (submitted_s, ended_s) in enumerate(((100, 101), (104, 105), (105, 106))):
        account.submitted(index, f"id-{index}")
        account.see(JobSeen(f"id-{index}", Phase.SUBMITTED, submitted_s * S))
        account.see(JobSeen(f"id-{index}", Phase.PLACED, submitted_s * S))
        account.see(JobSeen(f"id-{index}", Phase.SUCCEEDED, ended_s * S))
    return account


def test_a_driver_behind_its_plan_says_by_how_much() -> None:
    report = report_of(late_account(), NODES, speedup=3600.0)
    assert (report.wall_s, report.planned_s) == (6.0, 3.0)
    assert (report.late_s.p50, report.late_s.max) == (3.0, 3.0)


def test_the_curve_of_a_driver_behind_its_plan_ends_with_the_trace() -> None:
    curve = report_of(late_account(), NODES, speedup=3600.0).allocation
    assert [point.trace_h for point in curve] == sorted(point.trace_h for point in curve)
    assert curve[250].trace_h == pytest.approx(0.75), "after 3 of 4 seconds for the first hour"
    assert curve[-1].trace_h == pytest.approx(3.0, abs=0.1), "as the trace does, though it took 6 s"


def test_the_curve_is_the_mean_over_each_stretch_in_hours_of_the_trace() -> None:
    spans = [(2.0, 6.0, 2.0), (4.0, 10.0, 0.5)]
    points = allocation(spans, wall_s=10.0, trace_s=lambda wall_s: wall_s * 3600, points=5)
    assert [point.gpus for point in points] == pytest.approx([0.0, 2.0, 2.5, 0.5, 0.5])
    assert [point.tasks for point in points] == pytest.approx([0.0, 1.0, 2.0, 1.0, 1.0])
    assert [point.trace_h for point in points] == pytest.approx([0.0, 2.0, 4.0, 6.0, 8.0])


def test_the_most_gpus_at_once_counts_no_hand_over_twice() -> None:
    assert a_report().gpus_allocated_max == 2.5
    account = Account([task("a", gpus=8), task("b", gpus=8)])
    for index in range(2):
        account.submitted(index, f"id-{index}")
        account.see(JobSeen(f"id-{index}", Phase.SUBMITTED, 0 + S))
        account.see(JobSeen(f"id-{index}", Phase.PLACED, (1 + index) * S))
        account.see(JobSeen(f"id-{index}", Phase.SUCCEEDED, (2 + index) * S))
    assert report_of(account, NODES, speedup=1.0).gpus_allocated_max == 8.0


@given(st.lists(st.tuples(st.floats(0, 50), st.floats(0, 50), st.floats(0, 8)), max_size=20), st.integers(1, 50))
def test_the_curve_loses_no_gpu_time(spans: list[tuple[float, float, float]], points: int) -> None:
    whole = [(begin, begin + lasts, gpus) for begin, lasts, gpus in spans]
    curve = allocation(whole, wall_s=100.0, trace_s=lambda wall_s: wall_s, points=points)
    assert sum(point.gpus for point in curve) * 100.0 / points == pytest.approx(
        sum(lasts * gpus for _, lasts, gpus in spans), abs=1e-6
    )


def test_a_replay_of_nothing_has_a_report() -> None:
    report = report_of(Account([]), (), speedup=1.0)
    assert (report.tasks, report.wait_s.p99, report.allocation) == (0, 0.0, ())


@pytest.mark.parametrize(("percent", "value"), [(50, 2.0), (99, 4.0), (100, 4.0), (0, 1.0), (25, 1.0), (26, 2.0)])
def test_percentiles_are_by_nearest_rank(percent: float, value: float) -> None:
    assert percentile([1.0, 2.0, 3.0, 4.0], percent) == value


def test_files_are_written_and_read_back(tmp_path: Path) -> None:
    report = a_report()
    json, table, picture = write_report(report, tmp_path / "new" / "folder")
    assert ReplayReport.model_validate_json(json.read_bytes()) == report
    rows = list(csv.DictReader(io.StringIO(table.read_text())))
    assert len(rows) == len(report.allocation) == 500
    assert float(rows[250]["gpus_allocated"]) == pytest.approx(2.5)
    assert float(rows[250]["allocated_pct"]) == pytest.approx(25.0)
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_report_of_nothing_is_drawn_too(tmp_path: Path) -> None:
    write_report(report_of(Account([]), (), speedup=1.0), tmp_path)
    assert allocation_csv(report_of(Account([]), (), speedup=1.0)).count("\n") == 1


def test_facts_of_a_job_say_its_phase() -> None:
    names = ["routed", "queued", "placed", "running", "succeeded", "timed-out", "pods-started", "stop-requested"]
    phases = [seen.phase if (seen := seen_in_fact(job_id="j", name=name, at=1)) else None for name in names]
    assert phases == [
        Phase.SUBMITTED, Phase.QUEUED, Phase.PLACED, Phase.RUNNING, Phase.SUCCEEDED, Phase.TIMED_OUT, None, None,
    ]  # fmt: skip


def test_facts_of_a_job_say_why_it_waits_or_ended() -> None:
    waiting = seen_in_fact(job_id="j", name="unschedulable", at=1, payload=JobUnschedulable(reason="gpus", detail="2"))
    ended = seen_in_fact(job_id="j", name="failed", at=1, payload=JobFinished(reason="exit code 1"))
    assert waiting == JobSeen("j", Phase.QUEUED, 1, "gpus", "2")
    assert ended == JobSeen("j", Phase.FAILED, 1, "exit code 1")


def test_a_second_placement_does_not_lengthen_the_wait() -> None:
    account = Account([task("a")])
    account.submitted(0, "id")
    for phase, at in ((Phase.SUBMITTED, 1), (Phase.PLACED, 3), (Phase.QUEUED, 5), (Phase.PLACED, 7)):
        account.see(JobSeen("id", phase, at * S))
    assert account.records[0].wait_s == 2.0
    assert account.counts().live == 1


def test_facts_out_of_order_change_nothing_that_is_known() -> None:
    account = Account([task("a")])
    for phase, at in ((Phase.SUCCEEDED, 9), (Phase.PLACED, 5), (Phase.SUBMITTED, 2), (Phase.QUEUED, 3)):
        account.see(JobSeen("id", phase, at))
    account.submitted(0, "id")
    (record,) = account.records
    assert (record.phase, record.submitted_at, record.placed_at, record.ended_at) == (Phase.SUCCEEDED, 2, 5, 9)
    assert account.is_complete
