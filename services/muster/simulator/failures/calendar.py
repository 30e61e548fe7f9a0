"""When what fails: drawn once, before anything happens, so that runs with other settings meet the same faults."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from muster.core.seeded import exponential, lognormal, uniform
from muster.simulator.failures.mix import MIX, PLANNED, PUBLISHED, PUBLISHED_PLANNED, Cause, Mend, Sign

DAY_S = 86_400.0
TOGETHER_S = 60.0
"""Faults that come with another one come within so many seconds."""
DIES_SIGMA = 0.3


@dataclass(frozen=True, slots=True)
class Odds:
    """rate: unplanned incidents per 1,000 node-days of an ordinary node. lemons: share of nodes with `lemon_times` it.

    together: share of incidents that bring another one to the same rack. planned: share of all interruptions.
    """

    rate: float
    lemons: float = 0.01
    lemon_times: float = 10.0
    together: float = 0.03
    planned: float = PUBLISHED_PLANNED / (PUBLISHED + PUBLISHED_PLANNED)


@dataclass(frozen=True, slots=True)
class Incident:
    """at_s: since the start. nodes: that it strikes. device: index of the GPU. mend: what it takes, as drawn."""

    number: int
    at_s: float
    cause: str
    nodes: tuple[str, ...]
    sign: Sign
    device: int = 0
    mend: Mend = Mend.NONE
    dies_s: float | None = None


def lemons_of(nodes: Sequence[str], odds: Odds, *, seed: int) -> frozenset[str]:
    """The nodes that fail more often than others: the same share in every draw."""
    count = round(len(nodes) * odds.lemons)
    return frozenset(sorted(nodes, key=lambda node: uniform(seed, "lemon", node))[:count])


def incidents(nodes: Sequence[str], odds: Odds, *, days: float, seed: int, rack_nodes: int) -> tuple[Incident, ...]:
    """All of them, earliest first. nodes: in the order of racks of `rack_nodes`."""
    drawn = list(_drawn(nodes, odds, days=days, seed=seed, rack_nodes=rack_nodes))
    return tuple(sorted(drawn, key=lambda one: one.at_s))


def planned_at(odds: Odds, *, nodes: int, days: float, seed: int) -> tuple[float, ...]:
    """Seconds since the start at which somebody wants a node of the job for maintenance."""
    per_s = odds.rate * nodes / 1000 / DAY_S * odds.planned / (1 - odds.planned)
    return tuple(_moments(per_s, days * DAY_S, seed, PLANNED))


def _moments(per_s: float, until_s: float, seed: int, purpose: str) -> Iterator[float]:
    at_s, number = 0.0, 0
    while per_s:
        at_s += exponential(1 / per_s, seed, purpose, number)
        if at_s >= until_s:
            return
        yield at_s
        number += 1


def _drawn(nodes: Sequence[str], odds: Odds, *, days: float, seed: int, rack_nodes: int) -> Iterator[Incident]:
    sick = sorted(lemons_of(nodes, odds, seed=seed))
    well = [node for node in nodes if node not in set(sick)]
    weight = len(sick) * odds.lemon_times
    # The published rate is that of the whole fleet, its lemons among it: together they have what it says.
    per_s = odds.rate * len(nodes) / 1000 / DAY_S / (1 + odds.together)
    number = 0
    for at_s in _moments(per_s, days * DAY_S, seed, "incident"):
        of_lemon = sick and uniform(seed, number, "of-lemon") < weight / (weight + len(well))
        among = sick if of_lemon else well
        node = among[int(uniform(seed, number, "node") * len(among))]
        yield _incident(number, at_s, node, nodes, seed=seed, rack_nodes=rack_nodes)
        if uniform(seed, number, "together") < odds.together:
            rack = _rack(node, nodes, rack_nodes)
            other = rack[int(uniform(seed, number, "beside") * len(rack))]
            later_s = at_s + TOGETHER_S * uniform(seed, number, "later")
            number += 1
            yield _incident(number, later_s, other, nodes, seed=seed, rack_nodes=rack_nodes)
        number += 1


def _rack(node: str, nodes: Sequence[str], rack_nodes: int) -> Sequence[str]:
    first = nodes.index(node) // rack_nodes * rack_nodes
    return nodes[first : first + rack_nodes]


def _incident(number: int, at_s: float, node: str, nodes: Sequence[str], *, seed: int, rack_nodes: int) -> Incident:
    cause = _cause(uniform(seed, number, "cause"))
    sign = _sign(cause, uniform(seed, number, "sign"))
    needs_person = uniform(seed, number, "person") < sign.person
    dies_s = None if sign.dies_s is None else lognormal(sign.dies_s, DIES_SIGMA, seed, number, "dies")
    return Incident(
        number=number,
        at_s=at_s,
        cause=cause.name,
        nodes=tuple(_rack(node, nodes, rack_nodes)) if not sign.nodes else (node,),
        sign=sign,
        device=int(uniform(seed, number, "device") * 8),
        mend=Mend.PERSON if needs_person else sign.mend,
        dies_s=dies_s,
    )


def _cause(drawn: float) -> Cause:
    left = drawn * PUBLISHED
    for cause in MIX:
        left -= cause.count
        if left < 0:
            return cause
    return MIX[-1]


def _sign(cause: Cause, drawn: float) -> Sign:
    left = drawn * sum(sign.share for sign in cause.signs)
    for sign in cause.signs:
        left -= sign.share
        if left < 0:
            return sign
    return cause.signs[-1]
