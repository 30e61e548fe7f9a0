"""When a gang will fit: the first moment at which it does, as releasing everything in order of time finds it."""

import hypothesis.strategies as st
from hypothesis import example, given, settings

from kit.placement_world import World, gangs, observed, steps
from muster.placement import Fleet, GangRequest, GroupRequest, Hold, Slot, TaskShape, TopologyRequest
from muster.placement.forecast import Forecast, Outlook, Release, earliest
from unit.placement.builders import fleet_of, gang, node, one, task

moments = st.lists(st.integers(0, 6), min_size=25, max_size=25)


def running(fleet: Fleet, *bounds: tuple[str, int], gpus: int = 8) -> list[Release]:
    """One job of so many GPUs per bound, on the node named."""
    found = []
    for number, (name, at) in enumerate(bounds):
        idle = fleet.ledger.nodes[name].devices_idle(1000, gpus)
        fleet.hold(Hold(0, 0, Slot(0, 0, name, idle, 1000)))
        found.append(Release(f"{name}-{number}", at, (Hold(0, 0, Slot(0, 0, name, idle, 1000)),)))
    return found


def first_moment(world: World, releases: list[Release], gang: GangRequest, *, now: int) -> int | None:
    """As plain as the definition: at each moment release what is due by then, and place."""
    for at in sorted({now, *(release.at for release in releases if release.at > now)}):
        due = [hold for release in releases if release.at <= at for hold in release.holds]
        for hold in due:
            world.fleet.withdraw(hold)
        fits = world.fleet.find(gang) is not None
        for hold in reversed(due):
            world.fleet.hold(hold)
        if fits:
            return at
    return None


def check_it_can_be_done(world: World, releases: list[Release], found: Forecast, gang: GangRequest) -> None:
    """Once the named releases have come the holds are free, and without any one of them they are not."""
    by_key = {release.key: release for release in releases}
    for left_out in (None, *found.rests_on):
        done = [h for key in found.rests_on if key != left_out for h in by_key[key].holds]
        for hold in done:
            world.fleet.withdraw(hold)
        taken = []
        try:
            for hold in found.holds:
                world.fleet.hold(hold)
                taken.append(hold)
        except ValueError:
            assert left_out is not None
        else:
            assert left_out is None
        for hold in taken:
            world.fleet.withdraw(hold)
        for hold in reversed(done):
            world.fleet.hold(hold)


ONE_SOCKET = GangRequest((GroupRequest(TaskShape(0, 5000, gpus=1), 1),), TopologyRequest("socket", True))
CORDONED = [
    ("place", one(TaskShape(0, 0))),
    ("cordon", 0),
    ("place", GangRequest((
        GroupRequest(TaskShape(0, 0, gpu_models=("A",), full_node=True), 2),
        GroupRequest(TaskShape(0, 5000, gpus=1), 4),
        GroupRequest(TaskShape(0, 1000, gpus=1), 2, topology=TopologyRequest("node", False)),
    ))),
]  # fmt: skip
"""What comes free at once is most on nodes without sockets."""
NO_DEVICES = GangRequest(
    (GroupRequest(TaskShape(0, 0, full_node=True, models_excluded=("A",)), 3),), None, same_model=True
)
"""Of one model, it says, but it holds no device: nodes of any other model will do."""


@given(steps, moments, gangs, st.integers(0, 3))
@example(CORDONED, [0] * 25, ONE_SOCKET, 0)
@example([("place", one(TaskShape(0, 0)))], [0] * 25, NO_DEVICES, 0)
@settings(max_examples=200, deadline=None)
def test_the_moment_is_the_first_at_which_the_gang_fits(
    history: list[tuple[str, object]], bounds: list[int], asked: GangRequest, now: int
) -> None:
    world = World()
    for kind, value in history:
        world.step(kind, value)
    releases = [Release(f"j{i}", bounds[i], holds) for i, (_, holds) in enumerate(world.running)]
    before, version = observed(world.fleet), world.fleet.version
    found = earliest(world.fleet, asked, releases, now=now)
    assert (observed(world.fleet), world.fleet.version) == (before, version), "a forecast changes nothing"
    expected = first_moment(world, releases, asked, now=now)
    if found is None:
        assert expected is None
        return
    due = {release.key: max(now, release.at) for release in releases}
    assert found.at == max((due[key] for key in found.rests_on), default=now)
    assert expected is not None or len(asked.groups) > 1
    if len(asked.groups) == 1:
        assert found.at == expected
    if not any(group.shape.full_node for group in asked.groups):
        check_it_can_be_done(world, releases, found, asked)
    shuffled = Outlook(world.fleet, releases[::-1], now=now).earliest(asked)
    assert shuffled is not None
    assert shuffled.at == found.at


def test_a_gang_that_fits_now_waits_for_nothing() -> None:
    fleet = fleet_of([node("a"), node("b")])
    releases = running(fleet, ("a", 50))
    found = earliest(fleet, one(task(8)), releases, now=10)
    assert found is not None
    assert (found.at, found.rests_on, found.holds[0].slot.node) == (10, (), "b")


def test_a_gang_waits_for_the_last_of_the_nodes_it_needs_and_for_nobody_else() -> None:
    fleet = fleet_of([node("a"), node("b"), node("c"), node("d", gpus=2)])
    releases = running(fleet, ("a", 300), ("b", 100), ("c", 200)) + running(fleet, ("d", 50), gpus=2)
    found = earliest(fleet, gang((task(8), 2)), releases, now=0)
    assert found is not None
    assert (found.at, found.rests_on) == (200, ("b-1", "c-2"))


def test_a_moment_that_has_passed_counts_as_now() -> None:
    fleet = fleet_of([node("a")])
    found = earliest(fleet, one(task(8)), running(fleet, ("a", 5)), now=70)
    assert found is not None
    assert (found.at, found.rests_on) == (70, ("a-0",))


def test_one_rack_is_waited_for_though_scattered_nodes_come_free_before() -> None:
    fleet = fleet_of([node(f"{rack}{i}", rack=rack) for rack in "xy" for i in range(2)])
    releases = running(fleet, ("x0", 10), ("x1", 400), ("y0", 20), ("y1", 300))
    scattered, together = gang((task(8), 2)), gang((task(8), 2), level="rack")
    assert [f and (f.at, f.rests_on) for f in (earliest(fleet, g, releases, now=0) for g in (scattered, together))] == [
        (20, ("x0-0", "y0-2")),
        (300, ("y0-2", "y1-3")),
    ]


def test_a_preferred_rack_is_kept_to_where_it_does_not_cost_time() -> None:
    fleet = fleet_of([node(f"{rack}{i}", rack=rack) for rack in "xy" for i in range(2)])
    releases = running(fleet, ("x0", 10), ("x1", 10), ("y0", 10), ("y1", 300))
    found = earliest(fleet, gang((task(8), 2), level="rack", required=False), releases, now=0)
    assert found is not None
    assert (found.at, found.rests_on) == (10, ("x0-0", "x1-1"))


def test_what_comes_free_on_a_cordoned_or_removed_node_is_of_no_use() -> None:
    fleet = fleet_of([node("a"), node("b")])
    releases = [*running(fleet, ("a", 10), ("b", 20)), Release("gone", 5, (Hold(0, 0, Slot(0, 0, "z", (0,), 1000)),))]
    fleet.set_usable("a", False)
    found = earliest(fleet, one(task(8)), releases, now=0)
    assert found is not None
    assert (found.at, found.rests_on) == (20, ("b-1",))
    fleet.set_device_usable("b", 3, False)
    assert earliest(fleet, one(task(8)), releases, now=0) is None


def test_groups_that_would_each_fit_alone_wait_until_they_fit_together() -> None:
    """Counting alone promises the gang its place at 10; only the placer sees that both groups want the same GPUs."""
    fleet = fleet_of([node("a"), node("b")])
    releases = running(fleet, ("a", 10), ("b", 90))
    found = earliest(fleet, gang((task(8), 1), (task(4), 1)), releases, now=0)
    assert found is not None
    assert (found.at, found.rests_on) == (90, ("a-0", "b-1"))


def test_what_holds_nothing_of_the_place_is_not_waited_for() -> None:
    """Eight single GPUs come free on one node; a job for two of them rests on two."""
    fleet = fleet_of([node("a")])
    releases = running(fleet, *(("a", at) for at in (80, 10, 30, 20, 70, 60, 50, 40)), gpus=1)
    found = earliest(fleet, one(task(2)), releases, now=0)
    assert found is not None
    assert (found.at, found.rests_on) == (20, ("a-1", "a-3"))


@given(steps, moments, st.lists(gangs, min_size=2, max_size=5), st.lists(st.integers(1, 5), min_size=5, max_size=5))
@settings(max_examples=150, deadline=None)
def test_gangs_planned_one_after_the_other_never_meet(
    history: list[tuple[str, object]], bounds: list[int], asked: list[GangRequest], lengths: list[int]
) -> None:
    """Played in time, everybody finds free what was foreseen."""
    world = World()
    for kind, value in history:
        world.step(kind, value)
    releases = [Release(f"j{i}", bounds[i], holds) for i, (_, holds) in enumerate(world.running)]
    before, version = observed(world.fleet), world.fleet.version
    outlook = Outlook(world.fleet, releases, now=0)
    events = [(release.at, 0, release.holds) for release in releases]
    for wanted, length in zip(asked, lengths, strict=False):
        found = outlook.earliest(wanted)
        if found is not None:
            outlook.plan(found.holds, starts_at=found.at, ends_at=found.at + length)
            events += [(found.at, 1, found.holds), (found.at + length, 0, found.holds)]
    assert (observed(world.fleet), world.fleet.version) == (before, version), "planning changes nothing"
    for _, is_start, holds in sorted(events, key=lambda event: event[:2]):
        for hold in holds:
            (world.fleet.hold if is_start else world.fleet.withdraw)(hold)


def test_who_is_planned_first_is_not_delayed_by_smaller_ones() -> None:
    """Idle GPUs on the node that a big gang waits for are not for a small job that could start now and stay on."""
    fleet = fleet_of([node("a"), node("b")])
    releases = running(fleet, ("a", 100), gpus=4) + running(fleet, ("b", 300))
    outlook = Outlook(fleet, releases, now=0)
    big = outlook.earliest(one(task(8)))
    assert big is not None
    assert (big.at, big.holds[0].slot.node) == (100, "a")
    assert outlook.earliest(one(task(2))) is not None
    outlook.plan(big.holds, starts_at=big.at, ends_at=200)
    small = outlook.earliest(one(task(2)))
    assert small is not None
    assert (small.at, small.holds[0].slot.node) == (200, "a")


def test_of_many_that_go_at_the_same_moment_it_rests_on_as_few_as_can_be() -> None:
    fleet = fleet_of([node("a")])
    releases = running(fleet, *(("a", at) for at in (10, 10, 10, 10, 90, 90, 90, 90)), gpus=1)
    found = earliest(fleet, one(task(2)), releases, now=0)
    assert found is not None
    assert (found.at, len(found.rests_on)) == (10, 2)


def test_one_node_that_comes_free_is_rather_waited_for_than_many() -> None:
    fleet = fleet_of([node(name) for name in "abcde"])
    scattered = [release for name in "abcd" for release in running(fleet, (name, 10), (name, 99), gpus=1)]
    for name in "abcd":
        running(fleet, (name, 0), gpus=6)
    together = running(fleet, ("e", 10), ("e", 99), gpus=4)
    found = earliest(fleet, gang((task(1), 4)), [*scattered, *together], now=0)
    assert found is not None
    assert (found.at, found.rests_on) == (10, ("e-0",))
