"""Devices that the composer saw on a machine before it knew its node."""

import dataclasses

from kit.scaler import VirtualScaler, composable, config
from muster.core import Draft, Fact
from muster.scaler.core import ScalerCore
from muster.schemas.facts.device import AttachmentRequested, DeviceAttached
from muster.schemas.facts.scale import ScaleChosen


class NamelessNodes(VirtualScaler):
    """The composer names no node."""

    def append(self, writer: str, draft: Draft, **rest: str) -> Fact:
        if isinstance(draft.payload, AttachmentRequested | DeviceAttached):
            draft = dataclasses.replace(draft, payload=draft.payload.model_copy(update={"node": ""}))
        return super().append(writer, draft, **rest)


def moved() -> VirtualScaler:
    """The only idle device is to move to another node."""
    world = NamelessNodes(config(composable(nodes_max=2), gpu_idle_s=100, node_unneeded_s=10_000))
    world.survey(free=0)
    donor = world.join("comp", 1, gpus=1)
    world.join("comp", 2)
    world.fill("hog", donor, (), cpu_milli=12_000)
    world.skip(150)
    world.submit("first", cpu_milli=8_000)
    (chosen,) = world.settle()
    assert isinstance(chosen.payload, ScaleChosen)
    assert chosen.payload.devices
    return world


def test_one_that_moves_is_not_there_for_the_next_job() -> None:
    world = moved()
    world.submit("second", cpu_milli=1_000)
    assert [fact.name for fact in world.settle()] == ["nothing-chosen"]


def test_they_belong_to_the_node_that_shows_them() -> None:
    world = moved()
    cores: tuple[ScalerCore, ...] = (world.core, world.refold(), world.recover())
    for core in cores:
        assert [one.node for one in core.state.attachments.all.values()] == ["comp-0001"]
