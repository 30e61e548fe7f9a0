"""Whatever happens to a fleet: the books balance, and remembering never changes a decision."""

from collections.abc import Sequence
from dataclasses import replace

import hypothesis.strategies as st
from hypothesis import given, settings

from kit.placement_world import (
    NODES,
    World,
    chances,
    gangs,
    observed,
    shapes,
    steps,
)
from muster.placement import (
    Fleet,
    GangRequest,
    GroupRequest,
    Hold,
    Shortage,
    TaskShape,
    TopologyRequest,
)
from unit.placement import naive

NODE_OF = {shape.name: shape for shape in NODES}


def plainly(shape: TaskShape) -> TaskShape:
    """The same without a wish for a level inside nodes."""
    return replace(shape, within="", within_required=False)


@given(steps, gangs)
@settings(max_examples=150, deadline=None)
def test_a_gang_is_placed_whole_where_it_may_be_or_not_at_all(
    history: list[tuple[str, object]], gang: GangRequest
) -> None:
    world = World()
    for kind, value in history:
        world.step(kind, value)
    before = observed(world.fleet)
    holds = world.fleet.place(gang)
    assert observed(world.fleet) == before, "a proposal changes nothing"
    if isinstance(holds, Shortage):
        assert holds.detail
        return
    for g, group in enumerate(gang.groups):
        placed = [hold.slot.replica for hold in holds if hold.slot.group == g]
        assert placed == list(range(len(placed)))
        assert group.replicas_least <= len(placed) <= group.replicas
    assert [hold.slot.group for hold in holds] == sorted(hold.slot.group for hold in holds)
    for hold in holds:
        group = gang.groups[hold.slot.group]
        node = world.plain[hold.slot.node]
        assert naive.runs(node, group.shape)
        assert node.usable
        assert not node.broken & set(hold.slot.devices)
        expected = len(node.idle) if group.shape.full_node else max(group.shape.gpus, bool(group.shape.gpu_milli))
        assert len(hold.slot.devices) == expected
        check_inside(node, hold, gang)
    check_topology(world, holds, gang.topology)
    for g, group in enumerate(gang.groups):
        check_topology(world, [hold for hold in holds if hold.slot.group == g], group.topology)
    if gang.same_model:
        asks = [gang.groups[hold.slot.group].shape.holds_devices for hold in holds]
        assert len({world.plain[h.slot.node].shape.gpu_model for h, ask in zip(holds, asks, strict=True) if ask}) < 2
    world.start(gang)


def check_inside(node: naive.NaiveNode, hold: Hold, gang: GangRequest) -> None:
    """The devices of a replica stand in one domain of every level inside nodes that is required of them."""
    group = gang.groups[hold.slot.group]
    own, of_all = group.topology, gang.topology
    levels = {group.shape.within} if group.shape.within_required else set()
    if not group.shape.within:
        request = own if own is not None and own.level in {"socket", "pair"} else None
        if of_all is not None and of_all.level in {"socket", "pair"} and (request is None or not request.required):
            request = of_all if request is None or of_all.required else request
        levels |= {request.level} if request is not None and request.required else set()
    for level in levels:
        chosen = set(hold.slot.devices)
        assert not chosen or any(chosen <= domain for domain in naive.domains(node, level))


def check_topology(world: World, holds: Sequence[Hold], request: TopologyRequest | None) -> None:
    """Replicas stand in one domain of a required level of nodes."""
    if request is None or not request.required or request.level in {"socket", "pair"}:
        return
    depth = {"block": 1, "rack": 2}.get(request.level, 0)
    where = {world.plain[h.slot.node].shape.domains[:depth] if depth else h.slot.node for h in holds}
    assert len(where) == 1


@given(steps)
@settings(max_examples=150, deadline=None)
def test_releasing_everything_restores_the_fleet_exactly(history: list[tuple[str, object]]) -> None:
    world, untouched = World(), World()
    for kind, value in history:
        world.step(kind, value)
        if kind in {"cordon", "break"}:
            untouched.step(kind, value)
    while world.running:
        world.step("release", 0)
    assert observed(world.fleet) == observed(untouched.fleet)


def check_choice(node: naive.NaiveNode, found: Hold, expected: Hold) -> None:
    """On a node with device domains the devices stand as close together, and as tight, as any."""
    assert replace(found, slot=replace(found.slot, devices=())) == replace(
        expected, slot=replace(expected.slot, devices=())
    )
    if found.slot.gpu_milli == 1000:
        sets = naive.device_sets(node, len(found.slot.devices))
        assert naive.tightness(node, found.slot.devices) == naive.tightness(node, sets[0])
    else:
        assert [node.idle[i] for i in found.slot.devices] == [node.idle[i] for i in expected.slot.devices]
        for i in found.slot.devices:
            others = [j for j in range(len(node.idle)) if j not in node.broken and node.idle[j] == node.idle[i]]
            assert naive.tightness(node, (i,)) == min(naive.tightness(node, (j,)) for j in others)


@given(st.lists(shapes, min_size=1, max_size=6, unique=True), st.lists(chances, min_size=10, max_size=60), st.data())
@settings(max_examples=100, deadline=None)
def test_remembering_never_changes_a_decision(pool: list[TaskShape], chances: list[int], data: st.DataObject) -> None:
    """Every choice in a long history is the one that scoring every node afresh makes."""
    world = World()
    classes = data.draw(
        st.dictionaries((st.sampled_from(pool) | shapes).map(plainly), st.sampled_from([1.0, 2.0, 5.0]), max_size=5)
    )
    world.step("demand", classes)
    for chance in chances:
        if chance % 10 == 0:
            world.toggle("cordon" if chance % 20 else "break", chance // 10)
        elif chance % 10 < 3:
            world.step("release", chance)
        else:
            task = pool[chance % len(pool)]
            expected = naive.place(world.plain.values(), task, world.demand)
            before = naive.copy(world.plain)
            answer = world.start(GangRequest((GroupRequest(task, 1),)))
            found = None if isinstance(answer, Shortage) else answer[0]
            if found is None or expected is None or not NODE_OF[expected.slot.node].device_domains or task.full_node:
                assert found == expected
            else:
                check_choice(before[found.slot.node], found, expected)


@given(steps)
@settings(max_examples=100, deadline=None)
def test_a_fleet_rebuilt_from_its_holds_decides_the_same(history: list[tuple[str, object]]) -> None:
    """What a follower knows after recovery, in whatever order it learned it, leads to the same choice."""
    world = World()
    for kind, value in history:
        world.step(kind, value)
    rebuilt = Fleet()
    rebuilt.set_demand(world.demand)
    for shape in reversed(NODES):
        rebuilt.add_node(shape)
    for node in world.plain.values():
        rebuilt.set_usable(node.shape.name, node.usable)
        for device in node.broken:
            rebuilt.set_device_usable(node.shape.name, device, False)
    for _, holds in reversed(world.running):
        for hold in holds:
            rebuilt.hold(hold)
    for asked in (TaskShape(500, 0, gpu_milli=250), TaskShape(0, 0, gpus=1), TaskShape(1000, 1000)):
        gang = GangRequest((GroupRequest(asked, 2),), TopologyRequest("rack", required=False))
        assert rebuilt.place(gang) == world.fleet.place(gang)
