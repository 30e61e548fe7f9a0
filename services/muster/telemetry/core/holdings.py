"""The nodes and jobs of the log that readings need: existing devices, and the jobs that hold them."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from muster.cluster import Hold, Holds, Nodes
from muster.core import Fact, Instant
from muster.core.folding import Folds
from muster.schemas.facts.federation import JobReturned
from muster.schemas.facts.job import JobFinished, JobQueued, JobRouted, JobState
from muster.schemas.job import TERMINAL_PHASES, Job, Phase
from muster.schemas.registry import STATE_NAME

NEVER = Instant(0)
OVER = (*(phase.value for phase in Phase if phase.is_terminal), "returned")
"""Names of the facts after which a job is no longer this cluster's."""


@dataclass(slots=True)
class KnownJob:
    """A job that has not ended."""

    job: Job
    queue: str = ""


class HoldingJobs:
    """The jobs that hold something and whose pods have not exited, to be asked for by id: a page that names
    another one is behind.
    """

    def __init__(self, holds: Mapping[str, Hold]) -> None:
        self._holds = holds

    def __contains__(self, job_id: object) -> bool:
        hold = self._holds.get(job_id) if isinstance(job_id, str) else None
        return hold is not None and not hold.has_exited


class Holdings:
    """Folds facts of nodes and jobs. nodes, jobs: for reading. anomalies: facts of jobs that fit no state, by name.

    holds: who holds what. holding: of the jobs those that hold something and whose pods have not exited. origins: by
    namespace/name, the live job of an object of Kubernetes that makes its pods itself.
    """

    _FOLDS = Folds["Holdings", None]()

    def __init__(self) -> None:
        self.nodes = Nodes()
        self.jobs: dict[str, KnownJob] = {}
        self.holds = Holds()
        self.holding = HoldingJobs(self.holds.jobs)
        self.origins: dict[str, str] = {}
        self.anomalies: Counter[str] = Counter()

    def apply(self, fact: Fact) -> None:
        """Fold one fact; facts without nodes or holdings are ignored."""
        self.nodes.apply(fact)
        self.holds.apply(fact)
        self._FOLDS.apply(self, fact)

    def holders(self, node: str) -> dict[str, dict[str, int]]:
        """Return milli-GPUs of each job's pods by uuid of the node's devices. Cost: linear in the node's jobs."""
        description = self.nodes.description(node)
        return self.holds.devices_in_use(node, description.present if description is not None else {})

    def placed_at(self, job_id: str) -> Instant:
        """Return when the job got its devices; NEVER while it holds nothing."""
        hold = self.holds.jobs.get(job_id)
        return NEVER if hold is None else hold.placed_at

    @_FOLDS.on("job", "routed", JobRouted)
    def _routed(self, fact: Fact, routed: JobRouted) -> None:
        if fact.subject_id not in self.jobs:
            self._know(routed.job, routed.job.spec.queue_name)

    @_FOLDS.on("job", "queued", JobQueued)
    def _queued(self, fact: Fact, queued: JobQueued) -> None:
        job = self.jobs.get(fact.subject_id)
        if job is None:
            self.anomalies[fact.name] += 1
        else:
            job.queue = queued.queue

    @_FOLDS.on("job", OVER, (JobFinished, JobReturned))
    def _ended(self, fact: Fact, _: JobFinished | JobReturned) -> None:
        job = self.jobs.pop(fact.subject_id, None)
        if job is None:
            self.anomalies[fact.name] += 1
            return
        origin = job.job.origin
        if origin is not None and self.origins.get(title := f"{origin.namespace}/{origin.name}") == fact.subject_id:
            del self.origins[title]

    @_FOLDS.on("job", STATE_NAME, JobState)
    def _job_state(self, _fact: Fact, state: JobState) -> None:
        if state.phase not in TERMINAL_PHASES:
            self._know(state.job, state.queue or state.job.spec.queue_name)

    def _know(self, job: Job, queue: str) -> None:
        self.jobs[job.id] = KnownJob(job, queue)
        if job.origin is not None:
            self.origins[f"{job.origin.namespace}/{job.origin.name}"] = job.id
