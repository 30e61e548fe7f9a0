"""The attempts that have pods: where these are, and which effects follow from what is asked of them."""

from muster.agent.core.cluster import (
    CheckpointSeen,
    ChecksSeen,
    Cluster,
    CreatePods,
    DeletePods,
    OpenGate,
    PodsResizedSeen,
    PodsStartedSeen,
    ResizePods,
)
from muster.agent.core.state import NOT_YET, Attempt, JobRecord, NodeRecord, slots_by_node
from muster.core import Fact, Instant
from muster.schemas.facts.job import JobResizeRequested, PodsState
from muster.schemas.facts.operations import ChecksReported


class Attempts:
    """Keeps nodes and jobs in step with their pods, and tells the cluster. running: of attempts that are not ending."""

    def __init__(self, cluster: Cluster) -> None:
        self.jobs: dict[str, JobRecord] = {}
        self.nodes: dict[str, NodeRecord] = {}
        self.running: dict[str, Attempt] = {}
        self._cluster = cluster

    def of(self, job_id: str) -> Attempt | None:
        """The job's pods, if it has any."""
        job = self.jobs.get(job_id)
        return None if job is None else job.pods

    def create(self, job_id: str, job: JobRecord, pods: Attempt) -> None:
        """Make the pods of a placement."""
        assert job.spec is not None, "pods are made of a spec"
        job.pods = pods
        self._occupy(job_id, pods)
        self._cluster.carry_out(
            CreatePods(
                job_id, pods.number, pods.placed_at, pods.slots, job.spec, pods.trace, pods.resumed_s, job.origin,
                pods.preflight,
            )
        )  # fmt: skip

    def checked(self, job_id: str, pods: Attempt, found: ChecksReported, *, at: Instant) -> None:
        """The log has this of what its checks found."""
        pods.is_checked = pods.is_checked or found.is_last
        self._cluster.acknowledge(ChecksSeen(job_id, pods.number, found.results, found.is_last), at=at)

    def open(self, job_id: str, pods: Attempt, *, at: Instant) -> None:
        """Its first step may begin."""
        if pods.preflight is not None and not pods.opened_at and not pods.ending_at:
            pods.opened_at = at
            self._cluster.carry_out(OpenGate(job_id, pods.number, at))

    def resize(self, job_id: str, pods: Attempt, wanted: JobResizeRequested, *, at: Instant, by: str) -> None:
        """Fact `by` asks for other slots; until they run, the old ones count too."""
        self._vacate(job_id, pods)
        pods.resizing, pods.resizing_at, pods.resize_fact = wanted, at, by
        self._occupy(job_id, pods)
        self._cluster.carry_out(ResizePods(job_id, pods.number, at, wanted.slots, wanted.grace_s))

    def resized(self, job_id: str, pods: Attempt, at: Instant) -> bool:
        """Exactly the slots of the resize run. False if none is under way."""
        wanted = pods.resizing
        if wanted is None:
            return False
        self._vacate(job_id, pods)
        pods.slots, pods.resizing, pods.resizing_at = wanted.slots, None, NOT_YET
        self._occupy(job_id, pods)
        self._cluster.acknowledge(PodsResizedSeen(job_id, pods.number, len(wanted.slots)), at=at)
        return True

    def end(
        self,
        job_id: str,
        pods: Attempt,
        *,
        at: Instant,
        cause: str,
        lost_node: str = "",
        grace_s: float = 0.0,
        evict: bool = False,
    ) -> None:
        """Ask the pods to end; evict: to make way.

        A loss while they obey a stop ends them at once; another second end changes nothing.
        """
        if not pods.ending_at:
            pods.ending_at, pods.grace_s, pods.evict = at, grace_s, evict
        elif lost_node and not pods.lost_node:
            pods.lost_at = at
        else:
            return
        pods.lost_node, pods.last_fact = lost_node, cause
        self.running.pop(job_id, None)
        self._cluster.carry_out(DeletePods(job_id, pods.number, at, lost_node, grace_s, evict))

    def end_if_gone(self, job_id: str, pods: Attempt, fact: Fact) -> None:
        """A placement, or a resize, may pass the loss of one of its nodes."""
        gone = next((slot.node for slot in pods.touched if self.nodes[slot.node].is_gone), "")
        if gone:
            self.end(job_id, pods, at=fact.time, cause=fact.id, lost_node=gone)

    def end_all_on(self, name: str, node: NodeRecord, *, at: Instant, cause: str) -> None:
        """A gang runs whole or not at all: what lost one pod loses all."""
        for job_id in node.slots:
            if (pods := self.of(job_id)) is not None:
                self.end(job_id, pods, at=at, cause=cause, lost_node=name)

    def end_all_at(self, name: str, node: NodeRecord, device: int, *, at: Instant, cause: str) -> None:
        """The same for what runs, or is about to run, on one device of the node, or may do so."""
        for job_id, slots in tuple(node.slots.items()):
            pods = self.of(job_id)
            if pods is not None and any(slot.gpus or device in slot.devices for slot in slots):
                self.end(job_id, pods, at=at, cause=cause, lost_node=name)

    def free(self, job_id: str, pods: Attempt) -> None:
        """The pods are no more."""
        self.running.pop(job_id, None)
        self._vacate(job_id, pods)

    def restore(self, job_id: str, job: JobRecord, state: PodsState) -> None:
        """Have the pods again that a checkpoint tells of. The moments are the facts', so the cluster is the same."""
        slots = state.slots if state.resize_fact else job.recorded_slots
        pods = Attempt(state.attempt, slots, job.trace, Instant(state.placed_at), state.last_fact)
        pods.resumed_s, pods.resize_fact = state.resumed_s, state.resize_fact
        pods.preflight = state.preflight
        job.recorded_pods, job.recorded_slots = None, ()
        self.create(job_id, job, pods)
        if state.started_at:
            pods.started_at = Instant(state.started_at)
            if not state.ending_at:
                self.running[job_id] = pods
            self._cluster.acknowledge(PodsStartedSeen(job_id, pods.number), at=pods.started_at)
        if state.is_checked:
            self.checked(job_id, pods, ChecksReported(attempt=pods.number), at=pods.started_at)
        if state.opened_at:
            self.open(job_id, pods, at=Instant(state.opened_at))
        if state.checkpointed_at:
            pods.checkpointed_at = Instant(state.checkpointed_at)
            self._cluster.acknowledge(CheckpointSeen(job_id, pods.number), at=pods.checkpointed_at)
        if state.resizing is not None:
            self.resize(job_id, pods, state.resizing, at=Instant(state.resizing_at), by=state.resize_fact)
        self._restore_end(job_id, pods, state)

    def _restore_end(self, job_id: str, pods: Attempt, state: PodsState) -> None:
        """A stop, the loss of a node, or a loss that came while the pods obeyed a stop."""
        if not state.ending_at:
            return
        at, cause = Instant(state.ending_at), state.last_fact
        if not state.lost_at:
            self.end(
                job_id, pods, at=at, cause=cause, lost_node=state.lost_node, grace_s=state.grace_s, evict=state.evict
            )
            return
        self.end(job_id, pods, at=at, cause=cause, grace_s=state.grace_s, evict=state.evict)
        self.end(job_id, pods, at=Instant(state.lost_at), cause=cause, lost_node=state.lost_node)

    def _occupy(self, job_id: str, pods: Attempt) -> None:
        for name, slots in slots_by_node(pods.touched).items():
            self.nodes.setdefault(name, NodeRecord()).slots[job_id] = slots

    def _vacate(self, job_id: str, pods: Attempt) -> None:
        for name in slots_by_node(pods.touched):
            node = self.nodes.get(name)
            if node is not None:
                node.slots.pop(job_id, None)
                if node.description is None and not node.slots:
                    del self.nodes[name]
