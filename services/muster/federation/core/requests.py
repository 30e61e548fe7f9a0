"""Requests for clusters (queues, reservations, devices, nodes, refusals): kept until they are forwarded.

The same request of the gateway again asks for nothing, however it came into the log: ids are remembered, the newest
first, since the broker refuses a second one for two minutes only. A job remembers how it was submitted and cancelled.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from muster.core import Draft, Fact
from muster.federation.core.state import State
from muster.schemas.facts.composability import (
    ComposeRequested,
    ComposeWish,
    ComposeWishes,
    DecomposeRequested,
    DetachRequested,
)
from muster.schemas.facts.operations import OperationWish, OperationWishes
from muster.schemas.facts.queue import QueueChangeRequested, QueueWish, QueueWishes
from muster.schemas.facts.reservation import (
    ReservationState,
    ReservationWish,
    ReserveEndRequested,
    ReserveRequested,
)
from muster.schemas.facts.workload import JobRefused, RefusalState
from muster.schemas.record import FactBody
from muster.schemas.registry import STATE_NAME, StreamRole, fact_type

REQUESTS_KEPT = 10_000
"""Newest requests that are remembered: months of what people ask of queues, nodes and clusters."""

FOLDED = "folded"
"""Subject of the state fact that keeps the ids."""

_GATEWAY = "gateway"
_OF_JOBS = frozenset({"submitted", "cancel-requested"})


def is_first(state: State, fact: Fact) -> bool:
    """Return whether the fact is to be folded, and remember a request. One that was folded before is counted."""
    if fact.writer != _GATEWAY or (fact.kind == "job" and fact.name in _OF_JOBS):
        return True
    if fact.id in state.requests:
        state.anomalies["request folded before"] += 1
        return False
    state.requests[fact.id] = None
    if len(state.requests) > REQUESTS_KEPT:
        del state.requests[next(iter(state.requests))]
    return True


def folded_snapshot(state: State) -> Iterator[Draft]:
    """The ids, oldest first."""
    if state.requests:
        yield Draft(OPERATIONS, FOLDED, STATE_NAME, OperationWishes(folded=tuple(state.requests)))


OPERATIONS, ASKED = "operations", "asked"
"""Of the state fact that keeps them."""

REQUESTED, FORWARDED = "-requested", "-forwarded"

ASKS: tuple[tuple[str, str], ...] = (
    *(("node", ask) for ask in ("cordon", "drain", "resume", "verify")),
    *(("campaign", ask) for ask in ("start", "pause", "resume", "abort")),
    ("health", "brake-reset"),
)
"""Kind of subject, and what is asked of it."""


def operations_forwarded(state: State, clusters: Sequence[str], *, most: int) -> Iterator[Draft]:
    """The next `most` of them, each for its cluster; the copies of one are never split over two batches.

    Nothing is kept that names a cluster which is no member: it could be forwarded to nobody.
    """
    for wish in tuple(state.operations.values())[:most]:
        name = wish.name.removesuffix(REQUESTED) + FORWARDED
        payload = _operation_payload(wish)
        for cluster in (wish.cluster,) if wish.cluster else clusters:
            yield Draft(
                wish.kind, wish.subject_id, name, payload, (wish.fact,), wish.trace, together=wish.fact, cluster=cluster
            )


def operations_snapshot(state: State) -> Iterator[Draft]:
    """All that is not forwarded yet."""
    if state.operations:
        yield Draft(OPERATIONS, ASKED, STATE_NAME, OperationWishes(wishes=tuple(state.operations.values())))


def _operation_payload(wish: OperationWish) -> FactBody:
    row = fact_type(StreamRole.FED, "gateway", wish.kind, wish.name)
    assert row is not None, f"nobody may ask {wish.name} of a {wish.kind}"
    return row.payload.model_validate_json(wish.body)


def _operation_requested(state: State, fact: Fact) -> None:
    cluster = getattr(fact.payload, "cluster", "")
    if cluster and not state.is_member(cluster, what=fact.name):
        return
    state.operations[fact.id] = OperationWish(
        fact=fact.id,
        kind=fact.kind,
        subject_id=fact.subject_id,
        name=fact.name,
        body=fact.payload.model_dump_json(),
        cluster=cluster,
        trace=fact.trace,
    )


def _operation_forwarded(state: State, fact: Fact) -> None:
    for cause in fact.causes:  # the first of the copies that is folded answers the wish
        state.operations.pop(cause, None)


def _restore_operations(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, OperationWishes)
    for wish in fact.payload.wishes:
        if not wish.cluster or state.is_member(wish.cluster, what=wish.name):
            state.operations[wish.fact] = wish
    state.requests.update(dict.fromkeys(fact.payload.folded))


OPERATION_HANDLERS: dict[tuple[str, str], Callable[[State, Fact], None]] = {
    **{(kind, f"{ask}{REQUESTED}"): _operation_requested for kind, ask in ASKS},
    **{(kind, f"{ask}{FORWARDED}"): _operation_forwarded for kind, ask in ASKS},
    (OPERATIONS, STATE_NAME): _restore_operations,
}


def refusals_forwarded(state: State, *, most: int) -> Iterator[Draft]:
    """The next `most` refusals, each for the cluster whose object it is about."""
    for refusal in tuple(state.refusals.values())[:most]:
        told = refusal.refused
        yield Draft(
            "job",
            refusal.job_id,
            "refusal-forwarded",
            told,
            (refusal.fact,),
            refusal.trace,
            cluster=told.cluster,
        )


def refusals_snapshot(state: State) -> Iterator[Draft]:
    """Refusals that were not forwarded yet, by the object that they are about."""
    for refusal in state.refusals.values():
        yield Draft("workload", refusal.refused.workload, STATE_NAME, refusal, trace=refusal.trace)


def restore_refusals(state: State, payload: FactBody) -> None:
    """What a checkpoint says of refusals."""
    if isinstance(payload, RefusalState) and state.is_member(payload.refused.cluster, what="refused"):
        state.refusals[payload.job_id] = payload


def _refused(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, JobRefused)
    if not state.is_member(fact.payload.cluster, what="refused"):
        return
    state.refusals[fact.subject_id] = RefusalState(
        job_id=fact.subject_id, refused=fact.payload, fact=fact.id, trace=fact.trace
    )


def _refusal_forwarded(state: State, fact: Fact) -> None:
    if state.refusals.pop(fact.subject_id, None) is None:
        state.anomalies["refusal-forwarded out of turn"] += 1


REFUSAL_HANDLERS: dict[tuple[str, str], Callable[[State, Fact], None]] = {
    ("job", "refused"): _refused,
    ("job", "refusal-forwarded"): _refusal_forwarded,
}


Wish = TypeVar("Wish", QueueWish, ReservationWish, ComposeWish)
Said = tuple[str, str, str, FactBody]
"""Kind, subject, name and body of what is forwarded."""


def forwarded(state: State, clusters: Sequence[str], *, most: int) -> Iterator[Draft]:
    """The next `most` wishes, each for the cluster that it names, or for every one.

    The copies of one wish are never split over two batches. Nothing is kept that names a cluster which is no member: it
    could be forwarded to nobody.
    """
    waiting: list[tuple[QueueWish | ReservationWish | ComposeWish, Said]] = [
        *((wish, _queue_change(wish)) for wish in state.wishes.values()),
        *((wish, _reservation(wish)) for wish in state.reservations.values()),
        *((wish, _devices(wish)) for wish in state.devices.values()),
    ]
    for wish, (kind, subject_id, name, payload) in waiting[:most]:
        for cluster in _addressees(wish, clusters):
            causes = (wish.fact,)
            yield Draft(kind, subject_id, name, payload, causes, wish.trace, together=wish.fact, cluster=cluster)
    if state.operations:
        yield from operations_forwarded(state, clusters, most=most)


def snapshot(state: State) -> Iterator[Draft]:
    """Wishes that were not forwarded yet, by what they are about."""
    for name, changes in _grouped((wish.spec.name, wish) for wish in state.wishes.values()):
        yield Draft("queue", name, STATE_NAME, QueueWishes(wishes=changes))
    for name, asked in _grouped((wish.name, wish) for wish in state.reservations.values()):
        yield Draft("reservation", name, STATE_NAME, ReservationState(wishes=asked))
    for subject_id, wanted in _grouped((wish.subject_id, wish) for wish in state.devices.values()):
        yield Draft("composability", subject_id, STATE_NAME, ComposeWishes(wishes=wanted))
    yield from operations_snapshot(state)


def restore(state: State, payload: FactBody) -> None:
    """What a checkpoint says of wishes."""
    match payload:
        case QueueWishes(wishes=changes):
            state.wishes.update({wish.fact: wish for wish in changes})
        case ReservationState(wishes=asked):
            state.reservations.update({wish.fact: wish for wish in asked})
        case ComposeWishes(wishes=wanted):
            for wish in wanted:
                _keep(state, wish, what=STATE_NAME)
        case _:
            return


def _queue_change(wish: QueueWish) -> Said:
    return "queue", wish.spec.name, "change-forwarded", QueueChangeRequested(spec=wish.spec, principal=wish.principal)


def _reservation(wish: ReservationWish) -> Said:
    if wish.spec is None:
        ending = ReserveEndRequested(principal=wish.principal, reason=wish.reason)
        return "reservation", wish.name, "end-forwarded", ending
    asked = ReserveRequested(spec=wish.spec, principal=wish.principal)
    return "reservation", wish.name, "reserve-forwarded", asked


def _devices(wish: ComposeWish) -> Said:
    if wish.compose is not None:
        return "composability", wish.subject_id, "compose-forwarded", wish.compose
    if wish.decompose is not None:
        return "composability", wish.subject_id, "decompose-forwarded", wish.decompose
    assert wish.detach is not None, f"{wish.fact}: a wish about devices has one of three bodies"
    return "device", wish.subject_id, "detach-forwarded", wish.detach


def _addressees(wish: QueueWish | ReservationWish | ComposeWish, clusters: Sequence[str]) -> Sequence[str]:
    """Queues and reservations are every cluster's; devices are of the cluster whose composer was asked for them."""
    named = _named(wish) if isinstance(wish, ComposeWish) else ""
    return (named,) if named else clusters


def _named(wish: ComposeWish) -> str:
    asked = wish.compose or wish.decompose or wish.detach
    return asked.cluster if asked is not None else ""


def _keep(state: State, wish: ComposeWish, *, what: str) -> None:
    named = _named(wish)
    if not named or state.is_member(named, what=what):
        state.devices[wish.fact] = wish


def _grouped(wishes: Iterable[tuple[str, Wish]]) -> Iterator[tuple[str, tuple[Wish, ...]]]:
    by_name: dict[str, list[Wish]] = {}
    for name, wish in wishes:
        by_name.setdefault(name, []).append(wish)
    return ((name, tuple(group)) for name, group in by_name.items())


def _change_requested(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, QueueChangeRequested)
    wish = fact.payload
    state.wishes[fact.id] = QueueWish(fact=fact.id, spec=wish.spec, principal=wish.principal, trace=fact.trace)


def _reserve_requested(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, ReserveRequested)
    wish = fact.payload
    state.reservations[fact.id] = ReservationWish(
        fact=fact.id, name=fact.subject_id, spec=wish.spec, principal=wish.principal, trace=fact.trace
    )


def _end_requested(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, ReserveEndRequested)
    wish = fact.payload
    state.reservations[fact.id] = ReservationWish(
        fact=fact.id, name=fact.subject_id, principal=wish.principal, reason=wish.reason, trace=fact.trace
    )


def _devices_requested(state: State, fact: Fact) -> None:
    wish = ComposeWish(fact=fact.id, subject_id=fact.subject_id, trace=fact.trace)
    match fact.payload:
        case ComposeRequested() as asked:
            wish = wish.model_copy(update={"compose": asked})
        case DecomposeRequested() as asked:
            wish = wish.model_copy(update={"decompose": asked})
        case DetachRequested() as asked:
            wish = wish.model_copy(update={"detach": asked})
    _keep(state, wish, what=fact.name)


def _forwarded(state: State, fact: Fact) -> None:
    for cause in fact.causes:  # the first of the copies that is folded answers the wish
        state.wishes.pop(cause, None)
        state.reservations.pop(cause, None)
        state.devices.pop(cause, None)


HANDLERS: dict[tuple[str, str], Callable[[State, Fact], None]] = {
    ("queue", "change-requested"): _change_requested,
    ("queue", "change-forwarded"): _forwarded,
    ("reservation", "reserve-requested"): _reserve_requested,
    ("reservation", "reserve-forwarded"): _forwarded,
    ("reservation", "end-requested"): _end_requested,
    ("reservation", "end-forwarded"): _forwarded,
    ("composability", "compose-requested"): _devices_requested,
    ("composability", "compose-forwarded"): _forwarded,
    ("composability", "decompose-requested"): _devices_requested,
    ("composability", "decompose-forwarded"): _forwarded,
    ("device", "detach-requested"): _devices_requested,
    ("device", "detach-forwarded"): _forwarded,
    **OPERATION_HANDLERS,
}
