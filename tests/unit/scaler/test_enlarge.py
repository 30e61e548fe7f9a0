"""How few GPUs are enough: the engine is asked, nothing is taken in vain, and the fleet is left as it was."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kit.scaler import MODEL, VirtualScaler, composable, config
from kit.scaler_jobs import busy, part
from muster.placement.growth import grow
from muster.scaler.core.jobs import waiting_of
from muster.scaler.core.options import Lack, Option
from muster.schemas.facts.scale import ScalePart
from muster.schemas.job import TaskGroup, Topology


def option_of(world: VirtualScaler, **spec: object) -> Option | Lack:
    """What is found for this job alone."""
    one = world.submit("asked", **spec)
    policies = world.core.policies
    policies.future.settle()
    return policies.enlarging.enough(waiting_of(world.core.state.jobs.records[one.id]), world.now)


def fits(world: VirtualScaler, parts: tuple[ScalePart, ...]) -> bool:
    """Whether the job fits once the nodes have these devices. The world is not used afterwards."""
    state = world.core.state
    (queue,) = state.demand.pending.values()
    for one in parts:
        if one.count:
            grow(state.cluster.fleet, one.node, one.count, model=one.device_model)
    return state.cluster.fleet.find(queue.shape.least) is not None


gangs = st.one_of(
    st.builds(
        lambda replicas, gpus, cpu: {"replicas": replicas, "gpus": gpus, "cpu_milli": cpu},
        st.integers(1, 6), st.integers(1, 4), st.sampled_from([100, 3_000, 8_000]),
    ),
    st.builds(
        lambda replicas, milli: {"replicas": replicas, "gpu_milli": milli, "cpu_milli": 1_000},
        st.integers(1, 9), st.sampled_from([200, 500, 700]),
    ),
    st.builds(
        lambda replicas, gpus, level: {
            "replicas": replicas, "gpus": gpus, "cpu_milli": 500, "topology": Topology(level=level, required=True),
        },
        st.integers(1, 4), st.integers(1, 3), st.sampled_from(["rack", "node"]),
    ),
    st.builds(
        lambda first, second: {
            "task_groups": (
                TaskGroup(name="a", replicas=first, gpus=2, cpu_milli=1_000),
                TaskGroup(name="b", replicas=second, gpus=1, cpu_milli=2_000),
            )
        },
        st.integers(1, 2), st.integers(1, 4),
    ),
)  # fmt: skip
nodes = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.sampled_from(["r0", "r1"])), min_size=1, max_size=4)


def build(found: list[tuple[int, int, str]], pool: int) -> VirtualScaler:
    """Nodes with so many GPUs, so many of them held, in these racks."""
    world = VirtualScaler(config(composable(nodes_max=len(found))), pool=pool)
    for index, (gpus, held, rack) in enumerate(found, start=1):
        name = world.join("comp", index, gpus=gpus, rack=rack)
        if held := min(held, gpus):
            world.fill(f"on-{name}", name, tuple(range(held)), cpu_milli=4_000)
    return world


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(found=nodes, pool=st.integers(0, 12), gang=gangs)
def test_with_these_devices_the_gang_fits_and_with_one_fewer_it_does_not(
    found: list[tuple[int, int, str]], pool: int, gang: dict[str, object]
) -> None:
    world = build(found, pool)
    fleet = world.core.state.cluster.fleet
    option = option_of(world, **gang)
    if not isinstance(option, Option):
        return
    if fits(build_with(found, pool, gang), ()):
        return  # it fits as it is: nobody asks
    assert option.gpus <= pool
    for one in option.parts:
        assert fleet.ledger.node(one.node).shape.gpu_count + one.count <= 4
    assert fits(build_with(found, pool, gang), option.parts)
    for at, one in enumerate(option.parts):
        fewer = one.model_copy(update={"count": one.count - 1})
        assert not fits(build_with(found, pool, gang), (*option.parts[:at], fewer, *option.parts[at + 1 :]))


def build_with(found: list[tuple[int, int, str]], pool: int, gang: dict[str, object]) -> VirtualScaler:
    world = build(found, pool)
    world.submit("asked", **gang)
    return world


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(found=nodes, pool=st.integers(0, 12), gang=gangs)
def test_where_any_devices_of_the_pool_would_do_they_are_found(
    found: list[tuple[int, int, str]], pool: int, gang: dict[str, object]
) -> None:
    """Against all ways to spread the pool over the nodes, for gangs of one group, where the search is exact."""
    if "task_groups" in gang:
        return
    option = option_of(build(found, pool), **gang)
    rooms = [4 - gpus for gpus, _, _ in found]
    ways = sorted(_spreads(rooms, pool), key=sum)
    enough = next((way for way in ways if fits(build_with(found, pool, gang), _parts(way))), None)
    if enough is None:
        assert isinstance(option, Lack)
    elif sum(enough):
        assert isinstance(option, Option)
        assert option.gpus == sum(enough)


def _spreads(rooms: list[int], pool: int) -> list[tuple[int, ...]]:
    ways: list[tuple[int, ...]] = [()]
    for room in rooms:
        ways = [(*way, n) for way in ways for n in range(room + 1) if sum(way) + n <= pool]
    return ways


def _parts(way: tuple[int, ...]) -> tuple[ScalePart, ...]:
    return tuple(part(f"comp-{index:04d}", count) for index, count in enumerate(way, start=1))


@settings(max_examples=60, deadline=None)
@given(found=nodes, pool=st.integers(0, 12), gang=gangs)
def test_the_fleet_is_left_as_it_was(found: list[tuple[int, int, str]], pool: int, gang: dict[str, object]) -> None:
    world, other = build(found, pool), build(found, pool)
    option_of(world, **gang)
    for name, node in other.core.state.cluster.fleet.ledger.nodes.items():
        mine = world.core.state.cluster.fleet.ledger.nodes[name]
        assert (mine.shape, mine.idle, mine.cpu_milli, mine.memory_mib, mine.holds, mine.broken, mine.usable) == (
            node.shape, node.idle, node.cpu_milli, node.memory_mib, node.holds, node.broken, node.usable,
        )  # fmt: skip
        assert (mine.state and mine.state.key) == (node.state and node.state.key)
    assert world.core.state.cluster.fleet.totals == other.core.state.cluster.fleet.totals


def test_idle_devices_of_other_nodes_are_moved_before_nodes_are_thought_of() -> None:
    world = VirtualScaler(config(composable(nodes_max=2), gpu_idle_s=0))
    world.survey(free=0, attached=3)
    here, there = busy(world, 1), world.join("comp", 2, gpus=1)
    world.fill("cpu", there, (), cpu_milli=15_500)
    world.skip(3_600)
    option = option_of(world, cpu_milli=4_000)
    assert isinstance(option, Option)
    assert option.devices == world.nodes[there].description.gpu_uuids
    assert option.parts == (part(here),)


def test_a_fabric_whose_breaker_is_open_gives_nothing() -> None:
    world = VirtualScaler(config(composable()), pool=4)
    busy(world)
    world.core.state.pool.open_breaker("f0", world.now + 1)
    option = option_of(world)
    assert isinstance(option, Lack)
    assert option.code == "resting"
    assert "f0 does not answer" in option.reason


def test_the_reason_names_what_the_nodes_lack_that_could_get_gpus() -> None:
    world = VirtualScaler(config(composable()), pool=4)
    busy(world)
    option = option_of(world, memory_mib=65_000)
    assert isinstance(option, Lack)
    assert option.code == "memory"
    assert "at most 64512 MiB free" in option.reason
    assert MODEL not in option.reason


def test_of_several_groups_nobody_gets_a_device_that_another_way_to_stand_spares() -> None:
    groups = (
        TaskGroup(name="a", replicas=1, gpus=2, cpu_milli=6_000),
        TaskGroup(name="b", replicas=4, gpus=1, cpu_milli=5_000),
    )
    option = option_of(build([(1, 4, "r1"), (4, 1, "r0"), (2, 0, "r1")], 10), task_groups=groups)
    assert isinstance(option, Option)
    assert option.gpus == 1


def test_of_several_groups_a_way_is_found_where_the_largest_has_to_give_way() -> None:
    groups = (
        TaskGroup(name="a", replicas=1, gpus=2, cpu_milli=6_000),
        TaskGroup(name="b", replicas=4, gpus=1, cpu_milli=5_000),
    )
    found, pool = [(4, 0, "r0"), (0, 3, "r1"), (2, 2, "r1")], 10
    option = option_of(build(found, pool), task_groups=groups)
    assert isinstance(option, Option)
    assert option.gpus == 2
    assert fits(build_with(found, pool, {"task_groups": groups}), option.parts)
