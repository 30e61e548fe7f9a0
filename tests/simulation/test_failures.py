"""Weeks of one job on a fleet that fails: no moment of its time is unaccounted for, and health earns its keep."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.bus.settings import Settings
from muster.core import NS_PER_S, Instant
from muster.health.config import config_of
from muster.simulator.failures.account import Account, Bucket
from muster.simulator.failures.calendar import MIX, PLANNED, PUBLISHED, RATE, Mend, Odds, Shown, incidents, lemons_of
from muster.simulator.failures.run import play
from muster.simulator.failures.scene import GPUS, Scene

HEALTH = config_of(Settings(state_dir=Path(), credentials_dir=Path()))
SMALL = Scene(gpus=16 * GPUS, spares=6, days=3.0, seed=1, odds=Odds(rate=150.0, lemons=0.05))
"""Forty times the published rate, so that a few days of a few nodes have as many faults as weeks."""


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_second_is_in_one_bucket_and_the_job_is_never_lost(seed: int) -> None:
    outcome = play(replace(SMALL, seed=seed), HEALTH)
    assert sum(outcome.spent_s.values()) == pytest.approx(outcome.wall_s, abs=1e-6)
    assert all(seconds >= 0 for seconds in outcome.spent_s.values())
    assert outcome.given_up == ()
    assert outcome.effective > 0.85
    assert outcome.false == 0
    assert outcome.brakes == 0
    assert "not explained" not in outcome.interruptions
    assert outcome.total_interruptions <= outcome.runs - 1 + outcome.again + 1


def test_the_same_faults_cost_more_where_nobody_looks_at_pages() -> None:
    watched = play(SMALL, HEALTH)
    blind = play(replace(SMALL, with_health=False), HEALTH)
    assert blind.struck == watched.struck
    assert blind.quarantines == 0
    assert blind.effective < watched.effective - 0.02
    assert blind.again > watched.again
    assert blind.effective > 0.75, "people find what is broken, an hour after a program died of it"


@pytest.mark.parametrize("seed", [1, 2])
def test_people_are_called_for_what_nothing_else_mends_alone(seed: int) -> None:
    scene = replace(SMALL, seed=seed)
    struck = incidents(tuple(scene.fleet()), scene.odds, days=3, seed=seed, rack_nodes=scene.rack_nodes)
    parts = sum(one.mend is Mend.PERSON and one.sign.shown is not Shown.LOST for one in struck)
    assert play(scene, HEALTH).by_hand <= parts


def test_without_faults_only_checkpoints_and_the_first_start_cost_time() -> None:
    outcome = play(replace(SMALL, odds=Odds(rate=0.0)), HEALTH)
    assert outcome.interruptions == {}
    assert outcome.runs == 1
    assert outcome.spent_s[Bucket.LOST.value] == 0
    assert outcome.effective > 0.98


def test_planned_maintenance_moves_the_job_and_loses_next_to_no_work() -> None:
    outcome = play(replace(SMALL, odds=Odds(rate=30.0, planned=0.99)), HEALTH)
    moved = outcome.interruptions[PLANNED]
    assert moved > 10
    others = outcome.total_interruptions - moved
    assert outcome.spent_s[Bucket.LOST.value] < 10 * moved + 1200 * others


def test_the_same_seed_gives_the_same_weeks() -> None:
    assert play(SMALL, HEALTH) == play(SMALL, HEALTH)


def test_the_published_mix_strikes_as_often_as_published() -> None:
    nodes = tuple(f"n{index:04d}" for index in range(2048))
    odds = Odds(RATE)
    drawn = [incidents(nodes, odds, days=54, seed=seed, rack_nodes=2) for seed in range(8)]
    mean = sum(map(len, drawn)) / len(drawn)
    assert mean == pytest.approx(PUBLISHED, rel=0.06)
    faulty = sum(one.cause == MIX[0].name for some in drawn for one in some) / 8
    assert faulty == pytest.approx(MIX[0].count, rel=0.15)
    lemons = lemons_of(nodes, odds, seed=0)
    of_lemons = sum(one.nodes[0] in lemons for one in drawn[0]) / len(drawn[0])
    assert len(lemons) == 20
    assert of_lemons == pytest.approx(200 / 2228, rel=0.5)


EVENTS = ("running", "checkpointed", "struck", "told_to_end", "exited", "queued")


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(EVENTS), st.integers(0, 2000)), max_size=40))
def test_whatever_comes_in_whatever_order_no_moment_is_counted_twice_or_not_at_all(
    course: list[tuple[str, int]],
) -> None:
    account, now = Account(restart_s=300.0, saving_s=5.0, at=Instant(0)), 0
    for number, (event, after_s) in enumerate(course):
        now += after_s * NS_PER_S
        if event in ("struck", "told_to_end"):
            getattr(account, event)(Instant(now), "cause", number)
        elif event != "running" or not account.is_up:
            getattr(account, event)(Instant(now))
    account.close(Instant(now))
    assert sum(account.spent_ns.values()) == now
    assert min(account.spent_ns.values(), default=0) >= 0
