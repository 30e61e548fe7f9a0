"""Shapes for which nothing helps cost nothing until something changes that could make it otherwise."""

import pytest

from kit.scaler import VirtualScaler, composable, config
from muster.scaler.core.limits import LOOKS_MAX
from muster.scaler.core.pending_pass import PendingPass
from muster.schemas.facts.scale import NothingChosen, ScaleChosen

SHAPES = 120


class Seen:
    """Counts how many jobs the walks see."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.jobs = 0
        see = PendingPass._process

        def counted(one_pass: PendingPass, *args: object) -> bool | None:
            self.jobs += 1
            return see(one_pass, *args)

        monkeypatch.setattr(PendingPass, "_process", counted)


def refused(**values: object) -> VirtualScaler:
    """Many shapes wait for GPUs that nobody has."""
    world = VirtualScaler(config(composable(nodes_max=2, **values)), pool=0)
    world.join("comp", 1)
    for i in range(SHAPES):
        world.submit(f"j{i}", cpu_milli=1_000 + i)
    said = world.settle()
    assert sum(isinstance(fact.payload, NothingChosen) for fact in said) == SHAPES
    return world


def test_a_job_more_is_seen_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    world = refused()
    world.decide_once("scaler")
    seen = Seen(monkeypatch)
    world.submit("more", cpu_milli=999)
    world.settle()
    assert seen.jobs <= 2 * LOOKS_MAX, "it, and the last that were told"


def test_a_change_of_the_pool_has_each_of_them_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    world = refused()
    world.decide_once("scaler")
    seen = Seen(monkeypatch)
    world.survey(free=0)
    while world.core.decide(world.now) or world.core.next_wakeup() == world.now:
        pass
    assert SHAPES <= seen.jobs <= 3 * SHAPES, "not all of them again for every few"


def test_what_the_pool_gets_is_given_to_the_first_of_them() -> None:
    world = refused()
    world.decide_once("scaler")
    world.survey(free=1)
    (chosen,) = [fact for fact in world.settle() if isinstance(fact.payload, ScaleChosen)]
    assert world.jobs[chosen.payload.jobs[0]].job.spec.name == "j0"


def test_a_quota_that_is_raised_is_noticed() -> None:
    world = VirtualScaler(config(composable(nodes_max=1)), pool=1)
    world.queue("lab", quota={"gpu_milli": 0}, borrowing_limit={"gpu_milli": 0})
    world.join("comp", 1)
    world.submit("one")
    assert world.settle() == []
    world.queue("lab")
    assert [fact.name for fact in world.settle()] == ["gpu-attach-chosen"]


def test_nothing_is_taken_while_not_everybody_who_waits_was_looked_at() -> None:
    world = VirtualScaler(config(composable(nodes_max=2, nodes_min=2), gpu_idle_s=60), pool=0)
    world.join("comp", 1, gpus=1)
    world.join("comp", 2)
    world.skip(60)
    for i in range(SHAPES):
        world.submit(f"j{i}", gpus=4, cpu_milli=1_000 + i)
    assert {fact.name for fact in world.decide_once("scaler")} == {"nothing-chosen"}


def test_a_job_is_helped_once_an_idle_device_has_stood_for_its_time() -> None:
    world = VirtualScaler(config(composable(nodes_max=2), gpu_idle_s=100, node_unneeded_s=10_000), pool=1)
    world.join("comp", 1)
    world.join("comp", 2)
    first = world.submit("first", cpu_milli=1_000)
    (chosen,) = world.settle()
    device = world.online(*world.accept(chosen))
    world.settle()
    world.end(first)
    world.fill("hog", chosen.payload.parts[0].node, (), cpu_milli=14_000)
    world.submit("second", cpu_milli=8_000)
    assert [fact.name for fact in world.settle()] == ["nothing-chosen"]
    wake = world.core.next_wakeup()
    assert wake == world.now + 100_000_000_000
    world.now = wake
    decided = [world.core.decide(world.now), world.recover().decide(world.now)]
    for drafts in decided:
        assert [draft.payload.devices for draft in drafts if isinstance(draft.payload, ScaleChosen)] == [(device,)]
