"""Health in virtual time, in a cluster whose scheduler, agent and exporters the test plays."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from muster.core import NS_PER_S, Draft, Fact, Instant, after
from muster.health.core.config import HealthConfig
from muster.health.core.core import HealthCore
from muster.health.core.units import Unit
from muster.health.rule_files import built_in_rules
from muster.schemas.base import Payload
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


@dataclass
class House:
    """Says facts, lets health decide, and keeps the log.

    answers: whether the scheduler answers requests to withhold at once. works: whether actions and checks succeed.
    """

    config: HealthConfig = CONFIG
    now: Instant = START
    gpus: int = 8
    answers: bool = True
    works: bool = True
    passes: CheckOutcome = CheckOutcome.PASS
    log: list[Fact] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.core = HealthCore(self.config)

    # --- what happens ------------------------------------------------------------------------------------------------

    def join(self, *nodes: str, labels: tuple[tuple[str, str], ...] = (), model: str = H100) -> None:
        for node in nodes:
            uuids = tuple(uuid(node, index) for index in range(self.gpus))
            joined = NodeJoined(cpu_milli=96_000, memory_mib=1_000_000, gpu_model=model, gpu_uuids=uuids, labels=labels)
            self.say("agent", "node", node, "joined", joined)

    def run(self, job: str, team: str, *nodes: str, devices: Iterable[int] = range(8)) -> None:
        spec = JobSpec(name="train", team=team, command=("run",), task_groups=(TaskGroup(replicas=len(nodes), gpus=8),))
        described = Job(id=job, spec=spec, principal="ann", idempotency_key="k", body_hash="h")
        routed = JobRouted(job=described, cluster="sim")
        self.say("federation", "job", job, "routed", routed)
        slots = tuple(Slot(group=0, replica=at, node=node, devices=tuple(devices)) for at, node in enumerate(nodes))
        self.say("scheduler", "job", job, "placed", JobPlaced(attempt=1, slots=slots))

    def fail(self, job: str, node: str) -> None:
        exited = PodsExited(attempt=1, outcome=PodsOutcome.FAILED, exit_code=1, node=node)
        self.say("agent", "job", job, "pods-exited", exited)

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
        self.core.verdicts.eyes.look(sample)

    def pages(
        self, node: str, *devices: DeviceSample, seconds: float, exporter: ExporterState = ExporterState.OK
    ) -> None:
        """The same page every 10 s for so long, and what health makes of it."""
        end = after(self.now, seconds)
        while self.now <= end:
            self.page(node, *devices, exporter=exporter)
            self.settle()
            self.now = after(self.now, 10)

    # --- the log -----------------------------------------------------------------------------------------------------

    def say(self, writer: str, kind: str, subject: str, name: str, payload: Payload) -> Fact:
        return self._append(writer, Draft(kind, subject, name, payload))

    def _append(self, writer: str, draft: Draft) -> Fact:
        seq = len(self.log) + 1
        fact = Fact(
            f"f{seq}", seq, self.now, "sim", writer, draft.kind, draft.subject_id, draft.name, draft.causes,
            draft.trace, draft.payload,
        )  # fmt: skip
        self.log.append(fact)
        self.core.apply(fact)
        return fact

    def settle(self, *, rounds: int = 60) -> list[Fact]:
        """Decide, and have the cluster answer, until there is nothing to say; what was said."""
        first = len(self.log)
        for _ in range(rounds):
            drafts = self.core.decide(self.now)
            said = [self._append("health", draft) for draft in drafts]
            for fact in said:
                self._answer(fact)
            if not drafts:
                return self.log[first:]
        raise AssertionError(f"health never stops: {[(one.kind, one.name) for one in self.log[-6:]]}")

    def _answer(self, fact: Fact) -> None:
        match fact.payload:
            case WithholdRequested(request_id=request) if self.answers:
                self.say("scheduler", fact.kind, fact.subject_id, "withheld", Withheld(request_id=request))
            case NodeActionRequested(request_id=request):
                outcome = ActionOutcome.DONE if self.works else ActionOutcome.FAILED
                ended = NodeActionEnded(request_id=request, outcome=outcome)
                self.say("agent", "node", fact.subject_id, "action-ended", ended)
            case ChecksRequested(request_id=request, checks=checks):
                results = tuple(
                    CheckResult(node=fact.subject_id, check=one.check, outcome=self.passes) for one in checks
                )
                reported = ChecksReported(request_id=request, results=results)
                self.say("agent", "node", fact.subject_id, "checks-reported", reported)
            case _:
                pass

    # --- what is believed --------------------------------------------------------------------------------------------

    def unit(self, kind: str, name: str) -> Unit | None:
        return self.core.verdicts.state.units.get((kind, name))

    def phase(self, kind: str, name: str) -> HealthPhase:
        unit = self.unit(kind, name)
        return unit.phase if unit is not None else HealthPhase.HEALTHY

    def said(self, name: str) -> list[Fact]:
        return [fact for fact in self.log if fact.name == name]

    def names(self, since: int = 0) -> list[str]:
        return [fact.name for fact in self.log[since:]]

    def recovered(self) -> "House":
        """Another instance, from health's own snapshot and the others' parts of the log."""
        other = House(config=self.config, now=self.now, gpus=self.gpus)
        for fact in self.log:
            if fact.name in ("joined", "routed", "placed"):
                other.core.apply(fact)
        for seq, draft in enumerate(self.core.snapshot(), start=1):
            other.core.apply(
                Fact(
                    f"s{seq}",
                    0,
                    self.now,
                    "sim",
                    "health",
                    draft.kind,
                    draft.subject_id,
                    draft.name,
                    (),
                    "",
                    draft.payload,
                )
            )
        other.log = list(self.log)
        return other
