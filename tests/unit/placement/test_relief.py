"""Who makes way: enough, nobody in vain, and not much dearer than the best that trying every set finds."""

from itertools import combinations

import hypothesis.strategies as st
from hypothesis import given, settings

from kit.placement_quota import Quota
from kit.placement_world import World, gangs, observed, steps
from muster.placement import Fleet, GangRequest, Hold, Slot
from muster.placement.relief import Victim, Way, make_way
from unit.placement.builders import fleet_of, gang, node, one, task


def on(name: str, *devices: int, cpu: int = 0) -> Hold:
    return Hold(cpu, 0, Slot(0, 0, name, devices, 1000 if devices else 0))


def victim(fleet: Fleet, key: str, *holds: Hold, order: int = 0, cost: float = 1.0) -> Victim:
    """A running job, held on the fleet."""
    for hold in holds:
        fleet.hold(hold)
    return Victim(key, holds, (order,), cost)


def singles(fleet: Fleet, name: str, costs: list[float], *, order: int = 0) -> list[Victim]:
    return [victim(fleet, f"{name}{i}", on(name, i), order=order, cost=cost) for i, cost in enumerate(costs)]


def works(fleet: Fleet, asked: GangRequest, rules: Quota, chosen: tuple[Victim, ...]) -> bool:
    """Whether the gang fits and is admitted without these, and each of them may be taken after those before it."""
    done: list[Hold] = []
    legal = True
    for one_of in chosen:
        legal = legal and rules.may_take(one_of.key)
        rules.take(one_of.key)
        for hold in one_of.holds:
            fleet.withdraw(hold)
            done.append(hold)
    result = legal and rules.admits() and fleet.find(asked) is not None
    for hold in reversed(done):
        fleet.hold(hold)
    for one_of in reversed(chosen):
        rules.put_back(one_of.key)
    return result


def worth(chosen: tuple[Victim, ...]) -> tuple[tuple[int, ...], float]:
    return max((v.order for v in chosen), default=()), sum(v.cost for v in chosen)


def best(fleet: Fleet, asked: GangRequest, rules: Quota, victims: list[Victim]) -> tuple[tuple[int, ...], float] | None:
    ranked = sorted(victims, key=lambda v: (v.order, v.cost, v.key))
    sets = (chosen for size in range(len(ranked) + 1) for chosen in combinations(ranked, size))
    return min((worth(chosen) for chosen in sets if works(fleet, asked, rules, chosen)), default=None)


def check(fleet: Fleet, asked: GangRequest, rules: Quota, victims: list[Victim], way: Way) -> tuple[Victim, ...]:
    """The way works as told, and without any one of its victims it does not."""
    by_key = {v.key: v for v in victims}
    chosen = tuple(by_key[key] for key in way.victims)
    assert works(fleet, asked, rules, chosen)
    for left_out in chosen:
        assert not works(fleet, asked, rules, tuple(v for v in chosen if v is not left_out)), left_out
    for one_of in chosen:
        for hold in one_of.holds:
            fleet.withdraw(hold)
    for hold in way.holds:
        fleet.hold(hold)
    for hold in reversed(way.holds):
        fleet.withdraw(hold)
    for one_of in chosen:
        for hold in one_of.holds:
            fleet.hold(hold)
    return chosen


NODES = [node(f"n{i}", gpus=4, cpu=16, rack=f"r{i % 2}") for i in range(3)]

pieces = st.tuples(st.integers(0, 2), st.sampled_from([1, 1, 1, 2, 4, 250, 500]), st.sampled_from([500, 3000]))
victims_drawn = st.lists(
    st.tuples(
        st.lists(pieces, min_size=1, max_size=3),
        st.sampled_from([0, 0, 0, 1]),
        st.sampled_from([0.0, 1.0, 2.0, 3.0, 5.0, 9.0]),
        st.integers(0, 4),
    ),
    min_size=3,
    max_size=8,
)
asked_drawn = st.builds(
    gang,
    st.tuples(
        st.builds(task, st.sampled_from([1, 1, 2, 4]), cpu=st.integers(0, 4))
        | st.builds(task, share=st.sampled_from([300, 600])),
        st.integers(1, 3),
    ),
    level=st.sampled_from(["", "", "rack", "node"]),
)


def run(fleet: Fleet, key: str, drawn: list[tuple[int, int, int]], *, order: int, cost: float) -> Victim | None:
    """Hold as much of what was drawn as fits; None if nothing did."""
    holds = []
    for place, size, cpu in drawn:
        books = fleet.ledger.nodes[f"n{place}"]
        share = size if size >= 100 else 1000
        wanted = 1 if size >= 100 else size
        devices = tuple(i for i, idle in enumerate(books.idle) if idle >= share)[:wanted]
        if len(devices) == wanted and books.cpu_milli >= cpu:
            holds.append(Hold(cpu, 0, Slot(0, 0, f"n{place}", devices, share)))
            fleet.hold(holds[-1])
    return Victim(key, tuple(holds), (order,), cost) if holds else None


def check_against_every_set(fleet: Fleet, asked: GangRequest, victims: list[Victim], rules: Quota) -> None:
    before, version = observed(fleet), fleet.version
    way = make_way(fleet, asked, victims, rules)
    assert (observed(fleet), fleet.version, rules.taken) == (before, version, []), "only tried"
    optimum = best(fleet, asked, rules, victims)
    if way is None:
        assert optimum is None
        return
    order, cost = worth(check(fleet, asked, rules, victims, way))
    assert optimum is not None
    assert order == optimum[0]
    assert cost <= 2 * optimum[1]


@given(victims_drawn, asked_drawn, st.sampled_from([0, 0, 2, 4]), st.frozensets(st.integers(0, 7), max_size=2))
@settings(max_examples=100, deadline=None)
def test_a_way_is_enough_minimal_and_at_most_twice_the_best(
    drawn: list[tuple[list[tuple[int, int, int]], int, float, int]],
    asked: GangRequest,
    lacking: int,
    protected: frozenset[int],
) -> None:
    fleet = fleet_of(NODES)
    victims = []
    for i, (of, order, cost, _) in enumerate(drawn):
        found = run(fleet, f"j{i}", of, order=order, cost=cost)
        victims += [found] if found else []
    frees = {f"j{i}": amount for i, (_, _, _, amount) in enumerate(drawn)}
    check_against_every_set(fleet, asked, victims, Quota(lacking, frees, frozenset(f"j{i}" for i in protected)))


@given(steps, gangs, st.integers(0, 2))
@settings(max_examples=60, deadline=None)
def test_a_way_is_right_for_gangs_and_fleets_of_every_kind(
    history: list[tuple[str, object]], asked: GangRequest, lacking: int
) -> None:
    """Several groups, shares of devices, whole nodes, cordoned nodes and broken devices."""
    world = World()
    for kind, value in history:
        world.step(kind, value)
    running = [holds for _, holds in world.running][:6]
    victims = [Victim(f"j{i}", holds, (i % 2,), float(i % 4)) for i, holds in enumerate(running)]
    check_against_every_set(world.fleet, asked, victims, Quota(lacking, {v.key: 1 for v in victims}))


def test_one_node_is_cleared_and_not_eight_scattered_gpus() -> None:
    """The eight cheapest single GPUs stand on eight nodes; only all of one node make room for eight together."""
    fleet = fleet_of([node(f"n{i}") for i in range(8)])
    victims = [v for i in range(8) for v in singles(fleet, f"n{i}", [1.0] + [10.0 + i] * 7)]
    way = make_way(fleet, one(task(8)), victims, Quota())
    assert way is not None
    assert way.victims == tuple(f"n0{i}" for i in range(8))


def test_the_lowest_order_goes_first_however_dear() -> None:
    fleet = fleet_of([node("a"), node("b")])
    victims = [*singles(fleet, "a", [1.0] * 8, order=5), *singles(fleet, "b", [90.0] * 8, order=2)]
    way = make_way(fleet, one(task(2)), victims, Quota())
    assert way is not None
    assert set(way.victims) <= {v.key for v in victims if v.order == (2,)}
    assert len(way.victims) == 2


def test_a_gang_evicted_for_one_node_frees_its_others() -> None:
    """Two nodes are wanted: one gang of 12 on both is cheaper than a job of 8 on each of two others."""
    fleet = fleet_of([node(name) for name in "abcd"])
    whole = tuple(range(8))
    victims = [
        victim(fleet, "c", on("c", *whole), cost=8.0),
        victim(fleet, "d", on("d", *whole), cost=8.0),
        victim(fleet, "both", on("a", *whole), on("b", *whole), cost=12.0),
    ]
    way = make_way(fleet, gang((task(8), 2)), victims, Quota())
    assert way is not None
    assert way.victims == ("both",)
    assert sorted(hold.slot.node for hold in way.holds) == ["a", "b"]


def test_the_cheapest_rack_is_cleared_for_a_gang_that_needs_one() -> None:
    fleet = fleet_of([node(f"{rack}{i}", rack=rack) for rack in "xyz" for i in range(2)])
    cost = {"x": (1.0, 50.0), "y": (20.0, 20.0), "z": (30.0, 30.0)}
    victims = [victim(fleet, f"{r}{i}", on(f"{r}{i}", *range(8)), cost=cost[r][i]) for r in "xyz" for i in range(2)]
    way = make_way(fleet, gang((task(8), 2), level="rack"), victims, Quota())
    assert way is not None
    assert way.victims == ("y0", "y1")


def test_who_is_taken_for_quota_is_put_back_if_the_node_cleared_satisfies_it_too() -> None:
    """The cheapest job of the queue is on the wrong node: only the one that the gang needs cleared has to go."""
    fleet = fleet_of([node("a"), node("b", model="L4")])
    victims = [victim(fleet, "cheap", on("b", 0), cost=1.0), victim(fleet, "dear", on("a", *range(8)), cost=9.0)]
    rules = Quota(lacking=1, frees={"cheap": 1, "dear": 8})
    way = make_way(fleet, one(task(8, models=("H100",))), victims, rules)
    assert way is not None
    assert way.victims == ("dear",)


def test_quota_alone_takes_the_cheapest_though_nodes_are_idle() -> None:
    fleet = fleet_of([node("a"), node("b")])
    victims = singles(fleet, "a", [3.0, 1.0, 2.0])
    way = make_way(fleet, one(task(1)), victims, Quota(lacking=2, frees={v.key: 1 for v in victims}))
    assert way is not None
    assert way.victims == ("a1", "a2")


def test_each_victim_may_be_taken_after_those_before_it() -> None:
    """Both nodes are cheap to clear, but the rest of a job may only go after its surplus, which stands elsewhere."""
    fleet = fleet_of([node("a", gpus=2), node("b", gpus=2)])
    fleet.hold(on("b", 1))
    victims = [victim(fleet, "rest", on("a", 0, 1), order=1), victim(fleet, "surplus", on("b", 0), cost=0.0)]
    assert make_way(fleet, one(task(2)), victims, Quota(after={"rest": "nobody"})) is None
    way = make_way(fleet, one(task(2)), victims, Quota(after={"rest": "surplus"}))
    assert way is not None
    assert way.victims == ("surplus", "rest")


def test_nobody_makes_way_in_vain() -> None:
    fleet = fleet_of([node("a"), node("b")])
    victims = [*singles(fleet, "a", [1.0] * 8), *singles(fleet, "b", [1.0] * 8)]
    assert make_way(fleet, one(task(9)), victims, Quota()) is None
    assert make_way(fleet, one(task(8)), victims, Quota(lacking=1)) is None
    protected = Quota(protected=frozenset({"a0", "b7"}))
    assert make_way(fleet, one(task(8)), victims, protected) is None
    assert protected.taken == []


def test_a_gang_that_fits_needs_no_victims() -> None:
    fleet = fleet_of([node("a"), node("b")])
    way = make_way(fleet, one(task(8)), singles(fleet, "a", [1.0] * 8), Quota())
    assert way is not None
    assert (way.victims, way.holds[0].slot.node) == ((), "b")


def test_who_was_taken_first_is_put_back_if_those_after_suffice() -> None:
    """One for 1, then 4, then 3 of the 7 that are lacking: the cheapest was taken in vain."""
    fleet = fleet_of([node("a")])
    victims = singles(fleet, "a", [1.0, 2.0, 3.0])
    rules = Quota(lacking=7, frees={"a0": 1, "a1": 4, "a2": 3})
    way = make_way(fleet, one(task(1)), victims, rules)
    assert way is not None
    assert way.victims == ("a1", "a2")


def test_of_many_racks_the_cheapest_is_found() -> None:
    racks = "stuvwxyz"
    fleet = fleet_of([node(f"{rack}{i}", rack=rack) for rack in racks for i in range(2)])
    victims = [
        victim(fleet, f"{rack}{i}", on(f"{rack}{i}", *range(8)), cost=100.0 - 10 * at)
        for at, rack in enumerate(racks)
        for i in range(2)
    ]
    way = make_way(fleet, gang((task(8), 2), level="rack"), victims, Quota())
    assert way is not None
    assert way.victims == ("z0", "z1")
