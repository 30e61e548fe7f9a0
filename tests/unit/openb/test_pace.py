"""The trace's time while a replay runs, on plan or behind it."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.openb.account import Account, JobSeen
from muster.openb.report import Submission, TraceClock, lateness_s, submissions
from muster.schemas.job import Phase
from unit.openb.virtual import task

S = 1_000_000_000


def test_a_driver_on_plan_goes_through_the_trace_at_the_speedup() -> None:
    submitted = [Submission(0.0, 50.0), Submission(1.0, 60.0), Submission(5.0, 100.0)]
    clock = TraceClock(submitted, speedup=10.0)
    assert [clock.trace_s(wall_s) for wall_s in (0, 0.5, 3, 5, 7)] == [50.0, 55.0, 80.0, 100.0, 120.0]
    assert lateness_s(submitted, speedup=10.0) == [0.0, 0.0, 0.0]


def test_a_driver_behind_its_plan_goes_slower() -> None:
    submitted = [Submission(0.0, 0.0), Submission(4.0, 10.0)]
    clock = TraceClock(submitted, speedup=10.0)
    assert (clock.trace_s(2.0), clock.trace_s(4.0), clock.trace_s(5.0)) == (5.0, 10.0, 20.0)
    assert lateness_s(submitted, speedup=10.0) == [0.0, 3.0]


def test_what_never_became_a_job_is_left_out() -> None:
    account = Account([task("a", at_s=10), task("b", at_s=20), task("c", at_s=30)])
    for index, at in ((0, 5 * S), (2, 7 * S)):
        account.submitted(index, f"id-{index}")
        account.see(JobSeen(f"id-{index}", Phase.SUBMITTED, at))
    account.refused(1, "unknown queue")
    assert submissions(account.records) == (Submission(0.0, 10.0), Submission(2.0, 30.0))


def test_nothing_submitted_has_a_clock_too() -> None:
    assert TraceClock((), speedup=3.0).trace_s(2.0) == pytest.approx(6.0)
    assert lateness_s((), speedup=3.0) == []


MOMENTS = st.floats(0, 1000)


@given(st.lists(st.tuples(MOMENTS, MOMENTS), max_size=20), st.lists(MOMENTS))
def test_the_clock_never_goes_back(pairs: list[tuple[float, float]], looks: list[float]) -> None:
    pairs.sort()
    began = pairs[0][0] if pairs else 0.0
    clock = TraceClock([Submission(wall - began, trace) for wall, trace in pairs], speedup=7.0)
    told = [clock.trace_s(wall_s) for wall_s in sorted(looks)]
    assert all(later >= earlier - 1e-6 for earlier, later in itertools.pairwise(told))
