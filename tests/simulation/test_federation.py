"""Several clusters in virtual time, their links cut: no job is lost, none runs twice at once, pinned ones run on."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.federated import LOST_AFTER_S, MARGIN_S, Federated, job
from muster.schemas.facts.federation import ClusterPhase

LEASE_S, GIVEN_UP_S = LOST_AFTER_S - MARGIN_S, LOST_AFTER_S + MARGIN_S
SPREAD = {
    "rules": [
        {"name": "wide", "gpus_min": 3, "clusters": [{"cluster": "west"}, {"cluster": "east"}]},
        {"name": "rest", "clusters": [{"cluster": "east", "queue_max": 2}, {"cluster": "west"}]},
    ]
}


def names(house: Federated, cell: str, one: object) -> list[str]:
    return [f.name for f in house.cells[cell].log if f.subject_id == one.id and f.writer in ("scheduler", "agent")]  # type: ignore[attr-defined]


def test_a_job_runs_where_it_was_sent_and_its_end_comes_back() -> None:
    house, one = Federated(), job("one")
    house.at(1, lambda: house.submit(one))
    house.run(200)
    assert house.violations() == []
    assert [run[2] for run in house.runs()[one.id]] == ["east"]


def test_a_cluster_that_is_cut_off_ends_its_jobs_before_they_run_elsewhere() -> None:
    house, one = Federated(), job("one", run_s=300)
    house.at(1, lambda: house.submit(one))
    house.cut("east", start_s=50, for_s=1_000)
    house.run(1_500)
    assert house.violations() == []
    (_, left, first), (began, _, second) = house.runs()[one.id]
    assert (first, second) == ("east", "west")
    assert 2 * MARGIN_S / 2 < (began - left) / 1e9 < 2 * MARGIN_S + 15
    assert names(house, "east", one)[-1] == "returned", "it is told to drop it when the link is back"
    assert house.federation.state.members["east"].phase is ClusterPhase.ACTIVE


@pytest.mark.parametrize("at_s", [40, 100, 135, 165, 180, 400, 1_056])
def test_who_recovers_from_checkpoints_in_the_middle_of_it_ends_and_starts_nothing_twice(at_s: float) -> None:
    house, jobs = Federated(), [job(f"j{n}", run_s=300) for n in range(3)]
    for one in jobs:
        house.at(1, lambda one=one: house.submit(one))
    house.cut("east", start_s=50, for_s=1_000)
    house.at(at_s, lambda: house.crash_center(trimmed=True))
    for cell in house.cells.values():
        house.at(at_s, lambda cell=cell: cell.crash(trimmed=True))
    house.run(2_500)
    assert house.violations() == []
    assert {run[-1][2] for run in house.runs().values()} == {"west"}


def test_a_short_cut_moves_nothing() -> None:
    house, one = Federated(), job("one", run_s=300)
    house.at(1, lambda: house.submit(one))
    house.cut("east", start_s=50, for_s=LEASE_S - 20)
    house.run(600)
    assert house.violations() == []
    assert [run[2] for run in house.runs()[one.id]] == ["east"]


def test_after_a_cut_between_the_two_moments_the_job_begins_again_where_it_was() -> None:
    house, one = Federated(), job("one", run_s=300)
    house.at(1, lambda: house.submit(one))
    house.cut("east", start_s=50, for_s=LEASE_S + 10)
    house.run(800)
    assert house.violations() == []
    assert [run[2] for run in house.runs()[one.id]] == ["east", "east"]


def test_a_pinned_job_runs_through_the_outage() -> None:
    house, one = Federated(), job("one", run_s=500, pin=True)
    house.at(1, lambda: house.submit(one))
    house.cut("east", start_s=50, for_s=800)
    house.run(1_500)
    assert house.violations() == []
    ((began, ended, cell),) = house.runs()[one.id]
    assert (cell, round((ended - began) / 1e9)) == ("east", 501)


@pytest.mark.parametrize(("up", "down"), [(True, False), (False, True)])
def test_a_link_that_is_cut_in_one_direction_moves_the_jobs_too(up: bool, down: bool) -> None:
    house, one = Federated(), job("one", run_s=300)
    house.at(1, lambda: house.submit(one))
    house.cut("east", start_s=50, for_s=3_000, up=up, down=down)
    house.run(2_000)
    assert [run[2] for run in house.runs()[one.id]] == ["east", "west"]
    house.run(4_000)
    assert house.violations() == []


def test_answers_that_waited_behind_a_cut_and_come_one_by_one_keep_nothing_running() -> None:
    house, one = Federated(message_s=4.0), job("one", run_s=400)
    house.at(1, lambda: house.submit(one))
    house.cut("east", start_s=50, for_s=240, up=False)
    house.run(3_000)
    assert house.violations() == []
    assert {run[2] for run in house.runs()[one.id]} == {"east", "west"}


def test_an_end_that_was_not_told_in_time_counts_for_nothing() -> None:
    house, one = Federated(), job("one", run_s=60)
    house.at(1, lambda: house.submit(one))
    house.cut("east", start_s=20, for_s=1_000)
    house.run(1_500)
    assert names(house, "east", one)[-1] == "succeeded"
    assert names(house, "west", one)[-1] == "succeeded"
    assert house.violations() == []


def test_a_cluster_lost_in_a_surge_costs_no_job() -> None:
    house = Federated(("east", "west", "north"), policy=SPREAD)
    jobs = [job(f"j{n}", run_s=40 + n, gpus=1 + n % 4) for n in range(40)]
    for index, one in enumerate(jobs):
        house.at(1 + index / 2, lambda one=one: house.submit(one))
    house.cut("east", start_s=15, for_s=600)
    house.run(3_000)
    assert house.violations() == []


def test_a_drained_cluster_hands_over_what_waits_and_finishes_what_runs() -> None:
    house = Federated(nodes=1)
    jobs = [job(f"j{n}", run_s=100, gpus=2) for n in range(8)]
    for one in jobs:
        house.at(1, lambda one=one: house.submit(one))
    house.at(30, lambda: house.drain("east", "west"))
    house.run(60)
    assert [house.where(one) for one in jobs] == ["east"] * 2 + ["west"] * 6
    house.run(1_500)
    assert house.violations() == []
    assert house.federation.state.members["east"].phase is ClusterPhase.DRAINED
    assert {len(some) for some in house.runs().values()} == {1}, "nobody ran twice"


def test_a_federation_that_was_away_gives_up_nobody() -> None:
    house, one = Federated(), job("one", run_s=400)
    house.at(1, lambda: house.submit(one))
    house.take_away_center(start_s=50, for_s=600)
    house.run(1_700)
    assert house.violations() == []
    assert {run[2] for run in house.runs()[one.id]} == {"east"}


def test_when_all_links_break_at_once_the_first_that_is_back_does_not_take_what_the_others_have() -> None:
    house, one = Federated(), job("one", run_s=400)
    house.at(1, lambda: house.submit(one))
    house.cut("east", start_s=50, for_s=320)
    house.cut("west", start_s=50, for_s=300)
    house.run(1_200)
    assert house.violations() == []
    assert {run[2] for run in house.runs()[one.id]} == {"east"}


CELLS = ("east", "west", "north")
RATES = st.floats(-0.005, 0.005)
CUTS = st.tuples(
    st.sampled_from(CELLS), st.floats(5, 900), st.floats(5, 500), st.sampled_from([(1, 1), (1, 0), (0, 1)])
)
JOBS = st.tuples(st.floats(1, 600), st.floats(5, 250), st.integers(1, 4), st.booleans())
ACTS = st.tuples(
    st.floats(2, 900),
    st.sampled_from(("cancel", "reroute", "drain", "resume", "crash", "crash-cell", "trim", "trim-cell")),
    st.integers(0, 9),
    st.sampled_from(CELLS),
)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(RATES, min_size=4, max_size=4),
    st.lists(JOBS, min_size=1, max_size=10),
    st.lists(CUTS, max_size=6),
    st.lists(ACTS, max_size=6),
    st.sampled_from([0.0, 1.0, 4.0]),
)
def test_whatever_happens_every_job_ends_once_and_never_runs_twice_at_once(
    rates: list[float],
    wanted: list[tuple[float, float, int, bool]],
    cuts: list[tuple[str, float, float, tuple[int, int]]],
    acts: list[tuple[float, str, int, str]],
    message_s: float,
) -> None:
    house = Federated(CELLS, rates=rates, nodes=1, policy=SPREAD, message_s=message_s)
    jobs = [job(f"j{n}", run_s=run_s, gpus=gpus, pin=pin) for n, (_, run_s, gpus, pin) in enumerate(wanted)]
    for one, (at_s, *_) in zip(jobs, wanted, strict=True):
        house.at(at_s, lambda one=one: house.submit(one))
    for cell, start_s, for_s, (up, down) in cuts:
        house.cut(cell, start_s=start_s, for_s=for_s, up=bool(up), down=bool(down))
    for at_s, what, index, cell in acts:
        one = jobs[index % len(jobs)]
        house.at(at_s, lambda what=what, one=one, cell=cell: _act(house, what, one, cell))
    house.run(1_500)
    for cell in CELLS:
        house.resume(cell)
    house.run(4_500)
    assert house.violations() == []


def _act(house: Federated, what: str, one: object, cell: str) -> None:
    match what:
        case "cancel":
            house.cancel(one)  # type: ignore[arg-type]
        case "reroute":
            house.reroute(one, cell)  # type: ignore[arg-type]
        case "drain":
            house.drain(cell)
        case "resume":
            house.resume(cell)
        case "crash" | "trim":
            house.crash_center(trimmed=what == "trim")
        case _:
            house.cells[cell].crash(trimmed=what == "trim-cell")
