"""Who makes way: enough, nobody in vain, and not much dearer than the best that trying every set finds."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import combinations

import hypothesis.strategies as st
from hypothesis import given, settings

from muster.placement import Fleet, GangRequest, Hold, Slot
from muster.placement.relief import Victim, Way, make_way
from unit.placement.builders import fleet_of, gang, node, one, task
from unit.placement.test_properties import World, gangs, observed, steps


@dataclass
class Quota:
    """Rules as simple as can be: so much must come free among those who count, and so many may be taken at most."""

    lacking: int = 0
    frees: dict[str, int] = field(default_factory=dict)
    protected: frozenset[str] = frozenset()
    after: dict[str, str] = field(default_factory=dict)
    most: int = 1000
    taken: list[str] = field(default_factory=list)

    def may_take(self, key: str) -> bool:
        first = self.after.get(key)
        allowed = key not in self.protected and (first is None or first in self.taken)
        return allowed and len(self.taken) < self.most

    def take(self, key: str) -> None:
        assert key not in self.taken
        self.taken.append(key)

    def put_back(self, key: str) -> None:
        self.taken.remove(key)

    def admits(self) -> bool:
        return sum(self.frees.get(key, 0) for key in self.taken) >= self.lacking


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


traits = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from([0.0, 1.0, 2.0, 3.0, 5.0, 9.0]), st.sampled_from([0, 1, 2, 4])),
    min_size=7,
    max_size=7,
)


@given(steps, traits, gangs, st.integers(0, 4), st.frozensets(st.integers(0, 6), max_size=2))
@settings(max_examples=200, deadline=None)
def test_a_way_is_enough_minimal_and_near_the_best(
    history: list[tuple[str, object]],
    of: list[tuple[int, float, int]],
    asked: GangRequest,
    lacking: int,
    protected: frozenset[int],
) -> None:
    world = World()
    for kind, value in history:
        world.step(kind, value)
    running = [holds for _, holds in world.running][:7]
    victims = [Victim(f"j{i}", holds, (of[i][0],), of[i][1]) for i, holds in enumerate(running)]
    frees = {f"j{i}": of[i][2] for i in range(len(running))}
    rules = Quota(lacking, frees, frozenset(f"j{i}" for i in protected))
    before, version = observed(world.fleet), world.fleet.version
    way = make_way(world.fleet, asked, victims, rules)
    assert (observed(world.fleet), world.fleet.version, rules.taken) == (before, version, []), "only tried"
    optimum = best(world.fleet, asked, rules, victims)
    if way is None:
        assert optimum is None
        return
    chosen = check(world.fleet, asked, rules, victims, way)
    assert optimum is not None
    order, cost = worth(chosen)
    assert order == optimum[0]
    assert cost <= 2 * optimum[1]
