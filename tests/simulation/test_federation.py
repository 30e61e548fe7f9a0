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


def names(harness: Federated, cell: str, one: object) -> list[str]:
    return [f.name for f in harness.cells[cell].log if f.subject_id == one.id and f.writer in ("scheduler", "agent")]  # type: ignore[attr-defined]


def test_a_job_runs_where_it_was_sent_and_its_end_comes_back() -> None:
    harness, one = Federated(), job("one")
    harness.at(1, lambda: harness.submit(one))
    harness.run(200)
    assert harness.violations() == []
    assert [run[2] for run in harness.runs()[one.id]] == ["east"]


def test_a_cluster_that_is_cut_off_ends_its_jobs_before_they_run_elsewhere() -> None:
    harness, one = Federated(), job("one", run_s=300)
    harness.at(1, lambda: harness.submit(one))
    harness.cut("east", start_s=50, for_s=1_000)
    harness.run(1_500)
    assert harness.violations() == []
    (_, left, first), (began, _, second) = harness.runs()[one.id]
    assert (first, second) == ("east", "west")
    assert 2 * MARGIN_S / 2 < (began - left) / 1e9 < 2 * MARGIN_S + 15
    assert names(harness, "east", one)[-1] == "returned", "it is told to drop it when the link is back"
    assert harness.federation.state.members["east"].phase is ClusterPhase.ACTIVE


@pytest.mark.parametrize("at_s", [40, 100, 135, 165, 180, 400, 1_056])
def test_who_recovers_from_checkpoints_in_the_middle_of_it_ends_and_starts_nothing_twice(at_s: float) -> None:
    harness, jobs = Federated(), [job(f"j{n}", run_s=300) for n in range(3)]
    for one in jobs:
        harness.at(1, lambda one=one: harness.submit(one))
    harness.cut("east", start_s=50, for_s=1_000)
    harness.at(at_s, lambda: harness.crash_center(trimmed=True))
    for cell in harness.cells.values():
        harness.at(at_s, lambda cell=cell: cell.crash(trimmed=True))
    harness.run(2_500)
    assert harness.violations() == []
    assert {run[-1][2] for run in harness.runs().values()} == {"west"}


def test_a_short_cut_moves_nothing() -> None:
    harness, one = Federated(), job("one", run_s=300)
    harness.at(1, lambda: harness.submit(one))
    harness.cut("east", start_s=50, for_s=LEASE_S - 20)
    harness.run(600)
    assert harness.violations() == []
    assert [run[2] for run in harness.runs()[one.id]] == ["east"]


def test_after_a_cut_between_the_two_moments_the_job_begins_again_where_it_was() -> None:
    harness, one = Federated(), job("one", run_s=300)
    harness.at(1, lambda: harness.submit(one))
    harness.cut("east", start_s=50, for_s=LEASE_S + 10)
    harness.run(800)
    assert harness.violations() == []
    assert [run[2] for run in harness.runs()[one.id]] == ["east", "east"]


def test_a_pinned_job_runs_through_the_outage() -> None:
    harness, one = Federated(), job("one", run_s=500, pin=True)
    harness.at(1, lambda: harness.submit(one))
    harness.cut("east", start_s=50, for_s=800)
    harness.run(1_500)
    assert harness.violations() == []
    ((began, ended, cell),) = harness.runs()[one.id]
    assert (cell, round((ended - began) / 1e9)) == ("east", 501)


@pytest.mark.parametrize(("up", "down"), [(True, False), (False, True)])
def test_a_link_that_is_cut_in_one_direction_moves_the_jobs_too(up: bool, down: bool) -> None:
    harness, one = Federated(), job("one", run_s=300)
    harness.at(1, lambda: harness.submit(one))
    harness.cut("east", start_s=50, for_s=3_000, up=up, down=down)
    harness.run(2_000)
    assert [run[2] for run in harness.runs()[one.id]] == ["east", "west"]
    harness.run(4_000)
    assert harness.violations() == []


def test_answers_that_waited_behind_a_cut_and_come_one_by_one_keep_nothing_running() -> None:
    harness, one = Federated(message_s=4.0), job("one", run_s=400)
    harness.at(1, lambda: harness.submit(one))
    harness.cut("east", start_s=50, for_s=240, up=False)
    harness.run(3_000)
    assert harness.violations() == []
    assert {run[2] for run in harness.runs()[one.id]} == {"east", "west"}


def test_an_end_that_was_not_told_in_time_counts_for_nothing() -> None:
    harness, one = Federated(), job("one", run_s=60)
    harness.at(1, lambda: harness.submit(one))
    harness.cut("east", start_s=20, for_s=1_000)
    harness.run(1_500)
    assert names(harness, "east", one)[-1] == "succeeded"
    assert names(harness, "west", one)[-1] == "succeeded"
    assert harness.violations() == []


def test_a_cluster_lost_in_a_surge_costs_no_job() -> None:
    harness = Federated(("east", "west", "north"), policy=SPREAD)
    jobs = [job(f"j{n}", run_s=40 + n, gpus=1 + n % 4) for n in range(40)]
    for index, one in enumerate(jobs):
        harness.at(1 + index / 2, lambda one=one: harness.submit(one))
    harness.cut("east", start_s=15, for_s=600)
    harness.run(3_000)
    assert harness.violations() == []


def test_a_drained_cluster_hands_over_what_waits_and_finishes_what_runs() -> None:
    harness = Federated(nodes=1)
    jobs = [job(f"j{n}", run_s=100, gpus=2) for n in range(8)]
    for one in jobs:
        harness.at(1, lambda one=one: harness.submit(one))
    harness.at(30, lambda: harness.drain("east", "west"))
    harness.run(60)
    assert [harness.where(one) for one in jobs] == ["east"] * 2 + ["west"] * 6
    harness.run(1_500)
    assert harness.violations() == []
    assert harness.federation.state.members["east"].phase is ClusterPhase.DRAINED
    assert {len(some) for some in harness.runs().values()} == {1}, "nobody ran twice"


def test_a_federation_that_was_away_gives_up_nobody() -> None:
    harness, one = Federated(), job("one", run_s=400)
    harness.at(1, lambda: harness.submit(one))
    harness.take_away_center(start_s=50, for_s=600)
    harness.run(1_700)
    assert harness.violations() == []
    assert {run[2] for run in harness.runs()[one.id]} == {"east"}


def test_when_all_links_break_at_once_the_first_that_is_back_does_not_take_what_the_others_have() -> None:
    harness, one = Federated(), job("one", run_s=400)
    harness.at(1, lambda: harness.submit(one))
    harness.cut("east", start_s=50, for_s=320)
    harness.cut("west", start_s=50, for_s=300)
    harness.run(1_200)
    assert harness.violations() == []
    assert {run[2] for run in harness.runs()[one.id]} == {"east"}


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
    harness = Federated(CELLS, rates=rates, nodes=1, policy=SPREAD, message_s=message_s)
    jobs = [job(f"j{n}", run_s=run_s, gpus=gpus, pin=pin) for n, (_, run_s, gpus, pin) in enumerate(wanted)]
    for one, (at_s, *_) in zip(jobs, wanted, strict=True):
        harness.at(at_s, lambda one=one: harness.submit(one))
    for cell, start_s, for_s, (up, down) in cuts:
        harness.cut(cell, start_s=start_s, for_s=for_s, up=bool(up), down=bool(down))
    for at_s, what, index, cell in acts:
        one = jobs[index % len(jobs)]
        harness.at(at_s, lambda what=what, one=one, cell=cell: _act(harness, what, one, cell))
    harness.run(1_500)
    for cell in CELLS:
        harness.resume(cell)
    harness.run(4_500)
    assert harness.violations() == []


def _act(harness: Federated, what: str, one: object, cell: str) -> None:
    match what:
        case "cancel":
            harness.cancel(one)  # type: ignore[arg-type]
        case "reroute":
            harness.reroute(one, cell)  # type: ignore[arg-type]
        case "drain":
            harness.drain(cell)
        case "resume":
            harness.resume(cell)
        case "crash" | "trim":
            harness.crash_center(trimmed=what == "trim")
        case _:
            harness.cells[cell].crash(trimmed=what == "trim-cell")
