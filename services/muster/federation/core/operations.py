"""What people ask of a cluster's nodes, campaigns and brake: kept until it is forwarded, as it was said.

Each names its cluster; one that names none is every cluster's. The federation decides nothing of these.
"""

from collections.abc import Callable, Iterator, Sequence

from muster.core import Draft, Fact
from muster.federation.core.state import State
from muster.schemas.facts.operations import OperationWish, OperationWishes
from muster.schemas.record import FactBody
from muster.schemas.registry import STATE_NAME, StreamRole, fact_type

KIND, SUBJECT = "operations", "asked"
"""Of the state fact that keeps them."""

REQUESTED, FORWARDED = "-requested", "-forwarded"

ASKS: tuple[tuple[str, str], ...] = (
    *(("node", ask) for ask in ("cordon", "drain", "resume", "verify")),
    *(("campaign", ask) for ask in ("start", "pause", "resume", "abort")),
    ("health", "brake-reset"),
)
"""Kind of subject, and what is asked of it."""


def forwarded(state: State, clusters: Sequence[str], *, most: int) -> Iterator[Draft]:
    """The next `most` of them, each for its cluster; the copies of one are never split over two batches.

    Nothing is kept that names a cluster which is no member: it could be forwarded to nobody.
    """
    for wish in tuple(state.operations.values())[:most]:
        name = wish.name.removesuffix(REQUESTED) + FORWARDED
        payload = _payload(wish)
        for cluster in (wish.cluster,) if wish.cluster else clusters:
            yield Draft(
                wish.kind, wish.subject_id, name, payload, (wish.fact,), wish.trace, together=wish.fact, cluster=cluster
            )


def snapshot(state: State) -> Iterator[Draft]:
    """All that is not forwarded yet."""
    if state.operations:
        yield Draft(KIND, SUBJECT, STATE_NAME, OperationWishes(wishes=tuple(state.operations.values())))


def _payload(wish: OperationWish) -> FactBody:
    row = fact_type(StreamRole.FED, "gateway", wish.kind, wish.name)
    assert row is not None, f"nobody may ask {wish.name} of a {wish.kind}"
    return row.payload.model_validate_json(wish.body)


def _requested(state: State, fact: Fact) -> None:
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


def _forwarded(state: State, fact: Fact) -> None:
    for cause in fact.causes:  # the first of the copies that is folded answers the wish
        state.operations.pop(cause, None)


def _restore(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, OperationWishes)
    for wish in fact.payload.wishes:
        if not wish.cluster or state.is_member(wish.cluster, what=wish.name):
            state.operations[wish.fact] = wish
    state.requests.update(dict.fromkeys(fact.payload.folded))


HANDLERS: dict[tuple[str, str], Callable[[State, Fact], None]] = {
    **{(kind, f"{ask}{REQUESTED}"): _requested for kind, ask in ASKS},
    **{(kind, f"{ask}{FORWARDED}"): _forwarded for kind, ask in ASKS},
    (KIND, STATE_NAME): _restore,
}
