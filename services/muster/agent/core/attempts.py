"""Track attempts that have pods: where the pods are, and the effects that follow from requests."""

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
from muster.schemas.job import Slot


class Attempts:
    """Attempts and their pods by job and node; changes are carried out by the cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self.jobs: dict[str, JobRecord] = {}
        self.nodes: dict[str, NodeRecord] = {}
        """Nodes that joined."""
        self.slots: dict[str, dict[str, list[Slot]]] = {}
        """Slots with present or future pods, by node and job; including nodes that did not join or that left."""
        self.running: dict[str, Attempt] = {}
        """Started attempts that are not ending, by job."""
        self._cluster = cluster

    def of(self, job_id: str) -> Attempt | None:
        """Return the job's attempt, if it has pods."""
        job = self.jobs.get(job_id)
        return None if job is None else job.pods

    def create(self, job: JobRecord, pods: Attempt) -> None:
        """Create the pods of a placement."""
        assert job.spec is not None, "pods are made of a spec"
        job.pods = pods
        self._occupy(pods)
        self._cluster.carry_out(
            CreatePods(
                pods.job_id, pods.attempt, Instant(pods.placed_at), pods.slots, job.spec, pods.trace, pods.resumed_s,
                job.origin, pods.preflight,
            )
        )  # fmt: skip

    def checked(self, pods: Attempt, found: ChecksReported, *, at: Instant) -> None:
        """Record results of its checks that are in the log."""
        pods.is_checked = pods.is_checked or found.is_last
        self._cluster.acknowledge(ChecksSeen(pods.job_id, pods.attempt, found.results, found.is_last), at=at)

    def open(self, pods: Attempt, *, at: Instant) -> None:
        """Let its first step begin."""
        if pods.preflight is not None and not pods.opened_at and not pods.ending_at:
            pods.opened_at = at
            self._cluster.carry_out(OpenGate(pods.job_id, pods.attempt, at))

    def resize(self, pods: Attempt, wanted: JobResizeRequested, *, at: Instant, by: str) -> None:
        """Resize to other slots, as fact `by` asks; until they run, the old ones count too."""
        self._vacate(pods)
        pods.resizing, pods.resizing_at, pods.resize_fact = wanted, at, by
        self._occupy(pods)
        self._cluster.carry_out(ResizePods(pods.job_id, pods.attempt, at, wanted.slots, wanted.grace_s))

    def resized(self, pods: Attempt, *, at: Instant) -> bool:
        """Finish the resize, because exactly its slots run. False if none is in progress."""
        wanted = pods.resizing
        if wanted is None:
            return False
        self._vacate(pods)
        pods.slots, pods.resizing, pods.resizing_at = wanted.slots, None, NOT_YET
        self._occupy(pods)
        self._cluster.acknowledge(PodsResizedSeen(pods.job_id, pods.attempt, len(wanted.slots)), at=at)
        return True

    def end(
        self,
        pods: Attempt,
        *,
        at: Instant,
        cause: str,
        lost_node: str = "",
        grace_s: float = 0.0,
        evict: bool = False,
    ) -> None:
        """End the pods; with `evict` as a preemption.

        The loss of a node during a stop ends them at once; any other second end changes nothing.
        """
        if not pods.ending_at:
            pods.ending_at, pods.grace_s, pods.evict = at, grace_s, evict
        elif lost_node and not pods.lost_node:
            pods.lost_at = at
        else:
            return
        pods.lost_node, pods.last_fact = lost_node, cause
        self.running.pop(pods.job_id, None)
        self._cluster.carry_out(DeletePods(pods.job_id, pods.attempt, at, lost_node, grace_s, evict))

    def end_if_gone(self, pods: Attempt, fact: Fact) -> None:
        """End the attempt if a node of its slots is gone: a placement or resize may cross the node's loss."""
        gone = next((slot.node for slot in pods.touched if self._is_gone(slot.node)), "")
        if gone:
            self.end(pods, at=fact.time, cause=fact.id, lost_node=gone)

    def end_all_on(self, name: str, *, at: Instant, cause: str) -> None:
        """End all attempts with pods on a node: a gang that loses one pod is ended as a whole."""
        for job_id in self.slots.get(name, {}):
            if (pods := self.of(job_id)) is not None:
                self.end(pods, at=at, cause=cause, lost_node=name)

    def end_all_at(self, name: str, device: int, *, at: Instant, cause: str) -> None:
        """End all attempts that use, or may use, one device of the node."""
        for job_id, slots in self.slots.get(name, {}).items():
            pods = self.of(job_id)
            if pods is not None and any(slot.gpus or device in slot.devices for slot in slots):
                self.end(pods, at=at, cause=cause, lost_node=name)

    def free(self, pods: Attempt) -> None:
        """Remove an attempt whose pods are gone."""
        self.running.pop(pods.job_id, None)
        self._vacate(pods)

    def restore(self, job: JobRecord, state: PodsState) -> None:
        """Restore the pods of a checkpoint. Times are those of the facts, so the cluster is the same."""
        pods = Attempt.restored(state, trace=job.trace)
        if not pods.resize_fact:
            pods.slots = job.recorded_slots
        job.recorded_pods, job.recorded_slots = None, ()
        self.create(job, pods)
        job_id, attempt, started_at = pods.job_id, pods.attempt, Instant(pods.started_at)
        if started_at:
            if not pods.ending_at:
                self.running[job_id] = pods
            self._cluster.acknowledge(PodsStartedSeen(job_id, attempt), at=started_at)
        if pods.is_checked:
            self._cluster.acknowledge(ChecksSeen(job_id, attempt), at=started_at)
        if pods.opened_at:
            self._cluster.carry_out(OpenGate(job_id, attempt, Instant(pods.opened_at)))
        if pods.checkpointed_at:
            self._cluster.acknowledge(CheckpointSeen(job_id, attempt), at=Instant(pods.checkpointed_at))
        if (wanted := pods.resizing) is not None:
            at = Instant(pods.resizing_at)
            self._cluster.carry_out(ResizePods(job_id, attempt, at, wanted.slots, wanted.grace_s))
        self._restore_end(pods)

    def _restore_end(self, pods: Attempt) -> None:
        """Restore a stop, the loss of a node, or a loss during a stop."""
        if pods.ending_at:
            lost_first = "" if pods.lost_at else pods.lost_node
            at = Instant(pods.ending_at)
            self._cluster.carry_out(DeletePods(pods.job_id, pods.attempt, at, lost_first, pods.grace_s, pods.evict))
        if pods.lost_at:
            self._cluster.carry_out(DeletePods(pods.job_id, pods.attempt, Instant(pods.lost_at), pods.lost_node))

    def _is_gone(self, name: str) -> bool:
        """Return whether nothing can run on the node."""
        node = self.nodes.get(name)
        return node is None or node.lost

    def _occupy(self, pods: Attempt) -> None:
        for name, slots in slots_by_node(pods.touched).items():
            self.slots.setdefault(name, {})[pods.job_id] = slots

    def _vacate(self, pods: Attempt) -> None:
        for name in slots_by_node(pods.touched):
            self.slots[name].pop(pods.job_id)
            if not self.slots[name]:
                del self.slots[name]
