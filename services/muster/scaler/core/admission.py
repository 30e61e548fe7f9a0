"""Quota of one job in a pass: what its places would hold, by the models of their nodes, as the scheduler counts it.

What a gang asks for says nothing of a model's quota unless it names exactly one, nor how many GPUs whole nodes have. So
places are found first; if they are of a model of which its queue may hold no more, the gang is looked at without it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from muster.placement import DEVICE_MILLI, GangRequest, Hold
from muster.quota.amounts import Amounts, held_amounts, model_resource
from muster.quota.formulas import Ceiling
from muster.scaler.core.jobs import Shape
from muster.scaler.core.limits import MODELS_TRIED_MAX
from muster.scaler.core.state import State
from muster.schemas.facts.queue import CPU, GPU, MEMORY
from muster.schemas.facts.scale import ScaleChosen


@dataclass(frozen=True, slots=True)
class Fit:
    """Places that are there, with what they hold, if quota allows them. ask: the gang on models that quota allows.

    ceiling: what bars the others, None if nothing does. ask is None if no model is left.
    """

    ask: GangRequest | None
    holds: tuple[Hold, ...] = ()
    held: Amounts | None = None
    ceiling: Ceiling | None = None


def fit_of(state: State, shape: Shape) -> Fit:
    """Whether there is room for a job already, on a model of which its queue may hold so much more."""
    ask: GangRequest | None = shape.least
    first: Ceiling | None = None
    for _ in range(MODELS_TRIED_MAX):
        holds = state.fleet.find(ask) if ask is not None else None
        if holds is None:
            return Fit(ask, ceiling=first)
        held = held_amounts([hold.slot for hold in holds], shape.least, lambda node: _model_of(state, node))
        ceiling = state.queues.ceiling(shape.queue, held, preemptible=shape.preemptible)
        if ceiling is None:
            return Fit(ask, holds, held, first)
        first = first or ceiling
        ask = without_barred(state, ask, [_model_of(state, hold.slot.node) for hold in holds], ceiling)
    return Fit(None, ceiling=first)


def without_barred(
    state: State, ask: GangRequest | None, models: Iterable[str], ceiling: Ceiling
) -> GangRequest | None:
    """The gang on other models than those that this ceiling is about; None if it takes no other."""
    if ask is None or not ceiling.resource.startswith(f"{GPU}:"):
        return None
    known = {*models, *(model for group in state.config.groups.values() for model in group.gpu_models)}
    return ask.without_models(sorted(model for model in known if model_resource(model) == ceiling.resource))


def chosen_amounts(state: State, shape: Shape, chosen: Sequence[ScaleChosen], *, are_entered: bool = False) -> Amounts:
    """What a job holds once it stands where these choices for it say; without places, what it asks for.

    are_entered: their devices are in the fleet, in thought, and are not to be counted once more.
    """
    added = {} if are_entered else {part.node: part for one in chosen for part in one.parts}
    amounts = dict[str, int]()
    for one in chosen:
        for place in one.places:
            if place.group >= len(shape.gang.groups):
                continue
            task, part = shape.gang.groups[place.group].shape, added.get(place.node)
            known = state.fleet.ledger.nodes.get(place.node)
            model, gpus = (known.shape.gpu_model, known.shape.gpu_count) if known is not None else ("", 0)
            if part is not None:
                model, gpus = part.device_model, gpus + part.count
            elif known is None and (group := state.config.groups.get(one.group)) is not None and not group.composable:
                model, gpus = group.gpu_models[0] if group.gpu_models else "", group.gpus
            milli = gpus * DEVICE_MILLI if task.full_node else task.gpus * DEVICE_MILLI + task.gpu_milli
            of_one = {GPU: milli, CPU: task.cpu_milli, MEMORY: task.memory_mib}
            if milli and (resource := model_resource(model)):
                of_one[resource] = milli
            for resource, amount in of_one.items():
                amounts[resource] = amounts.get(resource, 0) + place.replicas * amount
    return {resource: amount for resource, amount in amounts.items() if amount} or shape.amounts


def models_chosen(chosen: Iterable[ScaleChosen]) -> list[str]:
    """Models of the devices that choices bring."""
    return [part.device_model for one in chosen for part in one.parts]


def charge_choices(state: State) -> None:
    """Count what is on its way for jobs that wait as held by their queues: they come before all others."""
    totals = dict[tuple[str, bool], dict[str, int]]()
    for job_id, choices in state.choices.of_job.items():
        record = state.jobs.records.get(job_id)
        if record is None or not record.wants or record.shape.queue not in state.queues.queues:
            continue
        total = totals.setdefault((record.shape.queue, record.shape.preemptible), {})
        chosen = [one.chosen for one in choices.values()]
        for resource, amount in chosen_amounts(state, record.shape, chosen, are_entered=True).items():
            total[resource] = total.get(resource, 0) + amount
    for (queue, preemptible), total in totals.items():
        state.queues.propose(queue, total, preemptible=preemptible)


def _model_of(state: State, node: str) -> str:
    """Of the GPUs of a node, as it is or as it will be; "" if that is not known."""
    known = state.fleet.ledger.nodes.get(node)
    return known.shape.gpu_model if known is not None else ""
