"""Whatever fails, in whatever order: every attempt is told once, runs whole or not at all, and nothing stays behind."""

import pytest

from muster.kube.objects import name_of, namespace_of
from muster.kube.resources import PODS
from unit.agent.kubernetes.adopted_storm import THEIRS, AdoptedStorm
from unit.agent.kubernetes.storm import Storm

STEPS = 120


@pytest.mark.parametrize("resizes", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_attempts_are_told_once_run_whole_and_leave_nothing_behind(seed: int, resizes: bool) -> None:
    storm = Storm(seed, resizes=resizes)
    for _ in range(STEPS):
        storm.step()
    storm.heal()
    for key, slots in storm.slots.items():
        assert len(storm.run_by(key)) == len(slots), f"{key} runs in part: {storm.run_by(key)}"
        assert key in storm.started
    assert not storm.resizing, "every resize was told"
    for key in list(storm.slots):
        storm.end(key, grace_s=1)
    storm.calm()
    storm.calm()
    assert not storm.slots, "every attempt exited"
    assert [name_of(raw) for raw in storm.store.all(PODS)] == []
    assert not storm.cluster.gangs.attempts
    assert not len(storm.cluster.worklist)


@pytest.mark.parametrize("seed", range(20))
def test_places_are_checked_before_the_pods_of_others_and_never_beside_them(seed: int) -> None:
    storm = AdoptedStorm(seed)
    for _ in range(STEPS):
        storm.step()
    storm.heal()
    for key, slots in storm.slots.items():
        assert key in storm.opened, f"{key} was never opened"
        assert len(storm.run_by(key)) == len(slots), f"{key} runs in part: {storm.run_by(key)}"
    assert {namespace_of(raw) for raw in storm.store.all(PODS)} <= {THEIRS}, "nothing that checks is left"
    for key in list(storm.slots):
        storm.end(key, grace_s=1)
    storm.calm()
    assert not storm.slots, "every attempt exited"
    storm.clear()
    storm.calm()
    assert [name_of(raw) for raw in storm.store.all(PODS)] == []
    assert not storm.cluster.gangs.attempts
    assert not len(storm.cluster.worklist)
