"""The telemetry core in virtual time; the test writes what the others write, and reads the exporters."""

from kit.log import CLUSTER, VirtualService
from muster.core import Instant, after, seconds_between
from muster.schemas.facts.job import JobFinished, JobPlaced, JobRouted, PodsExited, PodsOutcome, PodsStarted
from muster.schemas.facts.node import NodeJoined
from muster.schemas.job import Job, JobSpec, Slot, TaskGroup
from muster.schemas.telemetry import DeviceSample, ExporterState, NodeSample
from muster.telemetry.core.config import TelemetryConfig
from muster.telemetry.core.core import TelemetryCore
from muster.telemetry.core.meters import Reading

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


class VirtualTelemetry(VirtualService[TelemetryCore]):
    """Time stands still but for `now_s`."""

    def __init__(self) -> None:
        super().__init__("telemetry", TelemetryCore(CONFIG), start=BEGAN)

    @property
    def now_s(self) -> float:
        """Seconds since BEGAN."""
        return seconds_between(BEGAN, self.now)

    @now_s.setter
    def now_s(self, seconds: float) -> None:
        self.now = after(BEGAN, seconds)

    def join(self, *nodes: str, gpus: int = 8) -> None:
        for node in nodes:
            self.write("agent", "node", node, "joined", joined(node, gpus))

    def place(self, number: int, *slots: Slot, team: str = "lab", picked: tuple[tuple[str, ...], ...] = ()) -> str:
        """Route, place and start a job."""
        job = job_id(number)
        spec = JobSpec(name=f"job-{number}", team=team, task_groups=(TaskGroup(name="w", gpus=1),))
        routed = JobRouted(
            job=Job(id=job, spec=spec, principal="ada", idempotency_key="k", body_hash="h"), cluster=CLUSTER
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
        self.core.observe(Reading(sample, self.core.holdings.holders(node)), self.now)


def slot(node: str, *devices: int, milli: int = 1000, gpus: int = 0) -> Slot:
    return Slot(group=0, replica=0, node=node, devices=devices, gpu_milli=milli, gpus=gpus)
