"""Valid logs of a small cluster, written step by step, and who holds what after each step as the writer means it.

A step is (operation, number, number); hypothesis draws them (`HISTORIES`). What an operation finds nothing for, it
leaves out, so that every list of steps is a valid log. The log keeps what the scheduler promises: no device is given
twice, a gang is placed whole, what a resize gives up is held until `resized`, and every observation is told once, late
ones among them. `ClusterLog.held` and `holders` follow no fold: they are what the writer gave.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import strategies as st

from muster.core import NS_PER_S, Fact, Instant
from muster.core.virtual import VirtualCluster
from muster.schemas import ids
from muster.schemas.base import Payload
from muster.schemas.facts.federation import JobReturned
from muster.schemas.facts.job import (
    JobCancelRequested,
    JobFinished,
    JobPlaced,
    JobQueued,
    JobResized,
    JobResizeRequested,
    JobRouted,
    JobRunning,
    JobStopRequested,
    PodsExited,
    PodsOutcome,
    PodsResized,
    PodsStarted,
    QueuedReason,
    StopReason,
)
from muster.schemas.facts.node import (
    NodeJoined,
    NodeLeft,
    NodeLost,
    NodeReturned,
    Released,
    Withheld,
    WithholdRequested,
    WithholdWithdrawn,
)
from muster.schemas.facts.queue import QueueChangeRequested, QueueSpec
from muster.schemas.job import Job, JobSpec, Slot, TaskGroup

CLUSTER = "golden"
START = Instant(1_000_000 * NS_PER_S)
GPUS, WHOLE = 4, 1000
CHOSEN, PICKED, NAMELESS = "chosen", "picked", "nameless"
NODES = {"c0": CHOSEN, "c1": CHOSEN, "k0": PICKED, "k1": PICKED, "p0": NAMELESS}
"""Nodes by who picks their devices: the scheduler; the kubelet; the kubelet where the node shows only places."""

JOBS_MAX = 12
SHAPES = (
    (TaskGroup(gpus=1),),
    (TaskGroup(gpus=2, replicas=2),),
    (TaskGroup(gpus=1, replicas=6, min_replicas=1),),
    (TaskGroup(gpu_milli=400, replicas=2),),
    (TaskGroup(gpus=1, replicas=4, min_replicas=2),),
    (TaskGroup(gpus=0, replicas=2),),
    (TaskGroup(name="first", gpus=1, replicas=3, min_replicas=1), TaskGroup(name="second", gpus=2)),
)
OPERATIONS = (
    "submit", "submit", "place", "place", "place", "start", "start", "start", "run", "run", "run", "grow", "grow",
    "shrink", "shrink", "resized", "resized", "preempt", "exit", "answer", "answer", "cancel", "hand-back", "stale",
    "lose", "return", "leave", "join", "withhold", "force", "detach", "give-back",
)  # fmt: skip
HISTORIES = st.lists(
    st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 11), st.integers(0, 11)), min_size=20, max_size=120
)

Step = tuple[str, int, int]


@dataclass
class WrittenJob:
    """One job. slots: as newest said; resize: that a resize asks for; uses: by slot, the devices that its pods have.

    is_told: the log says all of these, and nothing was resized since.
    """

    job: Job
    attempt: int = 1
    phase: str = "queued"
    slots: tuple[Slot, ...] = ()
    resize: tuple[Slot, ...] | None = None
    uses: dict[Slot, tuple[int, ...]] = field(default_factory=dict)
    is_told: bool = False
    outcome: PodsOutcome | None = None
    started: bool = False

    @property
    def held(self) -> tuple[Slot, ...]:
        return (*self.slots, *(slot for slot in self.resize or () if slot not in self.slots))

    @property
    def waits(self) -> bool:
        return self.phase == "queued"

    @property
    def has_pods(self) -> bool:
        return not self.waits and self.outcome is None

    @property
    def may_resize(self) -> bool:
        groups = self.job.spec.task_groups
        is_elastic = any(group.min_replicas is not None for group in groups)
        return is_elastic and self.phase == "running" and self.resize is None


@dataclass
class WrittenNode:
    """One node that is part of the cluster. absent: places whose device was taken away. asked: requests by device."""

    kind: str
    absent: set[int] = field(default_factory=set)
    lost: bool = False
    asked: dict[str, str] = field(default_factory=dict)


class ClusterLog(VirtualCluster):
    """Writes facts, a second after each other; no core decides any."""

    def __init__(self) -> None:
        super().__init__(CLUSTER, start=START)
        self.jobs: dict[str, WrittenJob] = {}
        self.nodes: dict[str, WrittenNode] = {}
        self.gone: set[str] = set()
        self._requests = 0
        spec = QueueSpec(name="lab")
        self.write("federation", "queue", "lab", "change-forwarded", QueueChangeRequested(spec=spec, principal="root"))
        for name in NODES:
            self.join(name)

    def do(self, step: Step) -> list[Fact]:
        """Do one step; return what was written."""
        operation, which, extra = step
        first = len(self.log)
        getattr(self, f"_{operation.replace('-', '_')}")(which, extra)
        return self.log[first:]

    def play(self, *steps: Step) -> "ClusterLog":
        """Do these steps."""
        for step in steps:
            self.do(step)
        return self

    def write(self, writer: str, kind: str, subject_id: str, name: str, payload: Payload) -> Fact:
        """Append a fact a second after the last one."""
        self.skip(1.0)
        return super().write(writer, kind, subject_id, name, payload)

    # --- who holds what ----------------------------------------------------------------------------------------------

    def held(self) -> dict[str, frozenset[Slot]]:
        """Slots by job id."""
        return {job_id: frozenset(one.held) for job_id, one in self.jobs.items() if one.held}

    def holders(self, name: str, index: int) -> set[str]:
        """Jobs that hold the device at this place of a node, or may: whoever's devices there nobody knows."""
        return {job_id for job_id, one in self.jobs.items() if self._may_hold(one, name, index)}

    def _may_hold(self, one: WrittenJob, name: str, index: int) -> bool:
        here = [slot for slot in one.held if slot.node == name]
        if any(index in slot.devices for slot in here):
            return True
        if not any(slot.gpus for slot in here):
            return False
        own = {at for slot in here for at in one.uses.get(slot, ())}
        is_known = one.is_told and NODES[name] is PICKED and not own & self.nodes[name].absent
        return not is_known or index in own

    # --- jobs --------------------------------------------------------------------------------------------------------

    def _submit(self, which: int, extra: int) -> None:
        if len(self.jobs) + len(self.gone) >= JOBS_MAX:
            return
        number = len(self.jobs) + len(self.gone)
        spec = JobSpec(
            name=f"job-{number}", team="lab", queue="lab", task_groups=SHAPES[which % len(SHAPES)], retries=9
        )
        job_id = ids.job_id(team="lab", principal="ada", idempotency_key=f"{number}")
        job = Job(id=job_id, spec=spec, principal="ada", idempotency_key=f"{number}", body_hash="")
        self.jobs[job_id] = WrittenJob(job)
        self.write("federation", "job", job_id, "routed", JobRouted(job=job, cluster=CLUSTER))
        self._queue(self.jobs[job_id], QueuedReason.SUBMITTED)

    def _place(self, which: int, extra: int) -> None:
        one = self._some(which, lambda one: one.waits)
        if one is None:
            return
        slots = self._room(one, start=extra, missing=extra // 2)
        if slots is None:
            return
        one.slots, one.phase = slots, "placed"
        self.write("scheduler", "job", one.job.id, "placed", JobPlaced(attempt=one.attempt, slots=slots))

    def _start(self, which: int, extra: int) -> None:
        """The agent sees the pods run. Now and then it does not know what all, or one, of the kubelets picked."""
        one = self._some(which, lambda one: one.has_pods and not one.started)
        if one is None:
            return
        one.started, one.uses = True, self._picked(one)
        told = [tuple(self._told(slot.node, index) for index in one.uses[slot]) for slot in one.slots]
        counted = [at for at, slot in enumerate(one.slots) if slot.gpus]
        for at in (counted, counted[:1], (), counted[:1], (), ())[extra % 6]:
            told[at] = ()
        one.is_told = all(len(uuids) == slot.gpu_count for uuids, slot in zip(told, one.slots, strict=True))
        self.write(
            "agent", "job", one.job.id, "pods-started", PodsStarted(attempt=one.attempt, device_uuids=tuple(told))
        )

    def _run(self, which: int, extra: int) -> None:
        one = self._some(which, lambda one: one.started and one.phase == "placed")
        if one is not None:
            one.phase = "running"
            self.write("scheduler", "job", one.job.id, "running", JobRunning(attempt=one.attempt))

    def _grow(self, which: int, extra: int) -> None:
        one = self._some(which, lambda one: one.may_resize)
        if one is None:
            return
        added = self._room(one, start=extra, missing=extra // len(NODES), beside=one.slots)
        if added:
            self._resize(one, (*one.slots, *added))

    def _shrink(self, which: int, extra: int) -> None:
        one = self._some(which, lambda one: one.may_resize)
        if one is None:
            return
        least = {at: group.replicas_least for at, group in enumerate(one.job.spec.task_groups)}
        kept = [slot for slot in one.slots if slot.replica < least[slot.group] or (slot.replica + extra) % 2]
        if len(kept) < len(one.slots):
            self._resize(one, tuple(kept))

    def _resize(self, one: WrittenJob, slots: tuple[Slot, ...]) -> None:
        one.is_told = one.is_told and set(slots) <= set(one.slots)  # which devices new pods get is not told
        one.resize = slots
        wanted = JobResizeRequested(attempt=one.attempt, slots=slots)
        self.write("scheduler", "job", one.job.id, "resize-requested", wanted)

    def _resized(self, which: int, extra: int) -> None:
        one = self._some(which, lambda one: one.resize is not None)
        if one is None or one.resize is None:
            return
        resized = PodsResized(attempt=one.attempt, slots=len(one.resize))
        self.write("agent", "job", one.job.id, "pods-resized", resized)
        one.is_told = one.is_told and set(one.held) == set(one.resize)
        one.slots, one.resize = one.resize, None
        one.uses = self._picked(one)
        self.write("scheduler", "job", one.job.id, "resized", JobResized(attempt=one.attempt, slots=one.slots))

    def _preempt(self, which: int, extra: int) -> None:
        one = self._some(which, lambda one: one.phase in ("placed", "running"))
        other = self._some(extra, lambda one: one.waits)
        if one is not None:
            self._stop(one, StopReason.PREEMPTED, other.job.id if other is not None else "")

    def _stop(self, one: WrittenJob, reason: StopReason, made_way_for: str = "") -> None:
        one.phase = "stopping"
        stop = JobStopRequested(attempt=one.attempt, reason=reason, grace_s=30.0, made_way_for=made_way_for)
        self.write("scheduler", "job", one.job.id, "stop-requested", stop)

    def _exit(self, which: int, extra: int) -> None:
        one = self._some(which, lambda one: one.has_pods)
        if one is None:
            return
        one.outcome = tuple(PodsOutcome)[extra % len(PodsOutcome)]
        gone = PodsExited(attempt=one.attempt, outcome=one.outcome, node=one.slots[0].node, ran_s=1.0)
        self.write("agent", "job", one.job.id, "pods-exited", gone)

    def _answer(self, which: int, extra: int) -> None:
        """The scheduler answers the end of the pods."""
        one = self._some(which, lambda one: one.outcome is not None)
        if one is None:
            return
        if one.outcome is PodsOutcome.SUCCEEDED or not extra % 5:
            self._end(one, "succeeded" if one.outcome is PodsOutcome.SUCCEEDED else "failed")
            return
        one.attempt += 1
        self._queue(one, (QueuedReason.RETRY, QueuedReason.PREEMPTED, QueuedReason.NODE_LOST)[extra % 3])

    def _cancel(self, which: int, extra: int) -> None:
        one = self._some(which, lambda one: one.waits)
        if one is not None:
            asked = JobCancelRequested(principal="ada")
            self.write("federation", "job", one.job.id, "cancel-forwarded", asked)
            self._end(one, "cancelled")

    def _hand_back(self, which: int, extra: int) -> None:
        """The federation takes back a job that waits."""
        one = self._some(which, lambda one: one.waits)
        if one is not None and extra % 2:
            self._forget(one)
            self.write("scheduler", "job", one.job.id, "returned", JobReturned(assignment=1))

    def _stale(self, which: int, extra: int) -> None:
        """The agent tells late, or once more, how a run went."""
        one = self._some(which, lambda one: one.attempt > 1)
        if one is None:
            return
        started = PodsStarted(attempt=one.attempt - 1, device_uuids=(("gpu-of-yesterday",),))
        exited = PodsExited(attempt=one.attempt - 1, outcome=PodsOutcome.STOPPED)
        name, payload = ("pods-started", started) if extra % 2 else ("pods-exited", exited)
        self.write("agent", "job", one.job.id, name, payload)

    def _queue(self, one: WrittenJob, reason: QueuedReason) -> None:
        one.phase, one.slots, one.resize, one.outcome, one.started = "queued", (), None, None, False
        one.uses, one.is_told = {}, False
        self.write("scheduler", "job", one.job.id, "queued", JobQueued(queue="lab", attempt=one.attempt, reason=reason))

    def _end(self, one: WrittenJob, name: str) -> None:
        self._forget(one)
        self.write("scheduler", "job", one.job.id, name, JobFinished(attempt=one.attempt))

    def _forget(self, one: WrittenJob) -> None:
        del self.jobs[one.job.id]
        self.gone.add(one.job.id)

    def _some(self, which: int, is_so: Callable[[WrittenJob], bool]) -> WrittenJob | None:
        found = [one for one in self.jobs.values() if is_so(one)]
        return found[which % len(found)] if found else None

    # --- room --------------------------------------------------------------------------------------------------------

    def _room(
        self, one: WrittenJob, *, start: int, missing: int, beside: tuple[Slot, ...] = ()
    ) -> tuple[Slot, ...] | None:
        """Return slots for the replicas that are not in `beside`; None if the gang finds no room as a whole.

        start: number of the node that is tried first. missing: so many replicas are left out where that is allowed.
        """
        names = [name for name in NODES if name in self.nodes]
        names = names[start % len(names) :] + names[: start % len(names)] if names else []
        have, slots = {(slot.group, slot.replica) for slot in beside}, list[Slot]()
        for at, group in enumerate(one.job.spec.task_groups):
            wanted = group.replicas if beside else max(group.replicas_least, group.replicas - missing)
            for replica in range(wanted):
                if (at, replica) in have:
                    continue
                slot = next((s for name in names if (s := self._slot(name, at, replica, group, slots))), None)
                if slot is not None:
                    slots.append(slot)
                elif replica < group.replicas_least:
                    return None
        return tuple(slots)

    def _slot(self, name: str, at: int, replica: int, group: TaskGroup, others: list[Slot]) -> Slot | None:
        milli, count = group.gpu_milli or WHOLE, group.gpus or int(group.gpu_milli > 0)
        idle = dict.fromkeys((index for index in range(GPUS) if index not in self.nodes[name].absent), WHOLE)
        for slot in (*others, *(slot for job in self.jobs.values() for slot in job.held)):
            for index in slot.kept_at if slot.node == name else ():
                idle[index] = idle.get(index, 0) - slot.gpu_milli
        room = [index for index, left in idle.items() if left >= milli][:count]
        if len(room) < count:
            return None
        if not count:
            return Slot(group=at, replica=replica, node=name)
        if NODES[name] is CHOSEN:
            return Slot(group=at, replica=replica, node=name, devices=tuple(room), gpu_milli=milli)
        return Slot(group=at, replica=replica, node=name, gpus=count, gpu_milli=milli, places=tuple(room))

    def _picked(self, one: WrittenJob) -> dict[Slot, tuple[int, ...]]:
        """Which devices its pods have: those that the scheduler chose, or others that no pod uses, the last first."""
        used = Counter(
            (slot.node, index, slot.gpu_milli)
            for other in self.jobs.values()
            for slot, indexes in other.uses.items()
            for index in indexes
            if other.outcome is None and other is not one
        )
        left = {(name, index): WHOLE for name in self.nodes for index in range(GPUS)}
        for (name, index, milli), times in used.items():
            left[name, index] = left.get((name, index), 0) - milli * times
        picked = {}
        for slot in one.slots:
            free = [at for at in reversed(range(GPUS)) if left.get((slot.node, at), 0) >= slot.gpu_milli]
            known = one.uses.get(slot) or slot.devices
            picked[slot] = known or tuple(at for at in free if at not in self._absent(slot.node))[: slot.gpus]
            for index in picked[slot]:
                left[slot.node, index] = left.get((slot.node, index), 0) - slot.gpu_milli
        return picked

    def _told(self, node: str, index: int) -> str:
        return f"real-{uuid_of(node, index)}" if NODES[node] is NAMELESS else uuid_of(node, index)

    def _absent(self, node: str) -> set[int]:
        known = self.nodes.get(node)
        return set() if known is None else known.absent

    # --- nodes and devices -------------------------------------------------------------------------------------------

    def join(self, name: str) -> None:
        """The node is part of the cluster, or described anew; the scheduler releases it."""
        node = self.nodes.setdefault(name, WrittenNode(NODES[name]))
        node.lost = False
        self.write("agent", "node", name, "joined", described(name, node))
        self.write("scheduler", "node", name, "released", Released())

    def _lose(self, which: int, extra: int) -> None:
        """The node does not answer; the pods of one of its gangs end with it."""
        name = self._node(which)
        if name is None or self.nodes[name].lost:
            return
        self.nodes[name].lost = True
        self.write("agent", "node", name, "lost", NodeLost(reason="no heartbeat"))

    def _return(self, which: int, extra: int) -> None:
        name = next((name for name, node in self.nodes.items() if node.lost), None)
        if name is not None:
            self.nodes[name].lost = False
            self.write("agent", "node", name, "returned", NodeReturned())
            self.write("scheduler", "node", name, "released", Released())

    def _leave(self, which: int, extra: int) -> None:
        name = self._node(which)
        if name is not None and extra % 3 == 0:
            del self.nodes[name]
            self.write("agent", "node", name, "left", NodeLeft(reason="scaled down"))

    def _join(self, which: int, extra: int) -> None:
        away = [name for name in NODES if name not in self.nodes]
        if away:
            self.join(away[which % len(away)])

    def _withhold(self, which: int, extra: int) -> None:
        self._ask(which, extra, force=False)

    def _force(self, which: int, extra: int) -> None:
        self._ask(which, extra, force=True)

    def _ask(self, which: int, extra: int, *, force: bool) -> None:
        """The composer asks for a device; the scheduler answers once it is free, or at once where force was asked."""
        name = self._node(which)
        index = extra % GPUS
        if name is None or index in self.nodes[name].absent or NODES[name] is NAMELESS:
            return
        node, uuid = self.nodes[name], uuid_of(name, index)
        if uuid not in node.asked:
            self._requests += 1
            node.asked[uuid] = f"r{self._requests}"
            asked = WithholdRequested(request_id=node.asked[uuid], force=force)
            self.write("composer", "device", uuid, "withhold-requested", asked)
        holders = tuple(sorted(self.holders(name, index)))
        if (force or not holders) and self._may_go(name, index):
            given = Withheld(request_id=node.asked[uuid], forced=bool(holders), holders=holders)
            self.write("scheduler", "device", uuid, "withheld", given)
            self._take_away(name, index)

    def _may_go(self, name: str, index: int) -> bool:
        """Where the kubelet picks, no hold may stand at its place: then the scheduler would move it to another one."""
        slots = (slot for one in self.jobs.values() for slot in one.held if slot.node == name)
        return not any(index in slot.places for slot in slots)

    def _take_away(self, name: str, index: int) -> None:
        node = self.nodes[name]
        node.absent.add(index)
        del node.asked[uuid_of(name, index)]
        self.write("agent", "node", name, "joined", described(name, node))

    def _detach(self, which: int, extra: int) -> None:
        """The requests of a node that can be answered by now are."""
        name = self._node(which)
        for uuid in tuple(self.nodes[name].asked) if name is not None else ():
            index = int(uuid.rpartition("-")[2])
            if not self.holders(name, index) and self._may_go(name, index):
                given = Withheld(request_id=self.nodes[name].asked[uuid])
                self.write("scheduler", "device", uuid, "withheld", given)
                self._take_away(name, index)

    def _give_back(self, which: int, extra: int) -> None:
        """A device comes again, or nobody asks for one any more."""
        name = self._node(which)
        if name is None:
            return
        node = self.nodes[name]
        if node.absent and not node.lost:
            index = min(node.absent)
            node.absent.discard(index)
            self.write("agent", "node", name, "joined", described(name, node))
            self.write("scheduler", "device", uuid_of(name, index), "released", Released())
        for uuid, request in tuple(node.asked.items()):
            del node.asked[uuid]
            self.write("composer", "device", uuid, "withhold-withdrawn", WithholdWithdrawn(request_id=request))

    def _node(self, which: int) -> str | None:
        names = tuple(self.nodes)
        return names[which % len(names)] if names else None


def uuid_of(node: str, index: int) -> str:
    """Return the UUID, or the name of the place, that a node shows at an index."""
    return f"{node}-gpu-{index}"


def described(name: str, node: WrittenNode) -> NodeJoined:
    """Return the node as its `joined` describes it."""
    return NodeJoined(
        cpu_milli=1_000_000,
        memory_mib=10_000_000,
        gpu_model="H100",
        gpu_uuids=tuple(uuid_of(name, index) for index in range(GPUS)),
        absent=tuple(sorted(node.absent)),
        kubelet_picks=node.kind is not CHOSEN,
    )
