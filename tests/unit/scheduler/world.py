"""A cluster in virtual time for the scheduler's tests: facts in, drafts out, drafts back in as facts."""

import dataclasses
from collections import Counter
from collections.abc import Iterable

from muster.core import NS_PER_S, Draft, Fact, Instant
from muster.scheduler.core import SchedulerCore
from muster.scheduler.core.cycle import Limits
from muster.scheduler.core.jobs import HOLDING, JobRecord
from muster.schemas import ids
from muster.schemas.base import Payload
from muster.schemas.facts.job import (
    JobCancelRequested,
    JobRouted,
    PodsExited,
    PodsOutcome,
    PodsStarted,
)
from muster.schemas.facts.job_wishes import Ask, JobHoldRequested, JobPriorityRequested
from muster.schemas.facts.node import NodeJoined, NodeLost, NodeReturned, NodeState
from muster.schemas.facts.queue import QueueChangeRequested, QueueSpec
from muster.schemas.job import Job, JobSpec, Phase, TaskGroup
from muster.schemas.registry import StreamRole, fact_type

CLUSTER = "atlas"
START = Instant(1_000_000 * NS_PER_S)
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


class World:
    """log: all facts so far; core: has folded them all."""

    def __init__(
        self, *, nodes: int = 0, gpus: int = 8, queues: Iterable[str] = ("lab",), limits: Limits | None = None
    ) -> None:
        self.limits = limits or Limits()
        self.core = SchedulerCore(cluster=CLUSTER, limits=self.limits)
        self.log: list[Fact] = []
        self.now = START
        self.nodes: dict[str, NodeState] = {}
        for name in queues:
            self.queue(name)
        for index in range(nodes):
            self.join(f"n{index}", gpus=gpus)
        self.run()

    # --- what happens ---

    def say(
        self,
        writer: str,
        kind: str,
        subject_id: str,
        name: str,
        payload: Payload,
        *,
        causes: Iterable[str] = (),
        trace: str = "",
    ) -> Fact:
        """Append a fact and fold it."""
        row = fact_type(StreamRole.LOG, writer, kind, name)
        assert row is not None, f"{writer} may not say {kind} {name}"
        assert isinstance(payload, row.payload)
        seq = len(self.log) + 1
        fact = Fact(f"f{seq}", seq, self.now, CLUSTER, writer, kind, subject_id, name, tuple(causes), trace, payload)
        self.log.append(fact)
        self.core.apply(fact)
        return fact

    def route(self, *jobs: Job) -> None:
        for one in jobs:
            self.say("federation", "job", one.id, "routed", JobRouted(job=one, cluster=CLUSTER), trace=one.trace)

    def submit(self, name: str, **spec: object) -> Job:
        """Route a job and let the scheduler answer."""
        one = job(name, **spec)
        self.route(one)
        self.run()
        return one

    def cancel(self, one: Job) -> None:
        self.say("federation", "job", one.id, "cancel-forwarded", JobCancelRequested(principal="ada"))
        self.run()

    def ask(self, one: Job, ask: Ask, *, priority: int = 50, reason: str = "") -> Fact:
        """Somebody's wish arrives; nobody has decided yet."""
        if ask is Ask.PRIORITY:
            wanted = JobPriorityRequested(principal="ada", priority=priority, reason=reason)
            return self.say("federation", "job", one.id, "priority-forwarded", wanted)
        hold = JobHoldRequested(principal="ada", reason=reason)
        return self.say("federation", "job", one.id, f"{ask.value}-forwarded", hold)

    def hold(self, one: Job, *, reason: str = "") -> None:
        self.ask(one, Ask.HOLD, reason=reason)
        self.run()

    def release(self, one: Job) -> None:
        self.ask(one, Ask.RELEASE)
        self.run()

    def prioritise(self, one: Job, priority: int) -> None:
        self.ask(one, Ask.PRIORITY, priority=priority)
        self.run()

    def started(self, one: Job, *, attempt: int = 1) -> None:
        self.say("agent", "job", one.id, "pods-started", PodsStarted(attempt=attempt))
        self.run()

    def exited(
        self, one: Job, outcome: str = "succeeded", *, attempt: int = 1, exit_code: int = 0, ran_s: float = 0.0,
        reason: str = "",
    ) -> None:  # fmt: skip
        payload = PodsExited(
            attempt=attempt, outcome=PodsOutcome(outcome), exit_code=exit_code, ran_s=ran_s, reason=reason
        )
        self.say("agent", "job", one.id, "pods-exited", payload)
        self.run()

    def queue(self, name: str, **spec: object) -> None:
        payload = QueueChangeRequested(spec=QueueSpec(name=name, **spec), principal="root")
        self.say("federation", "queue", name, "change-forwarded", payload)
        self.run()

    def join(self, name: str, *, gpus: int = 8) -> None:
        self.join_quietly(name, gpus=gpus)
        self.run()

    def join_quietly(self, name: str, *, gpus: int, rack: str = "r0", model: str = "H100") -> None:
        """The node joins; nobody has decided yet."""
        description = NodeJoined(
            cpu_milli=128_000,
            memory_mib=1_048_576,
            gpu_model=model,
            gpu_uuids=tuple(f"{name}-gpu-{index}" for index in range(gpus)),
            domains=(("rack", rack),),
        )
        fact = self.say("agent", "node", name, "joined", description)
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
        fact = self.say("agent", "node", name, "joined", description)
        self.nodes[name] = before.model_copy(update={"description": description, "lost": False, "last_fact": fact.id})

    def lose(self, name: str) -> None:
        self.set_lost_quietly(name, lost=True)
        self.run()

    def back(self, name: str) -> None:
        self.set_lost_quietly(name, lost=False)
        self.run()

    def set_lost_quietly(self, name: str, *, lost: bool) -> None:
        """The node is lost or returns; nobody has decided yet."""
        said = ("lost", NodeLost()) if lost else ("returned", NodeReturned())
        fact = self.say("agent", "node", name, *said)
        self.nodes[name] = self.nodes[name].model_copy(update={"lost": lost, "last_fact": fact.id})

    def later(self, seconds: float) -> None:
        """Time passes; the scheduler is asked when it wished to be."""
        end = Instant(self.now + round(seconds * NS_PER_S))
        while (wake := self.core.next_wakeup()) is not None and wake <= end:
            before, self.now = len(self.log), max(self.now, wake)
            self.run()
            if len(self.log) == before and self.core.next_wakeup() == wake:
                raise AssertionError("it wished to be asked and had nothing to say")
        self.now = end
        self.run()

    def run(self) -> None:
        """Decide and fold until nothing more is decided."""
        for _ in range(1_000):
            if not self.step():
                return
        raise AssertionError("decisions never end")

    def step(self) -> list[Fact]:
        """One decision, folded."""
        drafts = self.core.decide(self.now)
        return [self.append(draft) for draft in drafts]

    def append(self, draft: Draft) -> Fact:
        return self.say(
            "scheduler", draft.kind, draft.subject_id, draft.name, draft.payload, causes=draft.causes, trace=draft.trace
        )

    # --- what is seen ---

    def names(self, one: Job) -> list[str]:
        """Everything that the scheduler said of a job, in order."""
        return [fact.name for fact in self.log if fact.subject_id == one.id and fact.writer == "scheduler"]

    def last(self, subject_id: str, name: str) -> Fact:
        return next(fact for fact in reversed(self.log) if fact.subject_id == subject_id and fact.name == name)

    def count(self, subject_id: str, name: str) -> int:
        return sum(fact.subject_id == subject_id and fact.name == name for fact in self.log)

    def phase(self, one: Job) -> Phase:
        return self.core.state.jobs.records[one.id].phase

    def slots(self, one: Job) -> list[tuple[str, tuple[int, ...]]]:
        return [(slot.node, slot.devices) for slot in self.core.state.jobs.records[one.id].slots]

    def refold(self) -> SchedulerCore:
        """A core that folded the same log."""
        core = SchedulerCore(cluster=CLUSTER, limits=self.limits)
        for fact in self.log:
            core.apply(fact)
        return core

    def recover(self, kinds: Iterable[str] = KINDS) -> SchedulerCore:
        """A core that folded a checkpoint of now: the scheduler's own part and the agent's, kinds in this order."""
        core = SchedulerCore(cluster=CLUSTER, limits=self.limits)
        parts = {kind: [draft for draft in self.core.snapshot() if draft.kind == kind] for kind in kinds}
        parts["agent"] = [Draft("node", name, "state-recorded", node) for name, node in self.nodes.items()]
        for kind, drafts in parts.items():
            for draft in drafts:
                core.apply(state_fact(draft, writer="agent" if kind == "agent" else "scheduler", seq=len(self.log)))
        return core


def state_fact(draft: Draft, *, writer: str, seq: int) -> Fact:
    """A part of a checkpoint, as it is folded."""
    return Fact(
        "", seq, START, CLUSTER, writer, draft.kind, draft.subject_id, draft.name, (), draft.trace, draft.payload
    )


def facts_of(record: JobRecord) -> tuple[object, ...]:
    """Everything on a record but the request, which is compared by identity."""
    return tuple(getattr(record, field.name) for field in dataclasses.fields(record) if field.name != "kind")


def books_balance(core: SchedulerCore) -> None:
    """Every device of the fleet is held by exactly whom the jobs' slots and what is kept for others say."""
    state = core.state
    state.books.settle()
    held: Counter[tuple[str, int]] = Counter()
    for record in state.jobs.records.values():
        for name in {slot.node for slot in record.held_slots} if record.phase in HOLDING else ():
            for place in (hold.slot for hold in state.books.nodes[name].entered(record.id)):
                held.update({(name, device): place.gpu_milli for device in place.devices})
    for booking in state.books.bookings.all.values():
        for hold in (hold for holds in booking.kept.values() for hold in holds):
            held.update({(hold.slot.node, device): hold.slot.gpu_milli for device in hold.slot.devices})
    for name, node in state.books.fleet._ledger.nodes.items():
        idle = {index: node.idle[index] for index in node.shape.devices}
        assert idle == {index: 1000 - held[name, index] for index in idle}


def belief(core: SchedulerCore) -> object:
    """Everything that must be equal in two cores that folded the same: state facts, and what follows from them."""
    state = core.state
    state.books.settle()
    ledger = state.books.fleet._ledger
    return {
        "jobs": {record.id: (record.kind.gang, *facts_of(record)) for record in state.jobs.records.values()},
        "ended": list(state.jobs._ended),
        "nodes": {name: (node.description, node.usable, node.wishes) for name, node in state.books.nodes.items()},
        "devices": {name: (device.released, device.wishes) for name, device in state.books.devices.items()},
        "wishes": state.queues.wishes,
        "state": {(draft.kind, draft.subject_id): draft.payload for draft in core.snapshot()},
        "free": {
            name: (node.cpu_milli, node.memory_mib, tuple(node.idle), node.usable, frozenset(node.broken))
            for name, node in ledger.nodes.items()
        },
        "holders": {name: sorted(node.jobs) for name, node in state.books.nodes.items()},
        "lanes": {(lane.queue, lane.kind.key): lane.jobs for lane in state.line.lanes.values()},
        "arrivals": set(state.arrivals),
        "queues": {name: (queue.own_milli, queue.held_milli) for name, queue in state.queues.queues.items()},
        "counts": {phase: n for phase, n in state.jobs.counts.items() if not phase.is_terminal},
        "deadline": state.next_deadline(),
    }
