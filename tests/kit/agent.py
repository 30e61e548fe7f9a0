"""The agent's core in virtual time, over a simulated cluster, with crashes anywhere."""

from collections.abc import Callable, Iterable

from kit.log import VirtualService
from muster.agent.core.behaviour import Behaviour
from muster.agent.core.core import AgentCore
from muster.agent.core.fleet import Fleet, Groups, regular_fleet
from muster.agent.core.simulated import SimulatedCluster
from muster.core import NS_PER_S, Draft, Fact, Instant
from muster.core.virtual import recover
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


class VirtualAgent(VirtualService[AgentCore]):
    """Checks at every decision that deciding changes nothing, and at rest that it wants to be woken later only."""

    def __init__(
        self, *, fleet: Fleet | None = None, behaviour: Behaviour = QUICK, groups: Groups | None = None
    ) -> None:
        fleet = fleet_of() if fleet is None else fleet
        self.new_core: Callable[[], AgentCore] = lambda: AgentCore(SimulatedCluster(fleet, behaviour, groups))
        super().__init__("agent", self.new_core(), cluster="local", start=START)

    def decide(self, writer: str) -> list[Draft]:
        drafts = super().decide(writer)
        assert super().decide(writer) == drafts, "deciding must not change what the core believes"
        return drafts

    def next_moment(self) -> Instant | None:
        wakeup = self.core.next_wakeup()
        assert wakeup is None or wakeup > self.now, "asked to be woken for what was decided already"
        return super().next_moment()

    def crash(self) -> None:
        """kill -9, and a new agent that folds the whole log."""
        self.core = recover(self.new_core(), (), self.log)

    def recover_from_checkpoint(self, states: Iterable[Draft]) -> None:
        """A new agent that folds state facts instead of the log."""
        facts = [self.state_facts(WRITERS.get(type(state.payload), "agent"), [state]) for state in states]
        self.core = recover(self.new_core(), [fact for of_one in facts for fact in of_one])

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
