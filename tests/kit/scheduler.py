"""The scheduler's core in virtual time, in a cluster of which the test says what happens."""

import dataclasses
from collections import Counter
from collections.abc import Iterable

from kit.log import CLUSTER, START, VirtualService
from muster.core import Draft, Fact
from muster.core.virtual import recover
from muster.scheduler.core import SchedulerCore
from muster.scheduler.core.cycle import Limits
from muster.scheduler.core.stores.jobs import HOLDING, JobRecord
from muster.schemas import ids
from muster.schemas.facts.job import (
    JobCancelRequested,
    JobRouted,
    PodsExited,
    PodsOutcome,
    PodsStarted,
)
from muster.schemas.facts.job_requests import Ask, JobEditRequested, JobHoldRequested, JobPriorityRequested
from muster.schemas.facts.node import NodeJoined, NodeLost, NodeReturned, NodeState
from muster.schemas.facts.queue import QueueChangeRequested, QueueSpec
from muster.schemas.job import Job, JobSpec, Phase, TaskGroup

KINDS = ("queue", "node", "device", "agent", "job", "reservation", "cluster")
"""Parts of a checkpoint: the scheduler's by kind, and the agent's."""


def job(name: str, *, queue: str = "lab", replicas: int = 1, gpus: int = 1, **spec: object) -> Job:
    """A job of one task group."""
    group = {key: spec.pop(key) for key in ("gpu_milli", "cpu_milli", "memory_mib", "gpu_models") if key in spec}
    return Job(
        id=ids.job_id(team="lab", principal="ada", idempotency_key=name),
        spec=JobSpec(
            name=name,
            team="lab",
            queue=queue,
            task_groups=(TaskGroup(replicas=replicas, gpus=0 if "gpu_milli" in group else gpus, **group),),
            **spec,
        ),
        principal="ada",
        idempotency_key=name,
        body_hash="",
        submitted_at=START,
        trace=ids.traceparent(ids.trace_id(name), ids.span_id(name)),
    )


class VirtualScheduler(VirtualService[SchedulerCore]):
    """nodes: as the agent would record them in a checkpoint."""

    def __init__(
        self, *, nodes: int = 0, gpus: int = 8, queues: Iterable[str] = ("lab",), limits: Limits | None = None
    ) -> None:
        self.limits = limits or Limits()
        super().__init__("scheduler", self.new_core())
        self.nodes: dict[str, NodeState] = {}
        for name in queues:
            self.queue(name)
        for index in range(nodes):
            self.join(f"n{index}", gpus=gpus)
        self.settle()

    def new_core(self) -> SchedulerCore:
        """One that has folded nothing."""
        return SchedulerCore(cluster=CLUSTER, limits=self.limits)

    # --- what happens ---

    def route(self, *jobs: Job) -> None:
        for one in jobs:
            self.write("federation", "job", one.id, "routed", JobRouted(job=one, cluster=CLUSTER), trace=one.trace)

    def submit(self, name: str, **spec: object) -> Job:
        """Route a job and let the scheduler answer."""
        one = job(name, **spec)
        self.route(one)
        self.settle()
        return one

    def cancel(self, one: Job) -> None:
        self.write("federation", "job", one.id, "cancel-forwarded", JobCancelRequested(principal="ada"))
        self.settle()

    def ask(self, one: Job, ask: Ask, *, priority: int = 50, reason: str = "") -> Fact:
        """Somebody's wish arrives; nobody has decided yet."""
        if ask is Ask.PRIORITY:
            wanted = JobPriorityRequested(principal="ada", priority=priority, reason=reason)
            return self.write("federation", "job", one.id, "priority-forwarded", wanted)
        hold = JobHoldRequested(principal="ada", reason=reason)
        return self.write("federation", "job", one.id, f"{ask.value}-forwarded", hold)

    def hold(self, one: Job, *, reason: str = "") -> None:
        self.ask(one, Ask.HOLD, reason=reason)
        self.settle()

    def release(self, one: Job) -> None:
        self.ask(one, Ask.RELEASE)
        self.settle()

    def requeue(self, one: Job, *, reason: str = "") -> Fact:
        """The request of a user to requeue the job arrives, and the scheduler answers."""
        asked = JobHoldRequested(principal="ada", reason=reason)
        fact = self.write("federation", "job", one.id, "requeue-forwarded", asked)
        self.settle()
        return fact

    def edit(self, one: Job, **fields: object) -> Fact:
        """The request of a user to edit the job arrives, and the scheduler answers."""
        asked = JobEditRequested.model_validate({"principal": "ada", **fields})
        fact = self.write("federation", "job", one.id, "edit-forwarded", asked)
        self.settle()
        return fact

    def prioritise(self, one: Job, priority: int) -> None:
        self.ask(one, Ask.PRIORITY, priority=priority)
        self.settle()

    def started(self, one: Job, *, attempt: int = 1) -> None:
        self.write("agent", "job", one.id, "pods-started", PodsStarted(attempt=attempt))
        self.settle()

    def exited(
        self, one: Job, outcome: str = "succeeded", *, attempt: int = 1, exit_code: int = 0, ran_s: float = 0.0,
        reason: str = "",
    ) -> None:  # fmt: skip
        payload = PodsExited(
            attempt=attempt, outcome=PodsOutcome(outcome), exit_code=exit_code, ran_s=ran_s, reason=reason
        )
        self.write("agent", "job", one.id, "pods-exited", payload)
        self.settle()

    def queue(self, name: str, **spec: object) -> None:
        payload = QueueChangeRequested(spec=QueueSpec(name=name, **spec), principal="root")
        self.write("federation", "queue", name, "change-forwarded", payload)
        self.settle()

    def join(self, name: str, *, gpus: int = 8) -> None:
        self.join_quietly(name, gpus=gpus)
        self.settle()

    def join_quietly(self, name: str, *, gpus: int, rack: str = "r0", model: str = "H100") -> None:
        """The node joins; nobody has decided yet."""
        description = NodeJoined(
            cpu_milli=128_000,
            memory_mib=1_048_576,
            gpu_model=model,
            gpu_uuids=tuple(f"{name}-gpu-{index}" for index in range(gpus)),
            domains=(("rack", rack),),
        )
        fact = self.write("agent", "node", name, "joined", description)
        self.nodes[name] = NodeState(description=description, last_fact=fact.id)

    def plug(self, name: str, index: int, *, there: bool) -> None:
        """The device at this place of a node is there from now on, or not; nobody has decided yet."""
        before = self.nodes[name]
        uuids = before.description.gpu_uuids
        if index >= len(uuids):
            return
        absent = set(before.description.absent) - {index} if there else {*before.description.absent, index}
        description = before.description.model_copy(
            update={
                "absent": tuple(sorted(absent)),
                "gpu_uuids": tuple(f"{'empty' if at in absent else f'{name}-gpu'}-{at}" for at in range(len(uuids))),
            }
        )
        fact = self.write("agent", "node", name, "joined", description)
        self.nodes[name] = dataclasses.replace(before, description=description, lost=False, last_fact=fact.id)

    def lose(self, name: str) -> None:
        self.set_lost_quietly(name, lost=True)
        self.settle()

    def back(self, name: str) -> None:
        self.set_lost_quietly(name, lost=False)
        self.settle()

    def set_lost_quietly(self, name: str, *, lost: bool) -> None:
        """The node is lost or returns; nobody has decided yet."""
        said = ("lost", NodeLost()) if lost else ("returned", NodeReturned())
        fact = self.write("agent", "node", name, *said)
        self.nodes[name] = dataclasses.replace(self.nodes[name], lost=lost, last_fact=fact.id)

    # --- what is seen ---

    def names(self, one: Job) -> list[str]:
        """Everything that the scheduler said of a job, in order."""
        return [fact.name for fact in self.log if fact.subject_id == one.id and fact.writer == "scheduler"]

    def count(self, subject_id: str, name: str) -> int:
        return sum(fact.subject_id == subject_id and fact.name == name for fact in self.log)

    def phase(self, one: Job) -> Phase:
        return self.core.state.jobs.records[one.id].phase

    def slots(self, one: Job) -> list[tuple[str, tuple[int, ...]]]:
        return [(slot.node, slot.devices) for slot in self.core.state.jobs.records[one.id].slots]

    def refold(self) -> SchedulerCore:
        """A core that folded the same log."""
        return recover(self.new_core(), (), self.log)

    def recover(self, kinds: Iterable[str] = KINDS) -> SchedulerCore:
        """A core that folded a checkpoint of now: the scheduler's own part and the agent's, kinds in this order."""
        parts = {kind: [fact for fact in self.snapshot() if fact.kind == kind] for kind in kinds}
        agents = [Draft("node", name, "state-recorded", node) for name, node in self.nodes.items()]
        parts["agent"] = self.state_facts("agent", agents)
        return recover(self.new_core(), [fact for facts in parts.values() for fact in facts])


def facts_of(record: JobRecord) -> tuple[object, ...]:
    """Everything on a record but the request, which is compared by identity."""
    return tuple(getattr(record, field.name) for field in dataclasses.fields(record) if field.name != "job_class")


def ledger_balances(core: SchedulerCore) -> None:
    """Every device of the fleet is held by exactly whom the jobs' slots and what is kept for others say."""
    state = core.state
    state.proposals.settle()
    held: Counter[tuple[str, int]] = Counter()
    for record in state.jobs.records.values():
        for name in {slot.node for slot in record.held_slots} if record.phase in HOLDING else ():
            for place in (hold.slot for hold in state.nodes[name].entered(record.id)):
                held.update({(name, device): place.gpu_milli for device in place.devices})
    for booking in state.bookings.all.values():
        for hold in (hold for holds in booking.kept.values() for hold in holds):
            held.update({(hold.slot.node, device): hold.slot.gpu_milli for device in hold.slot.devices})
    for name, node in state.fleet._ledger.nodes.items():
        idle = {index: node.idle[index] for index in node.shape.devices}
        assert idle == {index: 1000 - held[name, index] for index in idle}


def belief(core: SchedulerCore) -> object:
    """Everything that must be equal in two cores that folded the same: state facts, and what follows from them."""
    state = core.state
    state.proposals.settle()
    ledger = state.fleet._ledger
    return {
        "jobs": {record.id: (record.job_class.gang, *facts_of(record)) for record in state.jobs.records.values()},
        "ended": list(state.jobs._ended),
        "nodes": {name: (node.description, node.usable, node.wishes) for name, node in state.nodes.items()},
        "devices": {name: (device.released, device.wishes) for name, device in state.grants.devices.items()},
        "wishes": state.queues.wishes,
        "state": {(draft.kind, draft.subject_id): draft.payload for draft in core.snapshot()},
        "free": {
            name: (node.cpu_milli, node.memory_mib, tuple(node.idle), node.usable, frozenset(node.broken))
            for name, node in ledger.nodes.items()
        },
        "holders": {name: sorted(node.jobs) for name, node in state.nodes.items()},
        "pending": {(one.queue, one.job_class.key): one.jobs for one in state.pending.queues.values()},
        "arrivals": set(state.arrivals.jobs),
        "queues": {name: (queue.own_milli, queue.held_milli) for name, queue in state.queues.queues.items()},
        "counts": {phase: n for phase, n in state.jobs.counts.items() if not phase.is_terminal},
        "deadline": state.due.next_deadline(state.jobs),
    }
