"""Waiting jobs in the order in which they were queued: each is admitted, fits already, or gets its choice.

All in thought and in one walk: what an earlier job takes of quota, places and pool, a later one does not find.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from heapq import heappop, heapreplace

from muster.core import Instant, after
from muster.quota.amounts import Amounts
from muster.scaler.core import autoscaler, hysteresis, limits
from muster.scaler.core.admission import Fit, charge_choices, chosen_amounts, fit_of, models_chosen, without_barred
from muster.scaler.core.case_add import CASE as ATTACH_CASE
from muster.scaler.core.case_add import attach_or_add
from muster.scaler.core.case_cannot_add import attach_or_nothing
from muster.scaler.core.choice import Choice
from muster.scaler.core.choices import ATTACH
from muster.scaler.core.demand import Line, Waiting, waiting_of
from muster.scaler.core.enlarge import gpus_enough
from muster.scaler.core.jobs import HEALTH, JobRecord, Shape
from muster.scaler.core.options import Option
from muster.scaler.core.pretend import Pretence
from muster.scaler.core.quiet import Quiet, look_again_at, supply_of
from muster.scaler.core.serving import attach, barred
from muster.scaler.core.signals import NodeWanted
from muster.scaler.core.state import State
from muster.schemas.facts.scale import ScaleChosen


@dataclass(frozen=True, slots=True)
class Tried:
    """That nothing could be done for a line's first job, which waits because of `word`. choice: what is said of it.

    supply, freed: what there was then. rests_until: when a fabric, group or device that rested may be used; 0: none.
    """

    choice: Choice | None
    job_id: str
    word: str
    supply: tuple[int, int]
    freed: int
    rests_until: Instant


class Walk:
    """One walk along the lines. wake: when the next one could find something else by time alone.

    depends_on_places: somebody fits already, waits for quota, or was not told yet that there is nothing: what jobs take
    and give may change what is found.
    """

    def __init__(self, state: State, tried: dict[Shape, Tried], quiet: Quiet, pretence: Pretence, now: Instant) -> None:
        self._state = state
        self._tried = tried
        self._quiet = quiet
        self._pretence = pretence
        self._now = now
        self._looks = self._fits = self._coming = 0
        self._found: list[list[Choice]] = []
        self._chosen = 0
        self._served, self._unfit, self._restless = set[str](), set[Shape](), set[Shape]()
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
        heap = self._quiet.awake(self._now)
        if self._quiet.wake is not None:
            self._note_wake(self._quiet.wake)
        try:
            while heap:
                entry, at, line = heap[0]
                goes_on = self._see(state.jobs.records[entry[2]], line)
                if goes_on is None:
                    break
                if goes_on and at + 1 < len(line.jobs):
                    heapreplace(heap, (line.jobs[at + 1], at + 1, line))
                else:
                    heappop(heap)
        finally:
            state.queues.withdraw_proposals()
        return self._found

    def _see(self, record: JobRecord, line: Line) -> bool | None:
        """One job. Whether the next of its line is to be seen; None: no more in this walk."""
        state = self._state
        shape = line.shape
        if shape.queue not in state.queues.queues:
            return False
        if record.id in state.choices.of_job or record.id in self._served:
            return True
        if not self._is_due(record):
            self._restless.add(shape)
            return self._take_place(record)
        tried = self._tried.get(shape)
        if tried is not None and self._holds(tried, record):
            self._say_again(record, tried)
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
            self._pretence.hold(fit.holds)
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
        return any(group.composable and self._state.nodes_coming(group.name) for group in groups)

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
        payload = attach(ATTACH_CASE, later, waiting, why="", others=(), causes=()).payload
        assert isinstance(payload, ScaleChosen)
        amounts = chosen_amounts(state, shape, [payload])
        if state.queues.ceiling(shape.queue, amounts, preemptible=shape.preemptible) is not None:
            return False
        self._pretence.choose(ATTACH, payload)
        state.queues.propose(shape.queue, amounts, preemptible=shape.preemptible)
        self.depends_on_places = True
        return True

    def _say_again(self, record: JobRecord, tried: Tried) -> None:
        """What was found out still holds; once it is in the log, nobody has to see the line again until it does not."""
        known, said = self._state.refused.get(record.id), tried.choice
        if said is not None and (known is None or (known.case, known.code) != (said.payload.case, said.code)):
            self._found.append([said])
        elif known is not None and record.shape not in self._restless:
            self._quiet.put(record.shape, told_at=Instant(known.at), rests_until=tried.rests_until)
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
        self._pretence.hold(fit.holds)
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
                self._pretence.choose(choice.name, choice.payload)
        self._state.queues.propose(shape.queue, amounts, preemptible=shape.preemptible)

    # --- when ------------------------------------------------------------------------------------------------

    def _is_due(self, record: JobRecord) -> bool:
        """Whether something is looked for: not while nodes or devices may become well."""
        if record.reason != HEALTH:
            return True
        waits_until = after(Instant(record.word_at), limits.HEALTH_S)
        if waits_until <= self._now:
            return True
        self._note_wake(waits_until)
        return False

    def _holds(self, tried: Tried, record: JobRecord) -> bool:
        """Whether what was found out for the line still holds."""
        state = self._state
        if (tried.job_id, tried.word) != (record.id, record.word_fact) or tried.supply != supply_of(state):
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
        if refused is None or state.freed_at <= max(refused.at, state.supplied_at, record.word_at):
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
            choice, record.id, record.word_fact, supply_of(state), state.freed, rests_until
        )

    @cached_property
    def _settles(self) -> Instant:
        """When the next idle device has stood for its time, and may be moved; 0 if none is to."""
        idle = self._state.idle.idle_in.values()
        moments = [hysteresis.settled_at(self._state, uuid) for devices in idle for uuid in devices]
        return min((moment for moment in moments if moment > self._now), default=Instant(0))

    def _note_wake(self, moment: Instant) -> None:
        self.wake = moment if self.wake is None else min(self.wake, moment)
