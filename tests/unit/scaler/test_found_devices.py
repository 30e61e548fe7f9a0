"""Devices that the composer saw on a machine before it knew its node."""

import pytest

from muster.scaler.core import ScalerCore
from muster.schemas.facts.device import AttachmentRequested, DeviceAttached
from muster.schemas.facts.scale import ScaleChosen
from unit.scaler.scaling_world import World, composable, config


@pytest.fixture
def nameless(monkeypatch: pytest.MonkeyPatch) -> None:
    """The composer names no node."""
    say = World.say

    def blank(*args: object, **rest: object) -> object:
        *others, payload = args
        if isinstance(payload, AttachmentRequested | DeviceAttached):
            payload = payload.model_copy(update={"node": ""})
        return say(*others, payload, **rest)

    monkeypatch.setattr(World, "say", blank)


def moved() -> World:
    """The only idle device is to move to another node."""
    world = World(config(composable(nodes_max=2), gpu_idle_s=100, node_unneeded_s=10_000))
    world.survey(free=0)
    donor = world.join("comp", 1, gpus=1)
    world.join("comp", 2)
    world.fill("hog", donor, (), cpu_milli=12_000)
    world.later(150)
    world.submit("first", cpu_milli=8_000)
    (chosen,) = world.run()
    assert isinstance(chosen.payload, ScaleChosen)
    assert chosen.payload.devices
    return world


@pytest.mark.usefixtures("nameless")
def test_one_that_moves_is_not_there_for_the_next_job() -> None:
    world = moved()
    world.submit("second", cpu_milli=1_000)
    assert [fact.name for fact in world.run()] == ["nothing-chosen"]


@pytest.mark.usefixtures("nameless")
def test_they_belong_to_the_node_that_shows_them() -> None:
    world = moved()
    cores: tuple[ScalerCore, ...] = (world.core, world.refold(), world.recover())
    for core in cores:
        assert [one.node for one in core.state.attachments.all.values()] == ["comp-0001"]
