"""Hundreds of attachments and detachments over a fabric that fails, with leaders that change in mid-attach."""

import pytest

from muster_tools.bench.faults import Found, Plan, measure

PLAN = Plan(cycles=400, faults=0.1, seed=7)


@pytest.fixture(scope="module")
def found() -> Found:
    return measure(PLAN)


def test_no_device_is_leaked_or_given_to_two(found: Found) -> None:
    assert (found.leaked, found.doubly_attached, found.misplaced) == (0, 0, 0)


def test_nothing_stays_withheld(found: Found) -> None:
    assert found.withheld == 0


def test_everything_that_was_to_go_wrong_went_wrong(found: Found) -> None:
    assert found.cycles >= PLAN.cycles
    assert found.timeouts_after_success > 0
    assert found.leader_changes_in_attach > 5
    assert found.calls_lost > 0
    assert found.orphans_found > 0


def test_every_orphan_was_returned(found: Found) -> None:
    assert found.orphans_returned == found.orphans_found


def test_never_more_calls_were_under_way_than_allowed(found: Found) -> None:
    assert 0 < found.in_flight_max <= found.limit


def test_no_fact_surprised_the_composer(found: Found) -> None:
    assert found.anomalies == {}


def test_without_faults_and_with_them_the_same_work_is_done() -> None:
    calm = measure(Plan(cycles=100, faults=0.0, seed=7))
    assert (calm.leaked, calm.doubly_attached, calm.timeouts_after_success) == (0, 0, 0)


def test_the_same_plan_gives_the_same_figures() -> None:
    plan = Plan(cycles=60, faults=0.1, seed=3)
    assert measure(plan) == measure(plan)
