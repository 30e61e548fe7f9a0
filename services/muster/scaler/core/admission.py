"""Quota of one job in a pass: what its places would hold, by the models of their nodes, as the scheduler counts it.

What a gang asks for says nothing of a model's quota unless it names exactly one, nor how many GPUs whole nodes have. So
places are found first; if they are of a model of which its queue may hold no more, the gang is looked at without it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from muster.placement import DEVICE_MILLI, GangRequest, Hold
from muster.quota.amounts import Amounts, held_amounts, model_resource
from muster.quota.formulas import Ceiling
from muster.quota.queues import QueueTree
from muster.scaler.core.choices import Choices
from muster.scaler.core.cluster import Cluster
from muster.scaler.core.jobs import JobTable, Shape
from muster.scaler.core.limits import MODELS_TRIED_MAX
from muster.schemas.facts.queue import CPU, GPU, MEMORY
from muster.schemas.facts.scale import ScaleChosen, ScalePart


@dataclass(frozen=True, slots=True)
class Fit:
    """Places that are free, with what they hold, if quota allows them."""

    ask: GangRequest | None
    """The gang on models that quota allows; None if no model is left."""
    holds: tuple[Hold, ...] = ()
    held: Amounts | None = None
    ceiling: Ceiling | None = None
    """The limit that bars other models; None if nothing does."""


@dataclass(frozen=True, slots=True, eq=False)
class Admission:
    """What the queues of waiting jobs may still hold. A decision proposes amounts to them, and withdraws all of it."""

    cluster: Cluster
    queues: QueueTree

    def knows(self, shape: Shape) -> bool:
        """Whether the queue of these jobs exists."""
        return shape.queue in self.queues.queues

    def ceiling(self, shape: Shape, amounts: Amounts) -> Ceiling | None:
        """Return the limit that keeps the queue from holding so much more; None if it may."""
        return self.queues.ceiling(shape.queue, amounts, preemptible=shape.preemptible)

    def propose(self, shape: Shape, amounts: Amounts) -> None:
        """Count this as held by the queue until the end of the pass."""
        self.queues.propose(shape.queue, amounts, preemptible=shape.preemptible)

    def withdraw(self) -> None:
        """Forget everything that was proposed."""
        self.queues.withdraw_proposals()

    def fit(self, shape: Shape) -> Fit:
        """Find places for a job that are free already, on a model of which its queue may hold so much more."""
        ask: GangRequest | None = shape.least
        first: Ceiling | None = None
        for _ in range(MODELS_TRIED_MAX):
            holds = self.cluster.fleet.find(ask) if ask is not None else None
            if holds is None:
                return Fit(ask, ceiling=first)
            held = held_amounts([hold.slot for hold in holds], shape.least, self.cluster.gpu_model)
            ceiling = self.ceiling(shape, held)
            if ceiling is None:
                return Fit(ask, holds, held, first)
            first = first or ceiling
            ask = self.without_barred(ask, [self.cluster.gpu_model(hold.slot.node) for hold in holds], ceiling)
        return Fit(None, ceiling=first)

    def without_barred(self, ask: GangRequest | None, models: Iterable[str], ceiling: Ceiling) -> GangRequest | None:
        """Return the gang on other models than those that this ceiling is about; None if it takes no other."""
        if ask is None or not ceiling.resource.startswith(f"{GPU}:"):
            return None
        known = {*models, *(model for group in self.cluster.config.groups.values() for model in group.gpu_models)}
        return ask.without_models(sorted(model for model in known if model_resource(model) == ceiling.resource))

    def amounts(self, shape: Shape, chosen: Sequence[ScaleChosen], *, are_entered: bool = False) -> Amounts:
        """Return what a job will hold in the places of these choices for it; without places, what it asks for.

        are_entered: their devices are in the fleet already, and are not to be counted once more.
        """
        added = {} if are_entered else {part.node: part for one in chosen for part in one.parts}
        amounts = dict[str, int]()
        for one in chosen:
            for place in one.places:
                if place.group >= len(shape.gang.groups):
                    continue
                task = shape.gang.groups[place.group].shape
                model, gpus = self._gpus_then(one, place.node, added.get(place.node))
                milli = gpus * DEVICE_MILLI if task.full_node else task.gpus * DEVICE_MILLI + task.gpu_milli
                of_one = {GPU: milli, CPU: task.cpu_milli, MEMORY: task.memory_mib}
                if milli and (resource := model_resource(model)):
                    of_one[resource] = milli
                for resource, amount in of_one.items():
                    amounts[resource] = amounts.get(resource, 0) + place.replicas * amount
        return {resource: amount for resource, amount in amounts.items() if amount} or shape.amounts

    def _gpus_then(self, chosen: ScaleChosen, node: str, part: ScalePart | None) -> tuple[str, int]:
        """Return the model and the count of the GPUs of a node once the choice is carried out."""
        known = self.cluster.fleet.ledger.nodes.get(node)
        model, gpus = (known.shape.gpu_model, known.shape.gpu_count) if known is not None else ("", 0)
        if part is not None:
            return part.device_model, gpus + part.count
        group = self.cluster.config.groups.get(chosen.group)
        if known is None and group is not None and not group.composable:
            return group.gpu_models[0] if group.gpu_models else "", group.gpus
        return model, gpus

    def charge(self, choices: Choices, jobs: JobTable) -> None:
        """Count what is on its way for waiting jobs as held by their queues: they come before all others."""
        totals = dict[tuple[str, bool], dict[str, int]]()
        for job_id, of_job in choices.of_job.items():
            record = jobs.records.get(job_id)
            if record is None or not record.wants or not self.knows(record.shape):
                continue
            total = totals.setdefault((record.shape.queue, record.shape.preemptible), {})
            chosen = [one.chosen for one in of_job.values()]
            for resource, amount in self.amounts(record.shape, chosen, are_entered=True).items():
                total[resource] = total.get(resource, 0) + amount
        for (queue, preemptible), total in totals.items():
            self.queues.propose(queue, total, preemptible=preemptible)


def models_chosen(chosen: Iterable[ScaleChosen]) -> list[str]:
    """Return the models of the devices that choices bring."""
    return [part.device_model for one in chosen for part in one.parts]
