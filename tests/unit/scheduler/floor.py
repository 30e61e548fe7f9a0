"""A world whose jobs run by themselves: pods start when they are placed, and end when they are done or must."""

import heapq
from dataclasses import dataclass

from muster.core import NS_PER_S, Fact, Instant
from muster.schemas.facts.job import JobStopRequested, PodsExited, PodsOutcome, PodsStarted
from muster.schemas.job import Job, Phase
from unit.scheduler.world import START, World, job

STEPS_MAX = 20_000


@dataclass(slots=True)
class Work:
    """What a job does. run_s: work of the whole job; done_s of it is kept over its runs."""

    job: Job
    run_s: float
    done_s: float = 0.0


class Floor(World):
    """later: lets time pass and everything happen that happens by itself."""

    def __init__(self, **rest: object) -> None:
        self.works: dict[str, Work] = {}
        self._events: list[tuple[int, int, str, int]] = []
        self._seen = 0
        super().__init__(**rest)

    def come(self, name: str, *, run_s: float, **spec: object) -> Job:
        """A job comes now that works so long; the scheduler decides when time goes on."""
        one = job(name, **spec)
        self.works[one.id] = Work(one, run_s)
        self.route(one)
        return one

    def later(self, seconds: float) -> None:
        end = Instant(self.now + round(seconds * NS_PER_S))
        for _ in range(STEPS_MAX):
            self.run()
            self._react()
            wake = self.core.next_wakeup()
            moments = [moment for moment in (wake, self._events[0][0] if self._events else None) if moment is not None]
            if not moments or min(moments) > end:
                break
            self.now = Instant(max(self.now, min(moments)))
            while self._events and self._events[0][0] <= self.now:
                _, _, job_id, attempt = heapq.heappop(self._events)
                self._end(job_id, attempt, PodsOutcome.SUCCEEDED)
        else:
            raise AssertionError("time does not pass")
        self.now = end
        self.run()
        self._react()

    def start_of(self, one: Job) -> float | None:
        """Seconds from the start of the world to the newest run of the job; None if it never ran."""
        starts = [fact.time for fact in self.log if fact.subject_id == one.id and fact.name == "placed"]
        return (starts[-1] - START) / NS_PER_S if starts else None

    def _react(self) -> None:
        """The agent does what the log says, until nothing more is said."""
        while self._seen < len(self.log):
            fact = self.log[self._seen]
            self._seen += 1
            if fact.kind == "job" and fact.subject_id in self.works:
                self._follow(fact)
            if self._seen == len(self.log):
                self.run()

    def _follow(self, fact: Fact) -> None:
        work, record = self.works[fact.subject_id], self.core.state.jobs.records[fact.subject_id]
        if fact.name == "placed":
            self.say("agent", "job", work.job.id, "pods-started", PodsStarted(attempt=record.attempt))
        elif fact.name == "running":
            left_ns = round((work.run_s - work.done_s) * NS_PER_S)
            heapq.heappush(self._events, (self.now + left_ns, self._seen, work.job.id, record.attempt))
        elif isinstance(fact.payload, JobStopRequested):
            self._end(work.job.id, fact.payload.attempt, PodsOutcome.STOPPED)

    def _end(self, job_id: str, attempt: int, outcome: PodsOutcome) -> None:
        record, work = self.core.state.jobs.records[job_id], self.works[job_id]
        if record.attempt != attempt or record.phase not in (Phase.PLACED, Phase.RUNNING, Phase.STOPPING):
            return
        ran_s = (self.now - record.running_at) / NS_PER_S if record.running_at else 0.0
        work.done_s += ran_s
        payload = PodsExited(attempt=attempt, outcome=outcome, ran_s=ran_s)
        self.say("agent", "job", job_id, "pods-exited", payload)
