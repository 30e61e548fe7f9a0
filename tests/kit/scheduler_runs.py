"""A scheduler whose jobs run by themselves: pods start when they are placed, and end when they are done or must."""

from dataclasses import dataclass

from kit.log import START
from kit.scheduler import VirtualScheduler, job
from muster.core import NS_PER_S, Fact, after
from muster.schemas.facts.job import JobStopRequested, PodsExited, PodsOutcome, PodsStarted
from muster.schemas.job import Job, Phase


@dataclass(slots=True)
class Work:
    """What a job does. run_s: work of the whole job; done_s of it is kept over its runs."""

    job: Job
    run_s: float
    done_s: float = 0.0


class RunningScheduler(VirtualScheduler):
    """Everything that happens by itself happens while time passes (`advance`)."""

    def __init__(self, **rest: object) -> None:
        self.works: dict[str, Work] = {}
        super().__init__(**rest)
        self.watch = self._follow

    def come(self, name: str, *, run_s: float, **spec: object) -> Job:
        """A job comes now that works so long; the scheduler decides when time goes on."""
        one = job(name, **spec)
        self.works[one.id] = Work(one, run_s)
        self.route(one)
        return one

    def start_of(self, one: Job) -> float | None:
        """Seconds from the start of the log to the newest run of the job; None if it never ran."""
        starts = [fact.time for fact in self.log if fact.subject_id == one.id and fact.name == "placed"]
        return (starts[-1] - START) / NS_PER_S if starts else None

    def _follow(self, fact: Fact) -> None:
        """The agent does what the log says."""
        work = self.works.get(fact.subject_id)
        if work is None:
            return
        job_id, attempt = work.job.id, self.core.state.jobs.records[fact.subject_id].attempt
        if fact.name == "placed":
            started = PodsStarted(attempt=attempt)
            self.at(self.now, lambda: self.write("agent", "job", job_id, "pods-started", started))
        elif fact.name == "running":
            done = after(self.now, work.run_s - work.done_s)
            self.at(done, lambda: self._end(job_id, attempt, PodsOutcome.SUCCEEDED))
        elif isinstance(fact.payload, JobStopRequested):
            self.at(self.now, lambda: self._end(job_id, attempt, PodsOutcome.STOPPED))

    def _end(self, job_id: str, attempt: int, outcome: PodsOutcome) -> None:
        record, work = self.core.state.jobs.records[job_id], self.works[job_id]
        if record.attempt != attempt or record.phase not in (Phase.PLACED, Phase.RUNNING, Phase.STOPPING):
            return
        ran_s = (self.now - record.running_at) / NS_PER_S if record.running_at else 0.0
        work.done_s += ran_s
        payload = PodsExited(attempt=attempt, outcome=outcome, ran_s=ran_s)
        self.write("agent", "job", job_id, "pods-exited", payload)
