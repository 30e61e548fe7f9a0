"""The core of health in virtual time, in a cluster whose scheduler, agent and exporters the test plays."""

from collections.abc import Iterable

from kit.log import VirtualService
from muster.core import NS_PER_S, Fact, Instant, after
from muster.core.virtual import recover
from muster.health.core.config import HealthConfig
from muster.health.core.core import HealthCore
from muster.health.core.state import Unit
from muster.health.rule_files import built_in_rules
from muster.schemas.facts.health import HealthPhase
from muster.schemas.facts.job import JobPlaced, JobRouted, PodsExited, PodsOutcome
from muster.schemas.facts.node import NodeJoined, Withheld, WithholdRequested
from muster.schemas.facts.operations import (
    ActionOutcome,
    CheckOrder,
    CheckOutcome,
    CheckResult,
    ChecksReported,
    ChecksRequested,
    NodeActionEnded,
    NodeActionRequested,
)
from muster.schemas.job import Job, JobSpec, Slot, TaskGroup
from muster.schemas.telemetry import DeviceSample, ExporterState, NodeSample

START = Instant(2_000_000_000 * NS_PER_S)
H100 = "NVIDIA H100 80GB HBM3"
RULES = built_in_rules()
CHECKS = (CheckOrder(check="device-count"), CheckOrder(check="gpu-health"))
CONFIG = HealthConfig(rules=RULES, verify=CHECKS, verify_device=CHECKS)


def uuid(node: str, index: int) -> str:
    return f"GPU-{node}-{index}"


def device(node: str, index: int, **fields: object) -> DeviceSample:
    plain: dict[str, object] = {
        "index": index, "uuid": uuid(node, index), "utilisation_pct": 90.0, "memory_used_mib": 100,
        "memory_total_mib": 80_000, "power_w": 300.0, "temperature_c": 50.0, "remap_pending": False,
        "remap_failed": False,
    }  # fmt: skip
    return DeviceSample.model_validate(plain | fields)


class VirtualHealth(VirtualService[HealthCore]):
    """answers: whether the scheduler answers requests to withhold at once. works: whether actions succeed.

    passes: outcome of all checks. gpus: of each node.
    """

    def __init__(
        self, config: HealthConfig = CONFIG, *, now: Instant = START, gpus: int = 8, answers: bool = True
    ) -> None:
        super().__init__("health", HealthCore(config), cluster="sim", start=now)
        self.config, self.gpus, self.answers = config, gpus, answers
        self.works = True
        self.passes = CheckOutcome.PASS

    # --- what happens ------------------------------------------------------------------------------------------------

    def join(self, *nodes: str, labels: tuple[tuple[str, str], ...] = (), model: str = H100) -> None:
        for node in nodes:
            uuids = tuple(uuid(node, index) for index in range(self.gpus))
            joined = NodeJoined(cpu_milli=96_000, memory_mib=1_000_000, gpu_model=model, gpu_uuids=uuids, labels=labels)
            self.write("agent", "node", node, "joined", joined)

    def run(self, job: str, team: str, *nodes: str, devices: Iterable[int] = range(8)) -> None:
        spec = JobSpec(name="train", team=team, command=("run",), task_groups=(TaskGroup(replicas=len(nodes), gpus=8),))
        described = Job(id=job, spec=spec, principal="ann", idempotency_key="k", body_hash="h")
        routed = JobRouted(job=described, cluster="sim")
        self.write("federation", "job", job, "routed", routed)
        slots = tuple(Slot(group=0, replica=at, node=node, devices=tuple(devices)) for at, node in enumerate(nodes))
        self.write("scheduler", "job", job, "placed", JobPlaced(attempt=1, slots=slots))

    def fail(self, job: str, node: str) -> None:
        exited = PodsExited(attempt=1, outcome=PodsOutcome.FAILED, exit_code=1, node=node)
        self.write("agent", "job", job, "pods-exited", exited)

    def page(
        self, node: str, *devices: DeviceSample, exporter: ExporterState = ExporterState.OK,
        missing: tuple[str, ...] = (), jobs: tuple[str, ...] = (), model: str = H100,
    ) -> None:  # fmt: skip
        """One reading: these devices, the others well."""
        shown = {one.uuid: one for one in devices}
        rest = [uuid(node, index) for index in range(self.gpus)]
        every = [
            shown.get(one) or device(node, index, job_ids=jobs)
            for index, one in enumerate(rest)
            if one not in missing
        ]  # fmt: skip
        is_ok = exporter is ExporterState.OK
        sample = NodeSample(
            node=node, at=self.now, gpu_model=model, devices=tuple(every) if is_ok else (), exporter=exporter,
            gpus_expected=self.gpus, missing=missing,
        )  # fmt: skip
        self.core.observe(sample, self.now)

    def pages(
        self, node: str, *devices: DeviceSample, seconds: float, exporter: ExporterState = ExporterState.OK
    ) -> None:
        """The same page every 10 s for so long, and what health makes of it."""
        end = after(self.now, seconds)
        while self.now <= end:
            self.page(node, *devices, exporter=exporter)
            self.settle()
            self.now = after(self.now, 10)

    # --- the cluster around it ---------------------------------------------------------------------------------------

    def step(self, *, ask_all: bool = False) -> list[Fact]:
        """Decide, and have the cluster answer."""
        facts = super().step(ask_all=ask_all)
        for fact in facts:
            self._answer(fact)
        return facts

    def _answer(self, fact: Fact) -> None:
        match fact.payload:
            case WithholdRequested(request_id=request) if self.answers:
                self.write("scheduler", fact.kind, fact.subject_id, "withheld", Withheld(request_id=request))
            case NodeActionRequested(request_id=request):
                outcome = ActionOutcome.DONE if self.works else ActionOutcome.FAILED
                ended = NodeActionEnded(request_id=request, outcome=outcome)
                self.write("agent", "node", fact.subject_id, "action-ended", ended)
            case ChecksRequested(request_id=request, checks=checks):
                results = tuple(
                    CheckResult(node=fact.subject_id, check=one.check, outcome=self.passes) for one in checks
                )
                reported = ChecksReported(request_id=request, results=results)
                self.write("agent", "node", fact.subject_id, "checks-reported", reported)
            case _:
                pass

    # --- what is believed --------------------------------------------------------------------------------------------

    def unit(self, kind: str, name: str) -> Unit | None:
        return self.core.verdicts.state.units.get((kind, name))

    def phase(self, kind: str, name: str) -> HealthPhase:
        unit = self.unit(kind, name)
        return unit.phase if unit is not None else HealthPhase.HEALTHY

    def names(self, since: int = 0) -> list[str]:
        return [fact.name for fact in self.log[since:]]

    def recovered(self) -> "VirtualHealth":
        """Another instance, from health's own snapshot and the others' parts of the log."""
        other = VirtualHealth(self.config, now=self.now, gpus=self.gpus)
        others = [fact for fact in self.log if fact.name in ("joined", "routed", "placed")]
        recover(other.core, [*others, *self.snapshot()])
        other.log, other.seq = list(self.log), self.seq
        return other
