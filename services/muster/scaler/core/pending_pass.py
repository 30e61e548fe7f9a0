"""The pending-job pass: in the order in which they were queued, each job is admitted, fits already, or gets its choice.

All within one what-if: what an earlier job takes of quota, places and pool, a later one does not find. `PendingJobs`
decides when the next pass is due: until something changed, its answer is the same.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from heapq import heappop, heapreplace

from muster.core import Instant, after
from muster.quota.amounts import Amounts
from muster.scaler.core import autoscaler, limits
from muster.scaler.core.admission import Fit, charge_choices, chosen_amounts, fit_of, models_chosen, without_barred
from muster.scaler.core.backoff import Backoff, look_again_at, supply_of
from muster.scaler.core.choices import ATTACH, Choice
from muster.scaler.core.enlarge import gpus_enough
from muster.scaler.core.jobs import HEALTH, JobRecord, PendingQueue, Shape, Waiting, waiting_of
from muster.scaler.core.options import Option
from muster.scaler.core.scale_up import CASE_ADD, attach, attach_or_add, attach_or_nothing, barred
from muster.scaler.core.signals import NodeWanted
from muster.scaler.core.spare import settled_at
from muster.scaler.core.state import State
from muster.scaler.core.what_if import WhatIf
from muster.schemas.facts.scale import ScaleChosen


@dataclass(frozen=True, slots=True)
class Tried:
    """That nothing could be done for a queue's first job, which waits because of `reason_fact`.

    choice: what is reported of it. supply, freed: what there was then. rests_until: when a fabric, group or device that
    rested may be used; 0: none.
    """

    choice: Choice | None
    job_id: str
    reason_fact: str
    supply: tuple[int, int]
    freed: int
    rests_until: Instant


class PendingPass:
    """One pass over the active pending queues. wake: when the next one could find something else by time alone.

    depends_on_places: somebody fits already, waits for quota, or was not told yet that there is nothing: what jobs take
    and give may change what is found.
    """

    def __init__(
        self, state: State, tried: dict[Shape, Tried], backoff: Backoff, what_if: WhatIf, now: Instant
    ) -> None:
        self._state = state
        self._tried = tried
        self._backoff = backoff
        self._what_if = what_if
        self._now = now
        self._looks = self._fits = self._coming = 0
        self._found: list[list[Choice]] = []
        self._chosen = 0
        self._served, self._unfit, self._deferred = set[str](), set[Shape](), set[Shape]()
        self.has_more = self.depends_on_places = False
        self.wake: Instant | None = None

    @property
    def has_chosen(self) -> bool:
        """Whether something was chosen for somebody."""
        return bool(self._chosen)

    def run(self) -> list[list[Choice]]:
        """What is to be said."""
        state = self._state
        charge_choices(state)
        self._take_served()
        heap = self._backoff.active(self._now)
        if self._backoff.wake is not None:
            self._note_wake(self._backoff.wake)
        try:
            while heap:
                entry, at, queue = heap[0]
                goes_on = self._process(state.jobs.records[entry[2]], queue)
                if goes_on is None:
                    break
                if goes_on and at + 1 < len(queue.jobs):
                    heapreplace(heap, (queue.jobs[at + 1], at + 1, queue))
                else:
                    heappop(heap)
        finally:
            state.queues.withdraw_proposals()
        return self._found

    def _process(self, record: JobRecord, queue: PendingQueue) -> bool | None:
        """Process one job. Return True to go on with the next of its queue, False to skip the queue, None to stop."""
        state = self._state
        shape = queue.shape
        if shape.queue not in state.queues.queues:
            return False
        if record.id in state.choices.of_job or record.id in self._served:
            return True
        if not self._is_due(record):
            self._deferred.add(shape)
            return self._take_place(record)
        tried = self._tried.get(shape)
        if tried is not None and self._holds(tried, record):
            self._report_again(record, tried)
            return False
        if self._is_put_off(record):
            return False
        if state.queues.ceiling(shape.queue, shape.amounts, preemptible=shape.preemptible) is not None:
            self.depends_on_places = True
            return False
        fit = fit_of(state, shape)
        self.depends_on_places |= fit.ceiling is not None
        if fit.held is not None:
            self._fits, self.depends_on_places = self._fits + 1, True
            self._what_if.hold(fit.holds)
            state.queues.propose(shape.queue, fit.held, preemptible=shape.preemptible)
            return True if self._fits < limits.FITS_PER_DECISION_MAX else None
        if self._looks >= limits.LOOKS_MAX or self._chosen >= limits.CHOICES_PER_DECISION_MAX:
            self.has_more = True
            return None
        if len(state.choices.open) >= limits.CHOICES_OPEN_MAX:
            return None
        return self._look_ahead(record, fit)

    def _look_ahead(self, record: JobRecord, fit: Fit) -> bool | None:
        """Look whether a node that is on its way will do; else for what to choose."""
        if fit.ask is not None and fit.ceiling is None and self._nodes_come():
            if self._coming >= limits.COMING_MAX:
                return None
            self._coming += 1
            if self._waits_for_a_node(record.shape, replace(waiting_of(record), ask=fit.ask)):
                return True
        return self._look(record, fit)

    def _nodes_come(self) -> bool:
        """Whether composable nodes were chosen and have not joined."""
        groups = self._state.config.groups.values()
        return any(group.composable and self._state.capacity.nodes_coming(group.name) for group in groups)

    def _waits_for_a_node(self, shape: Shape, waiting: Waiting) -> bool:
        """Whether nodes that are on their way will be enough once they get more GPUs: chosen when they have joined.

        Until then it counts as if it were chosen, so that whoever comes after it finds neither those places nor GPUs.
        """
        state = self._state
        if isinstance(gpus_enough(state, waiting), Option):
            return False
        later = gpus_enough(state, waiting, with_coming=True)
        if not isinstance(later, Option) or later.devices:
            return False
        payload = attach(CASE_ADD, later, waiting, why="", others=(), causes=()).payload
        assert isinstance(payload, ScaleChosen)
        amounts = chosen_amounts(state, shape, [payload])
        if state.queues.ceiling(shape.queue, amounts, preemptible=shape.preemptible) is not None:
            return False
        self._what_if.choose(ATTACH, payload)
        state.queues.propose(shape.queue, amounts, preemptible=shape.preemptible)
        self.depends_on_places = True
        return True

    def _report_again(self, record: JobRecord, tried: Tried) -> None:
        """Report what still holds; once it is in the log, leave the queue in backoff until it holds no more."""
        known, said = self._state.refused.get(record.id), tried.choice
        if said is not None and (known is None or (known.case, known.code) != (said.payload.case, said.code)):
            self._found.append([said])
        elif known is not None and record.shape not in self._deferred:
            self._backoff.put(record.shape, reported_at=Instant(known.at), rests_until=tried.rests_until)
        self.depends_on_places |= known is None

    def _take_served(self) -> None:
        """Jobs for which something was carried out a moment ago come next: the scheduler is about to place them."""
        state = self._state
        for job_id, served_at in reversed(state.served_at.items()):
            until = after(served_at, limits.SERVED_S)
            if until <= self._now:
                break  # those before it were served before
            record = state.jobs.records.get(job_id)
            if record is None or not record.wants or job_id in state.choices.of_job:
                continue
            if record.shape.queue in state.queues.queues:
                self._served.add(job_id)
                self._note_wake(until)
                self._take_place(record)

    def _take_place(self, record: JobRecord) -> bool:
        """For a job that waits for the scheduler: what it will hold is kept, and counts. False if quota is used up."""
        state, shape = self._state, record.shape
        if state.queues.ceiling(shape.queue, shape.amounts, preemptible=shape.preemptible) is not None:
            self.depends_on_places = True
            return False
        fit = fit_of(state, shape) if shape not in self._unfit else Fit(None)
        if fit.held is None:
            self._unfit.add(shape)
        self.depends_on_places = True
        self._what_if.hold(fit.holds)
        state.queues.propose(shape.queue, fit.held or shape.amounts, preemptible=shape.preemptible)
        return True

    def _look(self, record: JobRecord, fit: Fit) -> bool:
        """Ask the autoscaler, and choose by what it says. Whether something is done for the job.

        What is found on a model of which the queue may hold no more is looked for again on others.
        """
        shape, ask, ceiling = record.shape, fit.ask, fit.ceiling
        found = list[Choice]()
        for _ in range(limits.MODELS_TRIED_MAX):
            found = self._asked(replace(waiting_of(record), ask=ask)) if ask is not None else []
            self._looks += 1
            chosen = [choice.payload for choice in found if isinstance(choice.payload, ScaleChosen)]
            if not chosen:
                break
            amounts = chosen_amounts(self._state, shape, chosen)
            over = self._state.queues.ceiling(shape.queue, amounts, preemptible=shape.preemptible)
            if over is None:
                self._choose(shape, found, amounts)
                return True
            ceiling, found = ceiling or over, []
            ask = without_barred(self._state, ask, models_chosen(chosen), over)
        if ceiling is not None:
            found, self.depends_on_places = [barred(choice, ceiling) for choice in found], True
        self._found += [found] if found else []
        self.depends_on_places |= record.id not in self._state.refused
        self._note_tried(record, found[0] if found else None)
        return False

    def _asked(self, waiting: Waiting) -> list[Choice]:
        """What is chosen by what the autoscaler says."""
        demanded = autoscaler.of_job(self._state, waiting)
        if isinstance(demanded, NodeWanted):
            return attach_or_add(self._state, demanded, waiting)
        return [] if demanded is None else [attach_or_nothing(self._state, demanded, waiting)]

    def _choose(self, shape: Shape, found: list[Choice], amounts: Amounts) -> None:
        """All of it is chosen, and counts from now on."""
        self._found.append(found)
        self._chosen += len(found)
        for choice in found:
            if isinstance(choice.payload, ScaleChosen):
                self._what_if.choose(choice.name, choice.payload)
        self._state.queues.propose(shape.queue, amounts, preemptible=shape.preemptible)

    # --- when ------------------------------------------------------------------------------------------------

    def _is_due(self, record: JobRecord) -> bool:
        """Whether something is looked for: not while nodes or devices may become well."""
        if record.reason != HEALTH:
            return True
        waits_until = after(Instant(record.reason_at), limits.HEALTH_S)
        if waits_until <= self._now:
            return True
        self._note_wake(waits_until)
        return False

    def _holds(self, tried: Tried, record: JobRecord) -> bool:
        """Whether what was found out for the queue still holds."""
        state = self._state
        if (tried.job_id, tried.reason_fact) != (record.id, record.reason_fact) or tried.supply != supply_of(state):
            return False
        if tried.rests_until:
            if tried.rests_until <= self._now:
                return False
            self._note_wake(tried.rests_until)
        return tried.freed == state.freed

    def _is_put_off(self, record: JobRecord) -> bool:
        """Whether all that changed since nothing was chosen for the job is that places came free, a moment ago.

        Until when is a function of what was folded, so that a scaler that takes over looks when this one would have.
        """
        state = self._state
        refused = state.refused.get(record.id)
        if refused is None or state.freed_at <= max(refused.at, state.supplied_at, record.reason_at):
            return False
        until = look_again_at(state)
        if until <= self._now:
            return False
        self._note_wake(until)
        return True

    def _note_tried(self, record: JobRecord, choice: Choice | None) -> None:
        state, now = self._state, self._now
        rests = [state.rests_until(name) for name in state.failed_at] + list(state.pool.closed_until.values())
        if record.shape.gpus:
            rests.append(self._settles)
        rests_until = min((until for until in rests if until > now), default=Instant(0))
        if rests_until:
            self._note_wake(rests_until)
        self._tried[record.shape] = Tried(
            choice, record.id, record.reason_fact, supply_of(state), state.freed, rests_until
        )

    @cached_property
    def _settles(self) -> Instant:
        """When the next idle device has stood for its time, and may be moved; 0 if none is to."""
        idle = self._state.idle.idle_in.values()
        moments = [settled_at(self._state, uuid) for devices in idle for uuid in devices]
        return min((moment for moment in moments if moment > self._now), default=Instant(0))

    def _note_wake(self, moment: Instant) -> None:
        self.wake = moment if self.wake is None else min(self.wake, moment)


class PendingJobs:
    """Decides when a pass is due, and keeps the last answer. has_more: the last pass stopped before it was done."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._tried: dict[Shape, Tried] = {}
        self._backoff = Backoff(state)
        self._ground: tuple[int, ...] = ()
        self._depends_on_places = True
        self._answer: list[list[Choice]] = []
        self._wake: Instant | None = None
        self._freed, self._at, self._has_chosen = -1, Instant(0), False
        self.has_more = False

    def choices(self, now: Instant) -> list[list[Choice]]:
        """Choices for waiting jobs; those that stand together in one list. The state must be settled and is left so."""
        state = self._state
        if self._is_pass_due(now):
            with WhatIf(state) as what_if:
                one_pass = PendingPass(state, self._tried, self._backoff, what_if, now)
                self._answer = one_pass.run()
                self._has_chosen = one_pass.has_chosen
            self._depends_on_places = one_pass.depends_on_places
            self._ground = self._ground_now()
            self._wake, self.has_more = one_pass.wake, one_pass.has_more
            self._freed, self._at = state.freed, now
            if len(self._tried) > limits.TRIED_SPARE + 2 * len(state.demand.pending):
                self._tried = {shape: tried for shape, tried in self._tried.items() if shape in state.demand.pending}
        return list(self._answer)

    def _is_pass_due(self, now: Instant) -> bool:
        """Whether anything changed by which the answer could be another one."""
        state = self._state
        if self._has_chosen and now != self._at:
            return True  # what was said then is not in the log: it may be said better now
        if self.has_more or self._ground != self._ground_now() or (self._wake is not None and now >= self._wake):
            return True
        if self._freed == state.freed:
            return False
        if self._depends_on_places:
            return True
        if state.demand.pending:  # all that wait were refused, and are looked at again a moment after places came free
            again = look_again_at(state)
            self._wake = again if self._wake is None else min(self._wake, again)
        return self._wake is not None and now >= self._wake

    def _ground_now(self) -> tuple[int, ...]:
        state = self._state
        places = state.taken + state.grants.changes if self._depends_on_places else 0
        return state.demand.version, state.supply, state.pool.version, state.chosen, len(state.choices.open), places

    def next_look(self) -> Instant | None:
        """When somebody is to be looked at again by time alone."""
        return self._wake
