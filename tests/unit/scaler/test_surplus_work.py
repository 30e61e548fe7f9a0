"""What may never go costs no look: nodes at their least, however many are idle for however long."""

import pytest

from kit.scaler import VirtualScaler, composable, config
from muster.core import Instant
from muster.scaler.core.spare import Spare, SpareDevices
from muster.schemas.facts.scale import ScaleChosen

NODES = 6


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Devices that were looked at."""
    found = list[str]()
    look = SpareDevices.find

    def noted(spares: SpareDevices, uuid: str, now: Instant) -> Spare | None:
        found.append(uuid)
        return look(spares, uuid, now)

    monkeypatch.setattr(SpareDevices, "find", noted)
    return found


def idle(*, gpus: int, low: bool = False) -> VirtualScaler:
    """Nodes that keep two GPUs each; on each something small runs if they are low."""
    group = composable(nodes_max=NODES, nodes_min=NODES, gpus_min=2)
    world = VirtualScaler(config(group, gpu_idle_s=60, node_unneeded_s=60), pool=4)
    for index in range(1, NODES + 1):
        node = world.join("comp", index, gpus=gpus)
        if low:
            world.fill(f"b{index}", node, (), cpu_milli=100)
    world.skip(60)
    return world


@pytest.mark.parametrize("low", [False, True])
def test_nodes_at_their_least_are_not_looked_at(looks: list[str], low: bool) -> None:
    assert idle(gpus=2, low=low).settle() == []
    assert looks == []


@pytest.mark.parametrize("low", [False, True])
def test_what_is_beyond_their_least_goes(low: bool) -> None:
    chosen = [fact.payload for fact in idle(gpus=3, low=low).settle() if isinstance(fact.payload, ScaleChosen)]
    assert [len(one.devices) for one in chosen] == [1] * NODES


def test_devices_that_have_to_stay_are_not_offered_to_who_waits(looks: list[str]) -> None:
    world = idle(gpus=2)
    world.submit("large", gpus=4, cpu_milli=100_000)
    assert [fact.name for fact in world.settle()] == ["nothing-chosen"]
    assert looks == []
