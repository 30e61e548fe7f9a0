"""Who holds which device of which node, folded from the log. Knows nothing of what is measured."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import islice

from muster.core import Fact, Instant
from muster.schemas.facts.job import (
    JobPlaced,
    JobQueued,
    JobResized,
    JobRouted,
    JobState,
    PodsExited,
    PodsStarted,
    PodsState,
)
from muster.schemas.facts.node import NodeJoined, NodeLost, NodeReturned, NodeState
from muster.schemas.job import TERMINAL_PHASES, Job, Slot
from muster.schemas.registry import STATE_NAME

NEVER = Instant(0)


@dataclass(slots=True)
class HeldNode:
    """A node of the log. jobs: whose slots are on it, in the order in which they came."""

    description: NodeJoined | None = None
    is_lost: bool = False
    jobs: dict[str, None] = field(default_factory=dict)


@dataclass(slots=True)
class HeldJob:
    """A job that is not over. slots: () while it holds nothing; held_since: when it got them.

    picked: by node, devices that the kubelet picked for it, as observed, with the milli-GPUs that it has of each.
    """

    job: Job
    queue: str = ""
    slots: tuple[Slot, ...] = ()
    held_since: Instant = NEVER
    picked: dict[str, dict[str, int]] = field(default_factory=dict)


class HoldingJobs:
    """The jobs that hold something, to be asked for by id: a page may name one whose pods have just gone."""

    def __init__(self, jobs: Mapping[str, HeldJob]) -> None:
        self._jobs = jobs

    def __contains__(self, job_id: object) -> bool:
        job = self._jobs.get(job_id) if isinstance(job_id, str) else None
        return job is not None and bool(job.slots)


class Holdings:
    """Folds facts of nodes and jobs. nodes, jobs: for reading. anomalies: facts that fit no state, by name.

    origins: by namespace/name, the live job of an object of Kubernetes that makes its pods itself. holding: of the jobs
    those that hold something.
    """

    def __init__(self) -> None:
        self.nodes: dict[str, HeldNode] = {}
        self.jobs: dict[str, HeldJob] = {}
        self.holding = HoldingJobs(self.jobs)
        self.origins: dict[str, str] = {}
        self.anomalies: Counter[str] = Counter()
        self._exited: set[str] = set()
        self._handlers: Mapping[tuple[str, str], Callable[[Fact], None]] = {
            ("job", "routed"): self._routed,
            ("job", "queued"): self._queued,
            ("job", "placed"): self._placed,
            ("job", "resized"): self._resized,
            ("job", "pods-started"): self._started,
            ("job", "pods-exited"): self._exited_told,
            ("job", "returned"): self._ended,
            **{("job", phase.value): self._ended for phase in TERMINAL_PHASES},
            ("node", "joined"): self._joined,
            ("node", "lost"): self._lost,
            ("node", "returned"): self._returned,
            ("node", "left"): self._left,
            ("job", STATE_NAME): self._job_state,
            ("node", STATE_NAME): self._node_state,
        }

    def apply(self, fact: Fact) -> None:
        """One fact further; what says nothing of holdings is passed over."""
        handler = self._handlers.get((fact.kind, fact.name))
        if handler is not None:
            handler(fact)

    def holders(self, node: str) -> dict[str, dict[str, int]]:
        """By uuid of the node's devices: milli-GPUs that each job holds of it. Work grows with the jobs of the node."""
        record = self.nodes.get(node)
        if record is None:
            return {}
        uuids = () if record.description is None else record.description.gpu_uuids
        found: dict[str, dict[str, int]] = {}
        for job_id in record.jobs:
            job = self.jobs[job_id]
            for uuid, milli in job.picked.get(node, {}).items():
                found.setdefault(uuid, {})[job_id] = milli
            for slot in job.slots:
                for index in slot.devices if slot.node == node else ():
                    if index < len(uuids):
                        held = found.setdefault(uuids[index], {})
                        held[job_id] = held.get(job_id, 0) + slot.gpu_milli
        return found

    def _routed(self, fact: Fact) -> None:
        if isinstance(fact.payload, JobRouted) and fact.subject_id not in self.jobs:
            job = fact.payload.job
            self.jobs[fact.subject_id] = HeldJob(job, job.spec.queue_name)
            self._originate(job)

    def _queued(self, fact: Fact) -> None:
        job = self._job(fact)
        if job is not None and isinstance(fact.payload, JobQueued):
            self._let_go(fact.subject_id, job)
            job.queue = fact.payload.queue

    def _placed(self, fact: Fact) -> None:
        job = self._job(fact)
        if job is not None and isinstance(fact.payload, JobPlaced):
            self._let_go(fact.subject_id, job)
            self._hold(fact.subject_id, job, fact.payload.slots, fact.time)

    def _resized(self, fact: Fact) -> None:
        job = self._job(fact)
        if job is not None and isinstance(fact.payload, JobResized):
            since, picked = job.held_since, job.picked
            self._let_go(fact.subject_id, job)
            self._hold(fact.subject_id, job, fact.payload.slots, since)
            job.picked = picked

    def _started(self, fact: Fact) -> None:
        job = self._job(fact)
        if job is not None and isinstance(fact.payload, PodsStarted):
            job.picked = _picked(job.slots, fact.payload.device_uuids)

    def _exited_told(self, fact: Fact) -> None:
        job = self._job(fact)
        if job is not None and isinstance(fact.payload, PodsExited):
            self._let_go(fact.subject_id, job)

    def _ended(self, fact: Fact) -> None:
        job = self._job(fact)
        if job is not None:
            self._let_go(fact.subject_id, job)
            del self.jobs[fact.subject_id]
            origin = job.job.origin
            if origin is not None and self.origins.get(title := f"{origin.namespace}/{origin.name}") == fact.subject_id:
                del self.origins[title]

    def _joined(self, fact: Fact) -> None:
        if isinstance(fact.payload, NodeJoined):
            node = self._node(fact.subject_id)
            node.description, node.is_lost = fact.payload, False

    def _lost(self, fact: Fact) -> None:
        if isinstance(fact.payload, NodeLost):
            self._node(fact.subject_id).is_lost = True

    def _returned(self, fact: Fact) -> None:
        if isinstance(fact.payload, NodeReturned):
            self._node(fact.subject_id).is_lost = False

    def _left(self, fact: Fact) -> None:
        node = self.nodes.get(fact.subject_id)
        if node is None:
            self.anomalies["left"] += 1
        elif node.jobs:
            node.description, node.is_lost = None, True  # forgotten with the last of its jobs
        else:
            del self.nodes[fact.subject_id]

    def _node_state(self, fact: Fact) -> None:
        if isinstance(fact.payload, NodeState):
            node = self._node(fact.subject_id)
            node.description, node.is_lost = fact.payload.description, fact.payload.lost

    def _job_state(self, fact: Fact) -> None:
        """The scheduler's part has the job and its slots, the agent's says whether its pods have exited.

        They come in any order.
        """
        state = fact.payload
        if isinstance(state, PodsState):
            if state.exited:
                self._exited.add(fact.subject_id)
                if (known := self.jobs.get(fact.subject_id)) is not None:
                    self._let_go(fact.subject_id, known)
        elif isinstance(state, JobState) and state.phase not in TERMINAL_PHASES:
            job = self.jobs[fact.subject_id] = HeldJob(state.job, state.queue or state.job.spec.queue_name)
            self._originate(state.job)
            if state.slots and fact.subject_id not in self._exited and state.exited is None:
                self._hold(fact.subject_id, job, state.slots, Instant(state.placed_at))
                job.picked = _of_run(state.slots, state.picked)

    def _originate(self, job: Job) -> None:
        if job.origin is not None:
            self.origins[f"{job.origin.namespace}/{job.origin.name}"] = job.id

    def _hold(self, job_id: str, job: HeldJob, slots: tuple[Slot, ...], since: Instant) -> None:
        job.slots, job.held_since = slots, since
        for slot in slots:
            self._node(slot.node).jobs[job_id] = None

    def _let_go(self, job_id: str, job: HeldJob) -> None:
        slots, job.slots, job.picked = job.slots, (), {}
        for slot in slots:
            node = self.nodes.get(slot.node)
            if node is None:
                continue
            node.jobs.pop(job_id, None)
            if node.description is None and not node.jobs:
                del self.nodes[slot.node]

    def _node(self, name: str) -> HeldNode:
        return self.nodes.setdefault(name, HeldNode())

    def _job(self, fact: Fact) -> HeldJob | None:
        job = self.jobs.get(fact.subject_id)
        if job is None:
            self.anomalies[fact.name] += 1
        return job


def _picked(slots: tuple[Slot, ...], uuids: tuple[tuple[str, ...], ...]) -> dict[str, dict[str, int]]:
    """What the kubelets picked, of slots whose devices the scheduler did not choose."""
    picked: dict[str, dict[str, int]] = {}
    for slot, observed in zip(slots, uuids, strict=False):
        if observed and not slot.devices:
            picked.setdefault(slot.node, {}).update(dict.fromkeys(observed, slot.gpu_milli))
    return picked


def _of_run(slots: tuple[Slot, ...], picked: tuple[str, ...]) -> dict[str, dict[str, int]]:
    """The same from a checkpoint, which has them in the order of the slots; nothing where some were not observed."""
    counted = [slot for slot in slots if not slot.devices and slot.gpus]
    if len(picked) != sum(slot.gpus for slot in counted):
        return {}
    rest = iter(picked)
    return _picked(tuple(counted), tuple(tuple(islice(rest, slot.gpus)) for slot in counted))
