"""`muster history` and `muster report usage`."""

import csv
import io
import json
from datetime import UTC

import pytest

from muster.cli import accounting
from muster.cli.accounting_commands import ReportBy
from muster.cli.errors import CliError
from muster.cli.main import run
from muster.core.instant import NS_PER_S
from muster.schemas.job import Phase
from muster.schemas.views import JobView
from unit.cli.fake_muster import FakeMuster

HOUR_NS = 3_600 * NS_PER_S
NOON_NS = 1_700_000_000 * NS_PER_S


def an_ended(letter: str, **fields: object) -> JobView:
    """A job that waited for one hour, and ran for two on four GPUs."""
    usual: dict[str, object] = {
        "id": letter * 26, "name": f"job-{letter.lower()}", "team": "blue", "principal": "ann", "queue": "blue",
        "phase": Phase.SUCCEEDED, "gpu_milli": 4_000, "ran_s": 7_200.0, "submitted_at": NOON_NS,
        "running_at": NOON_NS + HOUR_NS, "ended_at": NOON_NS + 3 * HOUR_NS, "attempt": 1, "cluster": "atlas",
        "nodes": ("gpu-01", "gpu-02"),
    }  # fmt: skip
    return JobView(**{**usual, **fields})  # type: ignore[arg-type]


@pytest.fixture
def jobs(muster: FakeMuster) -> None:
    for job in (
        an_ended("A", measured_s=7_200.0, busy_s=3_600.0),
        an_ended("B", team="red", principal="bob", phase=Phase.FAILED, exit_code=3, preemptions=2, attempt=4),
        an_ended("C", gpu_milli=500, ran_s=3_600.0),
    ):
        muster.jobs[job.id] = job


def test_a_job_has_all_columns_of_sacct() -> None:
    row = dict(zip(accounting.COLUMNS_ALL, accounting.job_row(an_ended("A"), zone=UTC), strict=True))
    assert row == {
        "JOBID": "A" * 26, "NAME": "job-a", "USER": "ann", "TEAM": "blue", "STATE": "succeeded", "EXIT": "0",
        "ENDED": "2023-11-15T01:13:20+00:00", "ELAPSED": "2:00:00", "WAITED": "1:00:00", "GPUS": "4", "GPU_H": "8.00",
        "BUSY_H": "-", "QUEUE": "blue", "SUBMITTED": "2023-11-14T22:13:20+00:00",
        "STARTED": "2023-11-14T23:13:20+00:00", "NODES": "gpu-[01-02]", "ATTEMPTS": "1", "PREEMPTIONS": "0",
        "CLUSTER": "atlas",
    }  # fmt: skip


def test_a_job_that_never_ran_waited_all_the_time() -> None:
    job = an_ended("A", ran_s=0.0, running_at=0, phase=Phase.CANCELLED)
    assert (accounting.waited_s(job), accounting.gpu_hours(job)) == (3 * 3_600.0, 0.0)
    assert accounting.job_row(job)[14] == "-"


@pytest.mark.usefixtures("jobs")
def test_filters_are_passed_on(muster: FakeMuster) -> None:
    words = ["--user", "ann", "--team", "blue", "--queue", "blue", "--state", "timed-out", "--limit", "7"]
    period = ["--from", "2026-11-01T00:00Z", "--to", "2026-11-02T00:00Z"]
    assert run(["history", *words, *period]) == 0
    assert muster.lists == [
        {
            "team": "blue", "queue": "blue", "phase": Phase.TIMED_OUT, "user": "ann", "ended": True,
            "ended_from": 1_793_491_200 * NS_PER_S, "ended_before": 1_793_577_600 * NS_PER_S, "limit": 7,
        }
    ]  # fmt: skip


@pytest.mark.usefixtures("jobs")
def test_csv_and_json_have_all_columns_and_a_cut_list_is_noted(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["history", "-o", "csv", "--limit", "2"]) == 0
    out, err = capsys.readouterr()
    rows = list(csv.DictReader(io.StringIO(out)))
    assert tuple(rows[0]) == accounting.COLUMNS_ALL
    assert [(row["EXIT"], row["BUSY_H"], row["PREEMPTIONS"]) for row in rows] == [("0", "1.00", "0"), ("3", "-", "2")]
    assert err == "at most 2 jobs are shown; --limit raises this number\n"
    assert run(["history", "-o", "json"]) == 0
    assert [row["busy_s"] for row in json.loads(capsys.readouterr().out)] == [3_600.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("by", "keys"),
    [
        (ReportBy.TEAM, ["blue", "red"]),
        (ReportBy.QUEUE, ["blue"]),
        (ReportBy.USER, ["ann", "bob"]),
        (ReportBy.JOB, ["A" * 26, "B" * 26, "C" * 26]),
    ],
)
@pytest.mark.usefixtures("jobs")
def test_a_report_loses_nothing_however_it_is_grouped(muster: FakeMuster, by: ReportBy, keys: list[str]) -> None:
    accounts = accounting.sums(muster.jobs.values(), by)
    assert [one.key for one in accounts] == keys
    whole = accounting.total(muster.jobs.values())
    assert (whole.jobs, whole.failed, whole.preemptions) == (3, 1, 2)
    assert (whole.gpu_hours, whole.measured_hours, whole.busy_hours, whole.waited_h) == (16.5, 2.0, 1.0, 4.0)
    for name in ("jobs", "failed", "gpu_hours", "measured_hours", "busy_hours", "waited_h", "preemptions"):
        assert sum(getattr(one, name) for one in accounts) == getattr(whole, name)


@pytest.mark.usefixtures("jobs")
def test_a_report_is_a_table_with_a_total_json_or_csv(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", "usage", "--by", "team"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        ["TEAM", "JOBS", "FAILED", "GPU_H", "MEASURED_H", "BUSY_H", "BUSY", "WAITED_H", "PREEMPTIONS"],
        ["blue", "2", "0", "8.50", "2.00", "1.00", "50%", "3.00", "0"],
        ["red", "1", "1", "8.00", "0.00", "0.00", "-", "1.00", "2"],
        ["total", "3", "1", "16.50", "2.00", "1.00", "50%", "4.00", "2"],
    ]
    assert run(["report", "usage", "--by", "user", "-o", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["by"], [row["gpu_hours"] for row in told["rows"]]) == ("user", [8.5, 8.0])
    assert run(["report", "usage", "--by", "job", "-o", "csv"]) == 0
    assert [row["NAME"] for row in csv.DictReader(io.StringIO(capsys.readouterr().out))] == ["job-a", "job-b", "job-c"]


@pytest.mark.usefixtures("jobs")
def test_a_period_with_too_many_jobs_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("muster.cli.accounting_commands.LIMIT_MAX", 2)
    assert run(["report", "usage"]) == 3
    assert "more than 2 jobs ended in this period" in capsys.readouterr().err


def test_a_time_ago_is_a_moment() -> None:
    assert accounting.moment("2h", option="--from", now_ns=NOON_NS) == NOON_NS - 2 * HOUR_NS
    assert accounting.moment("1d12h", option="--from", now_ns=NOON_NS) == NOON_NS - 36 * HOUR_NS
    for wrong in ("yesterday", "2", "7 days", "2026-13-01"):
        with pytest.raises(CliError, match=r"^--from: "):
            accounting.moment(wrong, option="--from", now_ns=NOON_NS)


@pytest.mark.parametrize("words", [["--from", "1d", "--to", "2d"], ["--from", "soon"], ["--state", "running"]])
def test_a_wrong_period_or_state_is_a_mistake_of_usage(muster: FakeMuster, words: list[str]) -> None:
    assert run(["history", *words]) == 2
    assert muster.lists == []
