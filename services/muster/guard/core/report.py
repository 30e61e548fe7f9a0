"""Build the report on the API servers for the CLI and the dashboard."""

from muster.core import Instant
from muster.core.fact import Core
from muster.guard.core.checks import client_name, skew_of
from muster.guard.core.clients import OTHERS
from muster.guard.core.config import GuardConfig
from muster.guard.core.core import GuardCore, State
from muster.guard.core.look import ClientLists, Look, Replica
from muster.guard.core.pages import MINUTE_S
from muster.guard.core.printable import printable
from muster.schemas.apiserver import (
    ADVICES_MAX,
    KINDS_MAX,
    LEVELS_MAX,
    LISTERS_MAX,
    REPLICAS_MAX,
    ApiServerReplica,
    ApiServerReport,
    FlowLevel,
    Lister,
    MemoryPoint,
    StandingAdvice,
    StoredKind,
)
from muster.schemas.base import Wire

_NS_PER_S = 1e9
_MS_PER_S = 1_000.0


def report_of(look: Look | None, state: State, config: GuardConfig, *, guarded: bool) -> ApiServerReport:
    """Return the report; before the first look only the log's part. `guarded`: a real cluster is observed."""
    advices = tuple(
        StandingAdvice(id=subject, since=one.raised_at, **dict(one.raised))
        for subject, one in sorted(state.advice.items(), key=lambda item: (item[1].raised_at, item[0]))
    )[:ADVICES_MAX]
    if look is None:
        lacking = ("the API servers were not observed yet",) if guarded else ()
        return ApiServerReport(guarded=guarded, applies=config.apply, advices=advices, lacking=lacking)
    return ApiServerReport(
        guarded=guarded,
        applies=config.apply,
        at=look.at,
        replicas=tuple(map(_replica, look.replicas))[:REPLICAS_MAX],
        memory_skew=round(skew_of(look), 2),
        listers=tuple(map(_lister, look.clients[:LISTERS_MAX])),
        levels=_levels(look),
        kinds=tuple(
            StoredKind(resource=resource, objects=int(number), bytes=max(0, int(size)))
            for resource, number, size in largest(look, KINDS_MAX)
        ),
        advices=advices,
        lacking=tuple(map(printable, look.lacking)),
    )


def largest(look: Look, limit: int) -> list[tuple[str, float, float]]:
    """Return (resource, objects, bytes) of the largest kinds, by the largest estimate of the API servers."""
    found: dict[str, tuple[float, float]] = {}
    for replica in look.up:
        assert replica.page is not None
        for resource, number in replica.page.objects.items():
            size = replica.page.sizes.get(resource, 0.0)
            before = found.get(resource, (0.0, 0.0))
            found[resource] = max(before[0], number), max(before[1], size)
    rows = [(resource, number, size) for resource, (number, size) in found.items() if number > 0]
    return sorted(rows, key=lambda row: (-row[2], -row[1], row[0]))[:limit]


def _replica(replica: Replica) -> ApiServerReplica:
    memory = tuple(MemoryPoint(at=at, memory_mib=round(mib, 1)) for at, mib in replica.memory)
    page = replica.page
    seen_at = replica.memory[-1][0] if replica.memory else 0
    if page is None:
        return ApiServerReplica(name=replica.name, memory=memory, seen_at=seen_at, error=printable(replica.error))
    return ApiServerReplica(
        name=replica.name,
        version=page.version,
        started_at=max(0, round(page.started_at_s * _NS_PER_S)),
        memory_mib=round(replica.memory_mib, 1),
        cpu_cores=round(replica.cpu_cores, 3),
        in_flight=page.reading,
        in_flight_mutating=page.writing,
        requests_per_s=round(replica.requests_per_s, 2),
        lists_per_s=round(replica.lists_per_minute / MINUTE_S, 3),
        watches=sum(page.watches.values()),
        memory=memory,
        seen_at=seen_at,
    )


def _lister(client: ClientLists) -> Lister:
    known_by = "user-agent" if client.agent and client.agent != OTHERS else "user"
    return Lister(
        client=client_name(client),
        known_by=known_by,
        resource=client.resource,
        lists_per_minute=round(client.per_minute, 1),
        lists=client.lists,
    )


def _levels(look: Look) -> tuple[FlowLevel, ...]:
    """Return the levels, guarded ones first. API servers keep showing metrics of deleted levels; those are left out."""
    wanted = {flow.level: flow for flow in look.flows}
    names = dict.fromkeys([*wanted, *(level for replica in look.up if replica.page for level in replica.page.seats)])
    if look.levels is not None:
        known = {level.name for level in look.levels}
        names = dict.fromkeys(name for name in names if name in known or name in wanted)
    exempt = {level.name for level in look.levels or () if level.name == "exempt"}
    rows = [_level(look, name, wanted[name].wanted if name in wanted else 0, name in exempt) for name in names]
    return tuple(rows[:LEVELS_MAX])


def _level(look: Look, name: str, wanted: int, is_exempt: bool) -> FlowLevel:
    """Return one level, with the seats of a server that differs from the wanted seats, if any."""
    pages = [replica.page for replica in look.up if replica.page]
    seats = [page.seats[name] for page in pages if name in page.seats]
    odd = [one for one in seats if wanted and one != wanted]
    return FlowLevel(
        name=name,
        seats=(odd or seats or [0])[0],
        wanted=wanted,
        executing=int(sum(page.executing.get(name, 0.0) for page in pages)),
        queued=int(sum(page.queued.get(name, 0.0) for page in pages)),
        rejected=int(sum(page.rejected.get(name, 0.0) for page in pages)),
        rejected_per_minute=round(sum(one.rejected_per_minute.get(name, 0.0) for one in look.up), 2),
        wait_ms_p99=round(max((one.waits_s_p99.get(name, 0.0) for one in look.up), default=0.0) * _MS_PER_S, 1),
        is_exempt=is_exempt,
    )


def answer_report(core: Core, _ask: Wire, _now: Instant) -> ApiServerReport:
    """Answer `report`: the newest look and the active advice."""
    assert isinstance(core, GuardCore)
    return report_of(core.look, core.state, core.config, guarded=core.guarded)
