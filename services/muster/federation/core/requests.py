"""Requests for clusters (queues, reservations, devices, nodes, refusals): kept until they are forwarded.

A repeated request of the gateway has no effect, however it came into the log: the newest ids are remembered, since the
broker refuses duplicates for two minutes only. A job records how it was submitted and cancelled.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from muster.core import Draft, Fact
from muster.core.folding import Folds
from muster.federation.core.state import State
from muster.schemas.base import Payload
from muster.schemas.facts.composability import (
    ComposeRequested,
    DecomposeRequested,
    DetachRequested,
    PendingDeviceRequest,
    PendingDeviceRequests,
)
from muster.schemas.facts.operations import PendingOperation, PendingOperations
from muster.schemas.facts.queue import PendingQueueChange, PendingQueueChanges, QueueChangeRequested
from muster.schemas.facts.reservation import (
    PendingReservation,
    ReservationState,
    ReserveEndRequested,
    ReserveRequested,
)
from muster.schemas.facts.workload import JobRefused, RefusalState
from muster.schemas.record import FactBody
from muster.schemas.registry import STATE_NAME, StreamRole, fact_type

FOLDS = Folds[State, None]()


REQUESTS_KEPT = 10_000
"""Maximum number of remembered requests: months of requests about queues, nodes and clusters."""

FOLDED = "folded"
"""Subject of the state fact that keeps the ids."""

_GATEWAY = "gateway"
_OF_JOBS = frozenset({"submitted", "cancel-requested"})


def is_first(state: State, fact: Fact) -> bool:
    """Return whether to fold the fact, and remember a request. A repeated request is counted as an anomaly."""
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
    """Return the remembered ids, oldest first."""
    if state.requests:
        yield Draft(OPERATIONS, FOLDED, STATE_NAME, PendingOperations(folded=tuple(state.requests)))


OPERATIONS, ASKED = "operations", "asked"
"""Kind and subject of the state fact with the unforwarded requests."""

REQUESTED, FORWARDED = "-requested", "-forwarded"

ASKS: tuple[tuple[str, str], ...] = (
    *(("node", ask) for ask in ("cordon", "drain", "resume", "verify")),
    *(("campaign", ask) for ask in ("start", "pause", "resume", "abort")),
    ("health", "brake-reset"),
)
"""Kinds of subjects, and the requests about each."""


def operations_forwarded(state: State, clusters: Sequence[str], *, most: int) -> Iterator[Draft]:
    """Return the next `most` operations, each for its cluster; one batch holds all copies of one request.

    Requests for clusters that are not members are not kept, as they could not be forwarded.
    """
    for request in tuple(state.operations.values())[:most]:
        name = request.name.removesuffix(REQUESTED) + FORWARDED
        payload = _operation_payload(request)
        for cluster in (request.cluster,) if request.cluster else clusters:
            yield Draft(
                request.kind,
                request.subject_id,
                name,
                payload,
                (request.fact,),
                request.trace,
                together=request.fact,
                cluster=cluster,
            )


def operations_snapshot(state: State) -> Iterator[Draft]:
    """Return the operations that are not forwarded yet."""
    if state.operations:
        yield Draft(OPERATIONS, ASKED, STATE_NAME, PendingOperations(wishes=tuple(state.operations.values())))


def _operation_payload(request: PendingOperation) -> FactBody:
    row = fact_type(StreamRole.FED, "gateway", request.kind, request.name)
    assert row is not None, f"{request.name} is not a request for a {request.kind}"
    return row.payload.model_validate_json(request.body)


def _operation_requested(state: State, fact: Fact, asked: Payload) -> None:
    cluster = getattr(asked, "cluster", "")
    if cluster and not state.is_member(cluster, what=fact.name):
        return
    state.operations[fact.id] = PendingOperation(
        fact=fact.id,
        kind=fact.kind,
        subject_id=fact.subject_id,
        name=fact.name,
        body=asked.model_dump_json(),
        cluster=cluster,
        trace=fact.trace,
    )


def _operation_forwarded(state: State, fact: Fact, _: Payload) -> None:
    for cause in fact.causes:  # the first folded copy answers the request
        state.operations.pop(cause, None)


for _kind, _ask in ASKS:
    FOLDS.on(_kind, f"{_ask}{REQUESTED}", Payload)(_operation_requested)
    FOLDS.on(_kind, f"{_ask}{FORWARDED}", Payload)(_operation_forwarded)


@FOLDS.on(OPERATIONS, STATE_NAME, PendingOperations)
def _restore_operations(state: State, _fact: Fact, stored: PendingOperations) -> None:
    for request in stored.wishes:
        if not request.cluster or state.is_member(request.cluster, what=request.name):
            state.operations[request.fact] = request
    state.requests.update(dict.fromkeys(stored.folded))


def refusals_forwarded(state: State, *, most: int) -> Iterator[Draft]:
    """Return the next `most` refusals, each for the cluster of its object."""
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
    """Return the refusals that are not forwarded yet, by their object."""
    for refusal in state.refusals.values():
        yield Draft("workload", refusal.refused.workload, STATE_NAME, refusal, trace=refusal.trace)


@FOLDS.on("workload", STATE_NAME, RefusalState)
def _restore_refusal(state: State, _fact: Fact, stored: RefusalState) -> None:
    if state.is_member(stored.refused.cluster, what="refused"):
        state.refusals[stored.job_id] = stored


@FOLDS.on("job", "refused", JobRefused)
def _refused(state: State, fact: Fact, refused: JobRefused) -> None:
    if not state.is_member(refused.cluster, what="refused"):
        return
    state.refusals[fact.subject_id] = RefusalState(
        job_id=fact.subject_id, refused=refused, fact=fact.id, trace=fact.trace
    )


@FOLDS.on("job", "refusal-forwarded", JobRefused)
def _refusal_forwarded(state: State, fact: Fact, _: JobRefused) -> None:
    if state.refusals.pop(fact.subject_id, None) is None:
        state.anomalies["refusal-forwarded out of turn"] += 1


Pending = TypeVar("Pending", PendingQueueChange, PendingReservation, PendingDeviceRequest)
Said = tuple[str, str, str, FactBody]
"""Kind, subject, name and body of a forwarded fact."""


def forwarded(state: State, clusters: Sequence[str], *, most: int) -> Iterator[Draft]:
    """Return the next `most` requests, each for the cluster that it names, or for every cluster.

    One batch holds all copies of one request. Requests for clusters that are not members are not kept, as they could
    not be forwarded.
    """
    waiting: list[tuple[PendingQueueChange | PendingReservation | PendingDeviceRequest, Said]] = [
        *((request, _queue_change(request)) for request in state.wishes.values()),
        *((request, _reservation(request)) for request in state.reservations.values()),
        *((request, _devices(request)) for request in state.devices.values()),
    ]
    for request, (kind, subject_id, name, payload) in waiting[:most]:
        for cluster in _addressees(request, clusters):
            causes = (request.fact,)
            yield Draft(kind, subject_id, name, payload, causes, request.trace, together=request.fact, cluster=cluster)
    if state.operations:
        yield from operations_forwarded(state, clusters, most=most)


def snapshot(state: State) -> Iterator[Draft]:
    """Return the requests that are not forwarded yet, by their subject."""
    for name, changes in _grouped((request.spec.name, request) for request in state.wishes.values()):
        yield Draft("queue", name, STATE_NAME, PendingQueueChanges(wishes=changes))
    for name, asked in _grouped((request.name, request) for request in state.reservations.values()):
        yield Draft("reservation", name, STATE_NAME, ReservationState(wishes=asked))
    for subject_id, wanted in _grouped((request.subject_id, request) for request in state.devices.values()):
        yield Draft("composability", subject_id, STATE_NAME, PendingDeviceRequests(wishes=wanted))
    yield from operations_snapshot(state)


@FOLDS.on("queue", STATE_NAME, PendingQueueChanges)
def _restore_queue(state: State, _fact: Fact, stored: PendingQueueChanges) -> None:
    state.wishes.update({request.fact: request for request in stored.wishes})


@FOLDS.on("reservation", STATE_NAME, ReservationState)
def _restore_reservation(state: State, _fact: Fact, stored: ReservationState) -> None:
    state.reservations.update({request.fact: request for request in stored.wishes})


@FOLDS.on("composability", STATE_NAME, PendingDeviceRequests)
def _restore_devices(state: State, _fact: Fact, stored: PendingDeviceRequests) -> None:
    for request in stored.wishes:
        _keep(state, request, what=STATE_NAME)


def _queue_change(request: PendingQueueChange) -> Said:
    return (
        "queue",
        request.spec.name,
        "change-forwarded",
        QueueChangeRequested(spec=request.spec, principal=request.principal),
    )


def _reservation(request: PendingReservation) -> Said:
    if request.spec is None:
        ending = ReserveEndRequested(principal=request.principal, reason=request.reason)
        return "reservation", request.name, "end-forwarded", ending
    asked = ReserveRequested(spec=request.spec, principal=request.principal)
    return "reservation", request.name, "reserve-forwarded", asked


def _devices(request: PendingDeviceRequest) -> Said:
    if request.compose is not None:
        return "composability", request.subject_id, "compose-forwarded", request.compose
    if request.decompose is not None:
        return "composability", request.subject_id, "decompose-forwarded", request.decompose
    assert request.detach is not None, f"{request.fact}: a request about devices has one of three bodies"
    return "device", request.subject_id, "detach-forwarded", request.detach


def _addressees(
    request: PendingQueueChange | PendingReservation | PendingDeviceRequest, clusters: Sequence[str]
) -> Sequence[str]:
    """Return every cluster for queues and reservations, and for devices the cluster whose composer was asked."""
    named = _named(request) if isinstance(request, PendingDeviceRequest) else ""
    return (named,) if named else clusters


def _named(request: PendingDeviceRequest) -> str:
    asked = request.compose or request.decompose or request.detach
    return asked.cluster if asked is not None else ""


def _keep(state: State, request: PendingDeviceRequest, *, what: str) -> None:
    named = _named(request)
    if not named or state.is_member(named, what=what):
        state.devices[request.fact] = request


def _grouped(requests: Iterable[tuple[str, Pending]]) -> Iterator[tuple[str, tuple[Pending, ...]]]:
    by_name: dict[str, list[Pending]] = {}
    for name, request in requests:
        by_name.setdefault(name, []).append(request)
    return ((name, tuple(group)) for name, group in by_name.items())


@FOLDS.on("queue", "change-requested", QueueChangeRequested)
def _change_requested(state: State, fact: Fact, request: QueueChangeRequested) -> None:
    state.wishes[fact.id] = PendingQueueChange(
        fact=fact.id, spec=request.spec, principal=request.principal, trace=fact.trace
    )


@FOLDS.on("reservation", "reserve-requested", ReserveRequested)
def _reserve_requested(state: State, fact: Fact, request: ReserveRequested) -> None:
    state.reservations[fact.id] = PendingReservation(
        fact=fact.id, name=fact.subject_id, spec=request.spec, principal=request.principal, trace=fact.trace
    )


@FOLDS.on("reservation", "end-requested", ReserveEndRequested)
def _end_requested(state: State, fact: Fact, request: ReserveEndRequested) -> None:
    state.reservations[fact.id] = PendingReservation(
        fact=fact.id, name=fact.subject_id, principal=request.principal, reason=request.reason, trace=fact.trace
    )


@FOLDS.on("composability", "compose-requested", ComposeRequested)
def _compose_requested(state: State, fact: Fact, asked: ComposeRequested) -> None:
    request = PendingDeviceRequest(fact=fact.id, subject_id=fact.subject_id, compose=asked, trace=fact.trace)
    _keep(state, request, what=fact.name)


@FOLDS.on("composability", "decompose-requested", DecomposeRequested)
def _decompose_requested(state: State, fact: Fact, asked: DecomposeRequested) -> None:
    request = PendingDeviceRequest(fact=fact.id, subject_id=fact.subject_id, decompose=asked, trace=fact.trace)
    _keep(state, request, what=fact.name)


@FOLDS.on("device", "detach-requested", DetachRequested)
def _detach_requested(state: State, fact: Fact, asked: DetachRequested) -> None:
    request = PendingDeviceRequest(fact=fact.id, subject_id=fact.subject_id, detach=asked, trace=fact.trace)
    _keep(state, request, what=fact.name)


@FOLDS.on("queue", "change-forwarded", Payload)
@FOLDS.on("reservation", ("reserve-forwarded", "end-forwarded"), Payload)
@FOLDS.on("composability", ("compose-forwarded", "decompose-forwarded"), Payload)
@FOLDS.on("device", "detach-forwarded", Payload)
def _forwarded(state: State, fact: Fact, _: Payload) -> None:
    for cause in fact.causes:  # the first folded copy answers the request
        state.wishes.pop(cause, None)
        state.reservations.pop(cause, None)
        state.devices.pop(cause, None)
