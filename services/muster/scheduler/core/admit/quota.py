"""Whether one gang is let in, and where it goes: quota before and after a place was found.

What a gang asks for is compared with quota first. What it then would hold may be more: of a GPU model, which is known
once it has a place, or of GPUs, where it takes whole nodes. If a model's quota is used up the other models are tried.
An elastic gang takes as many replicas as quota and room allow, and its least at least.
"""

from collections.abc import Sequence

from muster.placement import GangRequest, Hold
from muster.quota.amounts import Amounts, gang_amounts, model_resource
from muster.quota.formulas import Ceiling
from muster.scheduler.core.reasons import of_ceiling
from muster.scheduler.core.state import State
from muster.scheduler.core.stores.capacity import amounts_of
from muster.scheduler.core.stores.jobs import JobRecord
from muster.scheduler.core.stores.pending_queue import Cap, Lane
from muster.schemas.facts.queue import GPU

MODELS_TRIED_MAX = 8
"""GPU models that one gang is tried on in one go because the quota of those before is used up."""


def admit(state: State, record: JobRecord, lane: Lane) -> tuple[Hold, ...] | None:
    """Propose places for the first of a lane, in the fleet and in its queue; None if it has to wait for something."""
    gang = _within_quota(state, lane)
    barred = list[str]()
    first: tuple[Ceiling, Amounts] | None = None
    while gang is not None:
        avoided, proposals = lane.kind.avoided, state.proposals
        holds = proposals.propose_apart(record.id, gang, avoided) if avoided else proposals.propose(record.id, gang)
        if holds is None:
            break
        held = amounts_of(lane.kind, [hold.slot for hold in holds], state.capacity.models)
        ceiling = state.queues.ceiling(lane.queue, held, preemptible=lane.kind.preemptible)
        if ceiling is None:
            state.queues.propose(lane.queue, held, preemptible=lane.kind.preemptible)
            return holds
        state.proposals.retract(record.id)
        first = first or (ceiling, held)
        models = _models(state, holds, ceiling.resource)
        barred += models
        gang = gang.without_models(models) if models and len(barred) < MODELS_TRIED_MAX else None
    if first is not None:
        _run_into(state, lane, *first, is_restless=True)
    elif gang is not None:
        state.pending.fall_short(lane)
    return None


def _within_quota(state: State, lane: Lane) -> GangRequest | None:
    """The gang, with as many replicas as quota allows; None, and the lane waits, if that is less than its least."""
    kind, queues = lane.kind, state.queues
    ceiling = queues.ceiling(lane.queue, kind.amounts, preemptible=kind.preemptible)
    if ceiling is None:
        return kind.gang
    wanted = kind.amounts
    if kind.gang.is_elastic:
        wanted = kind.amounts_least
        ceiling = queues.ceiling(lane.queue, wanted, preemptible=kind.preemptible)
        if ceiling is None:
            return kind.gang.limited(_most(state, lane))
    _run_into(state, lane, ceiling, wanted, is_restless=False)
    return None


def _most(state: State, lane: Lane) -> Sequence[int]:
    """How many replicas of each group quota allows: those of the first group come first."""
    kind = lane.kind
    counts = [group.replicas_least for group in kind.gang.groups]
    for at, group in enumerate(kind.gang.groups):
        least, most = counts[at], group.replicas
        while least < most:
            middle = (least + most + 1) // 2
            counts[at] = middle
            asked = gang_amounts(kind.gang, counts)
            if state.queues.ceiling(lane.queue, asked, preemptible=kind.preemptible) is None:
                least = middle
            else:
                most = middle - 1
        counts[at] = least
    return counts


def _run_into(state: State, lane: Lane, ceiling: Ceiling, wanted: Amounts, *, is_restless: bool) -> None:
    cap = Cap(
        ceiling.resource,
        of_ceiling(ceiling, wanted=wanted),
        amounts=wanted,
        is_restless=is_restless,
        is_provisional=state.queues.has_proposals,
    )
    state.pending.run_into(lane, cap)


def _models(state: State, holds: Sequence[Hold], resource: str) -> list[str]:
    """The models of these places that count for this resource of one model."""
    if not resource.startswith(f"{GPU}:"):
        return []
    models = {state.capacity.model_of(hold.slot.node) for hold in holds}
    return sorted(model for model in models if model_resource(model) == resource)
