"""An agent in virtual time: facts in, drafts out and folded back, crashes anywhere."""

import itertools
from collections.abc import Callable, Iterable

from muster.agent.core.behaviour import Behaviour
from muster.agent.core.core import AgentCore
from muster.agent.core.fleet import Fleet, regular_fleet
from muster.agent.core.groups import Groups
from muster.agent.core.simulated import SimulatedCluster
from muster.core import NS_PER_S, Draft, Fact, Instant
from muster.schemas.base import Payload
from muster.schemas.facts.device import AttachmentState
from muster.schemas.facts.job import (
    JobFinished,
    JobPlaced,
    JobQueued,
    JobResizeRequested,
    JobRouted,
    JobState,
    JobStopRequested,
    PodsStarted,
    StopReason,
)
from muster.schemas.facts.node import NodeLost
from muster.schemas.facts.scale import ScaleState
from muster.schemas.job import Checkpointing, Job, JobSpec, Slot, TaskGroup
from muster.schemas.labels import EXIT_CODE, RUN_S

START = Instant(1_700_000_000 * NS_PER_S)
DECISIONS_MAX = 100
"""At one moment; more of them say the same again."""
QUICK = Behaviour(seed=7, start_s=0.5, run_s=30.0)


def fleet_of(nodes: int = 2, gpus: int = 8) -> Fleet:
    return regular_fleet(
        nodes=nodes, gpus_per_node=gpus, gpu_model="H100", cpu_milli=128_000, memory_mib=1_000_000, rack_size=8,
        racks_per_block=8,
    )  # fmt: skip


def job_id(number: int) -> str:
    digits = f"{number:05d}".translate(str.maketrans("0189", "ABCD"))
    return ("J" * 21 + digits)[-26:]


def job(
    number: int,
    *,
    run_s: float | None = None,
    exit_code: int | None = None,
    gpus: int = 1,
    checkpointing: Checkpointing | None = None,
) -> Job:
    labels = {}
    if run_s is not None:
        labels[RUN_S] = str(run_s)
    if exit_code is not None:
        labels[EXIT_CODE] = str(exit_code)
    spec = JobSpec(
        name=f"job-{number}",
        team="blue",
        task_groups=(TaskGroup(gpus=gpus),),
        labels=labels,
        checkpointing=checkpointing,
    )
    return Job(
        id=job_id(number),
        spec=spec,
        principal="ann",
        idempotency_key=str(number),
        body_hash="",
        trace=f"00-t{number}-s-01",
    )


def slot(node: int = 1, *devices: int) -> Slot:
    return Slot(group=0, replica=0, node=f"gpu-{node:04d}", devices=devices or (0,), gpu_milli=1000)


WRITERS = {JobState: "scheduler", ScaleState: "scaler", AttachmentState: "composer"}
"""Of state facts that are not the agent's own."""


class VirtualAgent:
    """A log as a list, and an agent that folds it. `run(seconds)` lets time pass; each wake-up is honoured."""

    def __init__(
        self, *, fleet: Fleet | None = None, behaviour: Behaviour = QUICK, groups: Groups | None = None
    ) -> None:
        fleet = fleet_of() if fleet is None else fleet
        self.new_core: Callable[[], AgentCore] = lambda: AgentCore(SimulatedCluster(fleet, behaviour, groups))
        self.core = self.new_core()
        self.log: list[Fact] = []
        self.now = START

    def write(
        self,
        writer: str,
        kind: str,
        subject_id: str,
        name: str,
        payload: Payload,
        *,
        causes: tuple[str, ...] = (),
        trace: str = "",
    ) -> Fact:
        seq = len(self.log) + 1
        fact = Fact(f"f{seq}", seq, self.now, "local", writer, kind, subject_id, name, causes, trace, payload)
        self.log.append(fact)
        self.core.apply(fact)
        return fact

    def settle(self) -> None:
        """Decide, append, fold until nothing more is so at this moment."""
        for said in itertools.count():
            if not (drafts := self.core.decide(self.now)):
                return
            assert said < DECISIONS_MAX, f"says the same again and again: {drafts[0]}"
            assert self.core.decide(self.now) == drafts, "deciding must not change what the core believes"
            for draft in drafts:
                self.write("agent", draft.kind, draft.subject_id, draft.name, draft.payload, causes=draft.causes,
                           trace=draft.trace)  # fmt: skip

    def run(self, seconds: float) -> None:
        end = Instant(self.now + round(seconds * NS_PER_S))
        self.settle()
        while (wakeup := self.core.next_wakeup()) is not None and wakeup <= end:
            assert wakeup > self.now, "asked to be woken for what was decided already"
            self.now = wakeup
            self.settle()
        self.now = end

    def crash(self) -> None:
        """kill -9, and a new agent that folds the whole log."""
        self.core = self.new_core()
        for fact in self.log:
            self.core.apply(fact)

    def recover_from_checkpoint(self, states: Iterable[Draft]) -> None:
        """A new agent that folds state facts instead of the log."""
        self.core = self.new_core()
        for index, state in enumerate(states):
            writer = WRITERS.get(type(state.payload), "agent")
            self.core.apply(
                Fact(
                    f"s{index}",
                    0,
                    self.now,
                    "local",
                    writer,
                    state.kind,
                    state.subject_id,
                    state.name,
                    (),
                    "",
                    state.payload,
                )
            )

    def route(self, wanted: Job) -> None:
        self.write("federation", "job", wanted.id, "routed", JobRouted(job=wanted, cluster="local"))
        self.write("scheduler", "job", wanted.id, "queued", JobQueued(queue="blue", attempt=1))

    def place(self, wanted: Job, *slots: Slot, attempt: int = 1) -> Fact:
        placed = JobPlaced(attempt=attempt, slots=slots or (slot(),))
        return self.write("scheduler", "job", wanted.id, "placed", placed, trace=wanted.trace)

    def launch(self, wanted: Job, *slots: Slot) -> None:
        self.route(wanted)
        self.place(wanted, *slots)

    def stop(
        self, wanted: Job, *, attempt: int = 1, reason: StopReason = StopReason.CANCELLED, grace_s: float = 0.0
    ) -> Fact:
        body = JobStopRequested(attempt=attempt, reason=reason, grace_s=grace_s)
        return self.write("scheduler", "job", wanted.id, "stop-requested", body)

    def resize(self, wanted: Job, *slots: Slot, attempt: int = 1, grace_s: float = 0.0) -> Fact:
        body = JobResizeRequested(attempt=attempt, slots=slots, grace_s=grace_s)
        return self.write("scheduler", "job", wanted.id, "resize-requested", body)

    def write_start(self, wanted: Job, *, attempt: int = 1) -> Fact:
        """The log says that the pods run: what was decided arrives when it does."""
        return self.write("agent", "job", wanted.id, "pods-started", PodsStarted(attempt=attempt))

    def write_loss(self, node: str) -> Fact:
        """The log says that the node does not answer; another agent may have said so."""
        return self.write("agent", "node", node, "lost", NodeLost())

    def finish(self, wanted: Job, name: str = "succeeded") -> None:
        self.write("scheduler", "job", wanted.id, name, JobFinished())

    def told(self, subject_id: str) -> list[str]:
        """Names of the agent's facts about a job or node, in order."""
        return [fact.name for fact in self.log if fact.subject_id == subject_id and fact.writer == "agent"]

    def facts(self, name: str) -> list[Fact]:
        return [fact for fact in self.log if fact.name == name]
