"""Schedule of failures, drawn once, so that runs with other settings meet the same faults.

Counts are those of Llama 3 405B's 54 days on 16,384 GPUs ("The Llama 3 Herd of Models", 2024, table 5): 419 unplanned
interruptions, and 47 planned ones. The paper does not report the symptoms and the repairs: these are assumptions.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum, StrEnum

from muster.core.seeded import exponential, lognormal, uniform

PUBLISHED_GPUS, PUBLISHED_DAYS = 16_384, 54.0
PUBLISHED_PLANNED = 47
PLANNED = "planned maintenance"


class Shown(StrEnum):
    """Symptom on an exporter's page. nothing: only the program ends. lost: the node does not answer."""

    NOTHING = "nothing"
    XID = "xid"
    WATCH = "watch"
    MISSING = "missing"
    PENDING = "pending"
    LOST = "lost"


class Mend(IntEnum):
    """The least repair that suffices. PERSON: a person must replace the part. NONE: nothing is broken."""

    NONE = 0
    RESET = 1
    REBOOT = 2
    PERSON = 3


DIES_S = 30.0
"""Time from the failure of a rank to the end of the program, its launcher and all others."""


@dataclass(frozen=True, slots=True)
class Sign:
    """One way in which a cause shows itself. share: of the cause's incidents. code: of Shown.XID; watch: of WATCH.

    dies_s: until the program ends of it, median; it does no work from the start. None: it goes on working. person:
    share that nothing but a person mends; what mends the others is `mend`. nodes: 0: all of the rack, at once.
    """

    shown: Shown
    share: float = 1.0
    code: int = 0
    watch: str = ""
    dies_s: float | None = DIES_S
    mend: Mend = Mend.RESET
    person: float = 0.0
    nodes: int = 1


@dataclass(frozen=True, slots=True)
class Cause:
    """count: published, in 54 days on 16,384 GPUs."""

    name: str
    count: int
    signs: tuple[Sign, ...]


HANG_S = 600.0
"""Time until a silent rank ends the program: PyTorch's default time limit for NCCL, 10 minutes."""

_BUS = Sign(Shown.MISSING, 0.4, mend=Mend.REBOOT, person=0.6)
_LINK = Sign(Shown.XID, 0.3, code=74, person=0.5)
_STUCK = Sign(Shown.XID, 0.1, code=62, mend=Mend.REBOOT, person=0.5)
_GONE = Sign(Shown.WATCH, 0.2, watch="ALL", mend=Mend.REBOOT, person=0.6)
_NO_SIGN = Sign(Shown.NOTHING, dies_s=HANG_S, mend=Mend.PERSON, person=1.0)
_PORT = Sign(Shown.WATCH, watch="CONNECTX", dies_s=HANG_S, mend=Mend.PERSON)
_HOST = Sign(Shown.LOST, mend=Mend.PERSON)

MIX: tuple[Cause, ...] = (
    Cause("faulty GPU", 148, (_BUS, _LINK, _STUCK, _GONE)),
    Cause(
        "GPU HBM3 memory",
        72,
        (
            Sign(Shown.XID, 0.5, code=48, person=0.3),
            Sign(Shown.XID, 0.2, code=94, person=0.1),
            Sign(Shown.PENDING, 0.2, dies_s=None),
            Sign(Shown.XID, 0.1, code=64, mend=Mend.PERSON),
        ),
    ),
    Cause(
        "software bug",
        54,
        (Sign(Shown.XID, 0.5, code=31, mend=Mend.NONE), Sign(Shown.NOTHING, 0.5, mend=Mend.NONE)),
    ),
    Cause(
        "network switch or cable",
        35,
        (
            Sign(Shown.LOST, 0.2, mend=Mend.PERSON, nodes=0),
            Sign(Shown.NOTHING, 0.5, dies_s=HANG_S, mend=Mend.NONE),
            replace(_PORT, share=0.3),
        ),
    ),
    Cause("host maintenance", 32, (_HOST,)),
    Cause("GPU SRAM memory", 19, (Sign(Shown.XID, code=95, person=0.3),)),
    Cause("GPU system processor", 17, (Sign(Shown.XID, code=119, mend=Mend.REBOOT, person=0.3),)),
    Cause("NIC", 7, (_PORT,)),
    Cause("NCCL watchdog timeout", 7, (Sign(Shown.NOTHING, dies_s=HANG_S, mend=Mend.NONE),)),
    Cause("silent data corruption", 6, (_NO_SIGN,)),
    Cause("GPU thermal interface", 6, (Sign(Shown.WATCH, watch="THERMAL", dies_s=None, person=1.0),)),
    Cause("SSD", 3, (_HOST,)),
    Cause("power supply", 3, (_HOST,)),
    Cause("server chassis", 2, (_HOST,)),
    Cause("IO expansion board", 2, (Sign(Shown.WATCH, watch="PCIE", mend=Mend.REBOOT, person=1.0),)),
    Cause("dependency", 2, (Sign(Shown.NOTHING, mend=Mend.NONE),)),
    Cause("CPU", 2, (_HOST,)),
    Cause("system memory", 2, (_HOST,)),
)
PUBLISHED = sum(cause.count for cause in MIX)
"""419."""
RATE = PUBLISHED / (PUBLISHED_GPUS / 8 * PUBLISHED_DAYS) * 1000
"""Per 1,000 node-days: 3.79."""


DAY_S = 86_400.0
TOGETHER_S = 60.0
"""Maximum distance in time of faults that occur together."""
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
    """Return the nodes that fail more often than others: the same share in every draw."""
    count = round(len(nodes) * odds.lemons)
    return frozenset(sorted(nodes, key=lambda node: uniform(seed, "lemon", node))[:count])


def incidents(nodes: Sequence[str], odds: Odds, *, days: float, seed: int, rack_nodes: int) -> tuple[Incident, ...]:
    """Return all incidents, earliest first. nodes: in the order of racks of `rack_nodes`."""
    drawn = list(_drawn(nodes, odds, days=days, seed=seed, rack_nodes=rack_nodes))
    return tuple(sorted(drawn, key=lambda one: one.at_s))


def planned_at(odds: Odds, *, nodes: int, days: float, seed: int) -> tuple[float, ...]:
    """Return when an operator requests a node of the job for maintenance, in seconds since the start."""
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
