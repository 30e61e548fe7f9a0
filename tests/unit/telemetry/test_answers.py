"""Questions on the use of GPUs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.telemetry import BEGAN, VirtualTelemetry, device, slot
from muster.core import after
from muster.schemas.facts.telemetry import DeviceUse, Use
from muster.schemas.telemetry import ExporterState
from muster.schemas.usage import COLUMNS_MAX, AskIdle, AskJobUse, AskTop
from muster.schemas.usage_words import TopBy, TopOrder
from muster.telemetry.core.answers import advise, answer_idle, answer_job_use, answer_top
from muster.telemetry.core.sums import Series


def two_teams(seconds: int = 100) -> tuple[VirtualTelemetry, str, str]:
    """Team lab works on four GPUs; team nap holds two and does nothing."""
    harness = VirtualTelemetry()
    harness.join("n1")
    busy, idle = harness.place(0, slot("n1", 0, 1, 2, 3)), harness.place(1, slot("n1", 4, 5), team="nap")
    for step in range(1, seconds // 10 + 1):
        harness.now_s = 10.0 * step
        working = (device("n1", index, busy, sm_active_pct=60.0) for index in range(4))
        lazy = (device("n1", index, idle, busy=0.0, sm_active_pct=0.0, power_w=70.0) for index in (4, 5))
        harness.read("n1", *working, *lazy, device("n1", 6))
    return harness, busy, idle


def test_top_shows_jobs_by_their_gpus_with_work_beside_liveness() -> None:
    harness, busy, idle = two_teams()
    top = answer_top(harness.core, AskTop(), harness.now)
    assert [(row.key, row.gpus, row.idle, row.busy_pct, row.sm_active_pct) for row in top.rows] == [
        (busy, 4, 0, 90.0, 60.0),
        (idle, 2, 2, 0.0, 0.0),
    ]
    assert (top.gpus_expected, top.gpus_seen, top.held, top.idle_held) == (8, 7, 6, 2)
    assert top.rows[0].power_w == 2_000.0


def test_top_by_team_the_idle_first() -> None:
    harness, _, _ = two_teams()
    top = answer_top(harness.core, AskTop(by=TopBy.TEAM, order=TopOrder.IDLE, limit=1), harness.now)
    assert [(row.key, row.idle, row.jobs) for row in top.rows] == [("nap", 2, 1)]
    assert top.total == 2


def test_what_was_not_read_lately_is_not_shown_as_if_it_were() -> None:
    harness, _, _ = two_teams()
    harness.now_s += 60.0
    assert answer_top(harness.core, AskTop(), harness.now).rows == ()


def test_exporters_that_do_not_answer_are_named() -> None:
    harness, _, _ = two_teams()
    harness.join("n2")
    harness.read("n2", state=ExporterState.HUNG)
    told = {one.state: (one.count, one.nodes) for one in answer_top(harness.core, AskTop(), harness.now).exporters}
    assert told == {"ok": (1, ()), "hung": (1, ("n2",))}


def test_idle_gpus_are_listed_by_team_once_they_were_idle_for_long() -> None:
    harness, _, job = two_teams(seconds=50)
    assert answer_idle(harness.core, AskIdle(), harness.now).total == 0
    harness, _, job = two_teams(seconds=100)
    idle = answer_idle(harness.core, AskIdle(), harness.now)
    assert [(one.team, one.held, one.idle) for one in idle.teams] == [("nap", 2, 2), ("lab", 4, 0)]
    assert {(one.index, one.job_id, one.idle_s) for one in idle.gpus} == {(4, job, 90.0), (5, job, 90.0)}


def test_a_gpu_that_worked_once_is_idle_anew() -> None:
    harness, _, job = two_teams()
    harness.now_s += 10.0
    harness.read("n1", device("n1", 4, job, busy=50.0))
    harness.now_s += 10.0
    harness.read("n1", device("n1", 4, job, busy=0.0))
    assert [one.index for one in answer_idle(harness.core, AskIdle(), harness.now).gpus] == [5]


def test_a_job_in_numbers_while_it_runs_and_once_it_is_over() -> None:
    harness, job, _ = two_teams()
    running = answer_job_use(harness.core, AskJobUse(job_id=job), harness.now)
    assert (running.is_over, running.gpus, running.team, running.user) == (False, 4, "lab", "ada")
    assert running.gpu_hours == pytest.approx(400 / 3600, abs=1e-4)
    assert running.energy_kwh == pytest.approx(400 * 500 / 3.6e6, abs=1e-4)
    assert (running.busy_pct, running.sm_active_pct, running.tensor_active_pct) == (90.0, 60.0, None)
    assert [column.busy_pct for column in running.columns] == [90.0] * len(running.columns)
    harness.end(job)
    harness.settle()
    over = answer_job_use(harness.core, AskJobUse(job_id=job), harness.now)
    assert (over.is_over, over.use, over.team) == (True, running.use, "lab")


def test_a_job_that_was_never_measured_is_not_known() -> None:
    harness = VirtualTelemetry()
    assert not answer_job_use(harness.core, AskJobUse(job_id="nobody"), harness.now).is_known


def use(**fields: float) -> Use:
    told = {"measured_s": 3_600.0, "busy_s": 3_500.0, "sm_measured_s": 3_600.0, "sm_active_s": 3_000.0}
    return Use.model_validate({**told, "memory_mib_max": 60_000, "memory_total_mib": 80_000, **fields})


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({}, "used well"),
        ({"idle_s": 1_800.0, "busy_s": 1_700.0}, "ask for fewer"),
        ({"busy_s": 700.0}, "wait for data"),
        ({"sm_active_s": 300.0}, "8 % of the SMs were active"),
        ({"tensor_measured_s": 3_600.0, "tensor_active_s": 36.0}, "lower precision"),
        ({"memory_mib_max": 4_000}, "4,000 of 80,000 MiB"),
    ],
)
def test_advice_follows_from_the_numbers(told: dict[str, float], words: str) -> None:
    (line,) = advise(use(**told), ())
    assert words in line


def test_gpus_that_differ_are_told_apart_and_hardly_measured_jobs_get_no_advice() -> None:
    devices = (
        DeviceUse(node="n1", index=0, use=use(busy_s=360.0)),
        DeviceUse(node="n1", index=1, use=use()),
    )
    assert advise(use(), devices) == ("the GPUs differ: n1/0 was busy 10 % of the time, another one 97 %",)
    assert advise(Use(measured_s=60.0), ()) == ()


@given(st.lists(st.tuples(st.integers(0, 10**6), st.floats(0.1, 60.0)), min_size=1, max_size=200))
def test_a_series_stays_bounded_and_loses_no_time(readings: list[tuple[int, float]]) -> None:
    series = Series(BEGAN)
    for at_s, seconds in sorted(readings):
        series.measure(device("n1", 0), seconds, energy_j=seconds * 500.0, at=after(BEGAN, at_s))
    columns = list(series.columns())
    assert len(columns) <= COLUMNS_MAX
    total = sum(column.gpus * series.width_s for column in columns)
    assert total == pytest.approx(
        sum(seconds for _, seconds in readings), rel=0.01, abs=0.01 * len(columns) * series.width_s
    )
