"""A telemetry core with a small fleet, facts and readings by hand."""

from dataclasses import dataclass, field

from muster.core import Draft, Fact, Instant, after
from muster.schemas.base import Payload
from muster.schemas.facts.job import JobFinished, JobPlaced, JobRouted, PodsExited, PodsOutcome, PodsStarted
from muster.schemas.facts.node import NodeJoined
from muster.schemas.job import Job, JobSpec, Slot, TaskGroup
from muster.schemas.telemetry import DeviceSample, ExporterState, NodeSample
from muster.telemetry.core.config import TelemetryConfig
from muster.telemetry.core.core import TelemetryCore

BEGAN = Instant(1_000_000_000_000)
CONFIG = TelemetryConfig(interval_s=10.0, idle_after_s=60.0, report_s=600.0)


def job_id(number: int) -> str:
    """A valid job id."""
    return f"{'ABCDEFGH'[number]}{'A' * 25}"


def uuid(node: str, index: int) -> str:
    return f"GPU-{node}-{index}"


def joined(node: str, gpus: int = 8) -> NodeJoined:
    return NodeJoined(
        cpu_milli=1, memory_mib=1, gpu_model="H100", gpu_uuids=tuple(uuid(node, index) for index in range(gpus))
    )


def device(node: str, index: int, *jobs: str, busy: float = 90.0, **fields: object) -> DeviceSample:
    told: dict[str, object] = {
        "index": index,
        "uuid": uuid(node, index),
        "utilisation_pct": busy,
        "memory_used_mib": 40_000,
        "memory_total_mib": 80_000,
        "power_w": 500.0,
        "temperature_c": 60.0,
        "job_ids": jobs,
        **fields,
    }
    return DeviceSample.model_validate(told)


@dataclass
class TelemetryHouse:
    """Writes facts to a core and gives it readings. now: seconds since BEGAN, moved by hand."""

    core: TelemetryCore = field(default_factory=lambda: TelemetryCore(CONFIG))
    seq: int = 0
    now_s: float = 0.0

    @property
    def now(self) -> Instant:
        return after(BEGAN, self.now_s)

    def write(self, writer: str, kind: str, subject: str, name: str, payload: Payload) -> Fact:
        self.seq += 1
        fact = Fact(f"f{self.seq}", self.seq, self.now, "atlas", writer, kind, subject, name, (), "", payload)
        self.core.apply(fact)
        return fact

    def join(self, *nodes: str, gpus: int = 8) -> None:
        for node in nodes:
            self.write("agent", "node", node, "joined", joined(node, gpus))

    def place(self, number: int, *slots: Slot, team: str = "lab", picked: tuple[tuple[str, ...], ...] = ()) -> str:
        """Route, place and start a job."""
        job = job_id(number)
        spec = JobSpec(name=f"job-{number}", team=team, task_groups=(TaskGroup(name="w", gpus=1),))
        routed = JobRouted(
            job=Job(id=job, spec=spec, principal="ada", idempotency_key="k", body_hash="h"), cluster="atlas"
        )
        self.write("federation", "job", job, "routed", routed)
        self.write("scheduler", "job", job, "placed", JobPlaced(attempt=1, slots=slots))
        self.write("agent", "job", job, "pods-started", PodsStarted(attempt=1, device_uuids=picked))
        return job

    def exit(self, job: str) -> None:
        self.write("agent", "job", job, "pods-exited", PodsExited(attempt=1, outcome=PodsOutcome.SUCCEEDED))

    def end(self, job: str) -> None:
        self.exit(job)
        self.write("scheduler", "job", job, "succeeded", JobFinished(attempt=1))

    def read(self, node: str, *devices: DeviceSample, state: ExporterState = ExporterState.OK) -> None:
        """A reading of a node at this moment."""
        sample = NodeSample(
            node=node, at=self.now, gpu_model="H100", devices=devices, exporter=state, gpus_expected=8, interval_s=10.0
        )
        self.core.measure(sample, self.core.holdings.holders(node))

    def settle(self) -> list[Draft]:
        """What the core says now, written down."""
        drafts = self.core.decide(self.now)
        for draft in drafts:
            self.write("telemetry", draft.kind, draft.subject_id, draft.name, draft.payload)
        return drafts


def slot(node: str, *devices: int, milli: int = 1000, gpus: int = 0) -> Slot:
    return Slot(group=0, replica=0, node=node, devices=devices, gpu_milli=milli, gpus=gpus)
