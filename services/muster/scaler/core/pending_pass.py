"""The pending-job pass: in the order of queueing, each job is admitted, fits already, or gets its choice.

The pass runs within one what-if: quota, places and devices taken by an earlier job are not available to a later one.
`PendingJobs` decides when the next pass is due: until something changes, its answer is the same.

Quota is checked by the models of the nodes, as the scheduler counts it. A request determines the model only if it names
exactly one, and never the number of GPUs of whole nodes. So places are found first; if they are of a model whose quota
is used up, the gang is tried without that model.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heapreplace

from muster.core import Instant, after
from muster.placement import DEVICE_MILLI, GangRequest, Hold
from muster.quota.amounts import Amounts, held_amounts, model_resource
from muster.quota.formulas import Ceiling
from muster.quota.queues import QueueTree
from muster.scaler.core import limits
from muster.scaler.core.backoff import Backoff, Tried
from muster.scaler.core.choices import Choice, Choices
from muster.scaler.core.cluster import Cluster
from muster.scaler.core.jobs import HEALTH, JobRecord, JobTable, PendingQueue, Shape, Waiting, waiting_of
from muster.scaler.core.limits import MODELS_TRIED_MAX
from muster.scaler.core.scale_up import ScaleUp, barred
from muster.scaler.core.what_if import FutureFleet, WhatIf
from muster.schemas.facts.queue import CPU, GPU, MEMORY
from muster.schemas.facts.scale import ScaleChosen, ScalePart


@dataclass(frozen=True, slots=True)
class Fit:
    """Free places for a gang, with the amounts that they hold, if quota allows them."""

    ask: GangRequest | None
    """The gang on models that quota allows; None if no model is left."""
    holds: tuple[Hold, ...] = ()
    held: Amounts | None = None
    ceiling: Ceiling | None = None
    """The limit that excludes other models; None if there is none."""


@dataclass(frozen=True, slots=True, eq=False)
class Admission:
    """Quota left in the queues of waiting jobs. A decision proposes amounts, and withdraws them all."""

    cluster: Cluster
    queues: QueueTree

    def knows(self, shape: Shape) -> bool:
        """Return whether the queue of these jobs exists."""
        return shape.queue in self.queues.queues

    def ceiling(self, shape: Shape, amounts: Amounts) -> Ceiling | None:
        """Return the limit that keeps the queue from holding these additional amounts; None if there is none."""
        return self.queues.ceiling(shape.queue, amounts, preemptible=shape.preemptible)

    def propose(self, shape: Shape, amounts: Amounts) -> None:
        """Count these amounts as held by the queue until the end of the pass."""
        self.queues.propose(shape.queue, amounts, preemptible=shape.preemptible)

    def withdraw(self) -> None:
        """Remove all proposed amounts."""
        self.queues.withdraw_proposals()

    def fit(self, shape: Shape) -> Fit:
        """Find free places for a job, on a model whose quota admits it."""
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
        """Return the gang without the models that this limit is about; None if it takes no other model."""
        if ask is None or not ceiling.resource.startswith(f"{GPU}:"):
            return None
        known = {*models, *(model for group in self.cluster.config.groups.values() for model in group.gpu_models)}
        return ask.without_models(sorted(model for model in known if model_resource(model) == ceiling.resource))

    def amounts(self, shape: Shape, chosen: Sequence[ScaleChosen], *, are_entered: bool = False) -> Amounts:
        """Return what a job will hold in the places of these choices; without places, its request.

        With `are_entered` the devices of the choices are already in the fleet, and are not added again.
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
        """Return the model and the number of GPUs of a node once the choice is completed."""
        known = self.cluster.fleet.ledger.nodes.get(node)
        model, gpus = (known.shape.gpu_model, known.shape.gpu_count) if known is not None else ("", 0)
        if part is not None:
            return part.device_model, gpus + part.count
        group = self.cluster.config.groups.get(chosen.group)
        if known is None and group is not None and not group.composable:
            return group.gpu_models[0] if group.gpu_models else "", group.gpus
        return model, gpus

    def charge(self, choices: Choices, jobs: JobTable) -> None:
        """Count choices under way for waiting jobs as held by their queues: these jobs come before all others."""
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
    """Return the models of the devices that choices add."""
    return [part.device_model for one in chosen for part in one.parts]


class PendingPass:
    """One pass over the active pending queues."""

    def __init__(
        self,
        jobs: JobTable,
        choices: Choices,
        *,
        what_if: WhatIf,
        admission: Admission,
        scale_up: ScaleUp,
        backoff: Backoff,
    ) -> None:
        self._jobs = jobs
        self._choices = choices
        self._what_if = what_if
        self._now = what_if.now
        self._admission = admission
        self._scale_up = scale_up
        self._backoff = backoff
        self._looks = self._fits = self._coming = 0
        self._found: list[list[Choice]] = []
        self._chosen = 0
        self._served, self._unfit, self._deferred = set[str](), set[Shape](), set[Shape]()
        self.has_more = False
        """Whether the pass stopped at a limit."""
        self.depends_on_places = False
        """Whether a job fits already, waits for quota, or has no report yet: taken or freed places may change the
        answer."""

    @property
    def has_chosen(self) -> bool:
        """Whether something was chosen for a job."""
        return bool(self._chosen)

    def run(self) -> list[list[Choice]]:
        """Return the choices; choices that belong together are in one list."""
        heap = self._backoff.active(self._now)
        self._admission.charge(self._choices, self._jobs)
        try:
            self._take_served()
            while heap:
                entry, at, queue = heap[0]
                goes_on = self._process(self._jobs.records[entry[2]], queue)
                if goes_on is None:
                    break
                if goes_on and at + 1 < len(queue.jobs):
                    heapreplace(heap, (queue.jobs[at + 1], at + 1, queue))
                else:
                    heappop(heap)
        finally:
            self._admission.withdraw()
        return self._found

    def _process(self, record: JobRecord, queue: PendingQueue) -> bool | None:
        """Process one job. Return True to go on with the next of its queue, False to skip the queue, None to stop."""
        shape, admission = queue.shape, self._admission
        if not admission.knows(shape):
            return False
        if record.id in self._choices.of_job or record.id in self._served:
            return True
        if not self._is_due(record):
            self._deferred.add(shape)
            return self._take_place(record)
        tried = self._backoff.tried(record)
        if tried is not None:
            self._report_again(record, tried)
            return False
        if self._backoff.is_put_off(record):
            return False
        if admission.ceiling(shape, shape.amounts) is not None:
            self.depends_on_places = True
            return False
        fit = admission.fit(shape)
        self.depends_on_places |= fit.ceiling is not None
        if fit.held is not None:
            self._fits, self.depends_on_places = self._fits + 1, True
            self._what_if.hold(fit.holds)
            admission.propose(shape, fit.held)
            return True if self._fits < limits.FITS_PER_DECISION_MAX else None
        if self._looks >= limits.LOOKS_MAX or self._chosen >= limits.CHOICES_PER_DECISION_MAX:
            self.has_more = True
            return None
        if len(self._choices.open) >= limits.CHOICES_OPEN_MAX:
            return None
        return self._look_ahead(record, fit)

    def _look_ahead(self, record: JobRecord, fit: Fit) -> bool | None:
        """Wait for a node on its way if it will do; else look for a choice."""
        if fit.ask is not None and fit.ceiling is None and self._scale_up.awaits_nodes():
            if self._coming >= limits.COMING_MAX:
                return None
            self._coming += 1
            if self._waits_for_a_node(record.shape, replace(waiting_of(record), ask=fit.ask)):
                return True
        return self._look(record, fit)

    def _waits_for_a_node(self, shape: Shape, waiting: Waiting) -> bool:
        """Return whether nodes on their way will be enough once they get more GPUs, which are chosen when they have
        joined.

        Until then it counts as chosen, so that later jobs do not take these places and GPUs.
        """
        awaited = self._scale_up.awaited(waiting, self._now)
        if awaited is None or not isinstance(awaited.payload, ScaleChosen):
            return False
        amounts = self._admission.amounts(shape, [awaited.payload])
        if self._admission.ceiling(shape, amounts) is not None:
            return False
        self._what_if.choose(awaited.name, awaited.payload)
        self._admission.propose(shape, amounts)
        self.depends_on_places = True
        return True

    def _report_again(self, record: JobRecord, tried: Tried) -> None:
        """Report a refusal that still holds; once it is in the log, put the queue into backoff."""
        known, said = self._backoff.refusal(record), tried.choice
        if said is not None and (known is None or (known.case, known.code) != (said.payload.case, said.code)):
            self._found.append([said])
        elif known is not None and record.shape not in self._deferred:
            self._backoff.put(record.shape, reported_at=Instant(known.at), rests_until=tried.rests_until)
        self.depends_on_places |= known is None

    def _take_served(self) -> None:
        """Take the places of jobs whose choice was completed recently: the scheduler is about to place them."""
        for job_id, served_at in reversed(self._jobs.served_at.items()):
            until = after(served_at, limits.SERVED_S)
            if until <= self._now:
                break  # earlier entries were served before that
            record = self._jobs.records.get(job_id)
            if record is None or not record.wants or job_id in self._choices.of_job:
                continue
            if self._admission.knows(record.shape):
                self._served.add(job_id)
                self._backoff.note_wake(until)
                self._take_place(record)

    def _take_place(self, record: JobRecord) -> bool:
        """Keep the places of a job that waits for the scheduler, and count them; return False if quota is used up."""
        shape, admission = record.shape, self._admission
        if admission.ceiling(shape, shape.amounts) is not None:
            self.depends_on_places = True
            return False
        fit = admission.fit(shape) if shape not in self._unfit else Fit(None)
        if fit.held is None:
            self._unfit.add(shape)
        self.depends_on_places = True
        self._what_if.hold(fit.holds)
        admission.propose(shape, fit.held or shape.amounts)
        return True

    def _look(self, record: JobRecord, fit: Fit) -> bool:
        """Ask the autoscaler, choose by its signal, and return whether something is done for the job.

        If the found places are of a model whose quota is used up, other models are tried.
        """
        shape, ask, ceiling, admission = record.shape, fit.ask, fit.ceiling, self._admission
        found = list[Choice]()
        for _ in range(limits.MODELS_TRIED_MAX):
            found = self._scale_up.choices(replace(waiting_of(record), ask=ask), self._now) if ask is not None else []
            self._looks += 1
            chosen = [choice.payload for choice in found if isinstance(choice.payload, ScaleChosen)]
            if not chosen:
                break
            amounts = admission.amounts(shape, chosen)
            over = admission.ceiling(shape, amounts)
            if over is None:
                self._choose(shape, found, amounts)
                return True
            ceiling, found = ceiling or over, []
            ask = admission.without_barred(ask, models_chosen(chosen), over)
        if ceiling is not None:
            found, self.depends_on_places = [barred(choice, ceiling) for choice in found], True
        self._found += [found] if found else []
        self.depends_on_places |= self._backoff.refusal(record) is None
        self._backoff.note_tried(record, found[0] if found else None)
        return False

    def _choose(self, shape: Shape, found: list[Choice], amounts: Amounts) -> None:
        self._found.append(found)
        self._chosen += len(found)
        for choice in found:
            if isinstance(choice.payload, ScaleChosen):
                self._what_if.choose(choice.name, choice.payload)
        self._admission.propose(shape, amounts)

    def _is_due(self, record: JobRecord) -> bool:
        """Return whether scaling acts for the job: not while nodes or devices may become healthy."""
        if record.reason != HEALTH:
            return True
        waits_until = after(Instant(record.reason_at), limits.HEALTH_S)
        if waits_until <= self._now:
            return True
        self._backoff.note_wake(waits_until)
        return False


class PendingJobs:
    """Decides when a pass is due, and caches the last answer."""

    def __init__(self, future: FutureFleet, admission: Admission, *, scale_up: ScaleUp, backoff: Backoff) -> None:
        self._future = future
        self._grants = future.cluster.grants
        self._choices = future.choices
        self._admission = admission
        self._scale_up = scale_up
        self._backoff = backoff
        self._changes = backoff.changes
        self._ground: tuple[object, ...] = ()
        self._depends_on_places = True
        self._answer: list[list[Choice]] = []
        self._wake: Instant | None = None
        self._freed, self._at, self._has_chosen = -1, Instant(0), False
        self.has_more = False
        """Whether the last pass stopped at a limit."""

    def choices(self, now: Instant) -> list[list[Choice]]:
        """Return choices for waiting jobs; choices that belong together are in one list.

        Changes on their way must be entered in the fleet; all stores are unchanged afterwards.
        """
        if self._is_pass_due(now):
            with WhatIf(self._future, now) as what_if:
                one_pass = PendingPass(
                    self._future.jobs,
                    self._choices,
                    what_if=what_if,
                    admission=self._admission,
                    scale_up=self._scale_up,
                    backoff=self._backoff,
                )
                self._answer = one_pass.run()
                self._has_chosen = one_pass.has_chosen
            self._depends_on_places = one_pass.depends_on_places
            self._ground = self._ground_now()
            self._wake, self.has_more = self._backoff.wake, one_pass.has_more
            self._freed, self._at = self._changes.freed, now
        return list(self._answer)

    def _is_pass_due(self, now: Instant) -> bool:
        if self._has_chosen and now != self._at:
            return True  # the last choices are not in the log: there may be better ones now
        if self.has_more or self._ground != self._ground_now() or (self._wake is not None and now >= self._wake):
            return True
        if self._freed == self._changes.freed:
            return False
        if self._depends_on_places:
            return True
        if self._backoff.demand.pending:  # all were refused, and are tried again some time after places became free
            again = self._backoff.look_again_at()
            self._wake = again if self._wake is None else min(self._wake, again)
        return self._wake is not None and now >= self._wake

    def _ground_now(self) -> tuple[object, ...]:
        places = self._changes.taken + self._grants.changes if self._depends_on_places else 0
        choices = self._choices
        return self._backoff.demand.version, self._changes.supply, choices.chosen, len(choices.open), places

    def next_look(self) -> Instant | None:
        """Return when a job is tried again by time alone."""
        return self._wake
