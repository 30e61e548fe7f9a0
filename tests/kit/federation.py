"""The federation's core over its own log in virtual time."""

from kit.log import START, VirtualService, a_fact
from muster.core import Fact
from muster.core.virtual import recover
from muster.federation.core import FederationCore, MemberPlan
from muster.federation.core.copies import copy_of
from muster.schemas import ids
from muster.schemas.devices import ComposabilitySpec
from muster.schemas.facts.composability import ComposeRequested, DecomposeRequested, DetachRequested
from muster.schemas.facts.job import JobCancelRequested, JobFinished, JobSubmitted
from muster.schemas.facts.job_requests import Ask, JobEditRequested, JobHoldRequested, JobPriorityRequested
from muster.schemas.facts.queue import QueueChangeRequested, QueueSpec
from muster.schemas.facts.reservation import ReservationSpec, ReserveEndRequested, ReserveRequested
from muster.schemas.job import Job, JobSpec, TaskGroup
from muster.schemas.registry import StreamRole
from muster.schemas.routing import RoutingPolicy

MEMBERS = (MemberPlan("atlas"),)


def job(name: str, **spec: object) -> Job:
    return Job(
        id=ids.job_id(team="lab", principal="ada", idempotency_key=name),
        spec=JobSpec.model_validate({"name": name, "team": "lab", "task_groups": (TaskGroup(gpus=1),), **spec}),
        principal="ada",
        idempotency_key=name,
        body_hash="",
        trace=ids.traceparent(ids.trace_id(name), ids.span_id(name)),
    )


class VirtualFederation(VirtualService[FederationCore]):
    """Facts are about no cluster, unless their drafts name one."""

    def __init__(
        self,
        *,
        members: tuple[MemberPlan, ...] = MEMBERS,
        policy: RoutingPolicy | None = None,
        margin_s: float = 10.0,
        checkpoint_every_facts: int = 100_000,
    ) -> None:
        self.options = {"members": members, "policy": policy, "margin_s": margin_s}
        core = self.new_core(checkpoint_every_facts=checkpoint_every_facts)
        super().__init__("federation", core, cluster="", role=StreamRole.FED)
        self.reports = 0

    def new_core(self, **rest: object) -> FederationCore:
        """One that has folded nothing."""
        return FederationCore(**self.options, **rest)  # type: ignore[arg-type]

    def submit(self, one: Job) -> None:
        self.write("gateway", "job", one.id, "submitted", JobSubmitted(job=one), trace=one.trace)

    def cancel(self, one: Job) -> None:
        self.write("gateway", "job", one.id, "cancel-requested", JobCancelRequested(principal="ada", reason="enough"))

    def ask(self, one: Job, ask: Ask, *, priority: int = 50, reason: str = "") -> Fact:
        if ask is Ask.PRIORITY:
            wanted = JobPriorityRequested(principal="ada", priority=priority, reason=reason)
            return self.write("gateway", "job", one.id, "priority-requested", wanted)
        hold = JobHoldRequested(principal="ada", reason=reason)
        return self.write("gateway", "job", one.id, f"{ask.value}-requested", hold)

    def requeue(self, one: Job) -> Fact:
        return self.write("gateway", "job", one.id, "requeue-requested", JobHoldRequested(principal="ada"))

    def edit(self, one: Job, **fields: object) -> Fact:
        asked = JobEditRequested.model_validate({"principal": "ada", **fields})
        return self.write("gateway", "job", one.id, "edit-requested", asked)

    def change(self, name: str) -> None:
        payload = QueueChangeRequested(spec=QueueSpec(name=name), principal="root")
        self.write("gateway", "queue", name, "change-requested", payload)

    def reserve(self, name: str) -> None:
        spec = ReservationSpec(name=name, gpus=8, starts_at=START, duration_s=3600)
        self.write("gateway", "reservation", name, "reserve-requested", ReserveRequested(spec=spec, principal="root"))

    def end(self, name: str) -> None:
        payload = ReserveEndRequested(principal="root", reason="enough")
        self.write("gateway", "reservation", name, "end-requested", payload)

    def compose(self, name: str, *, cluster: str = "") -> Fact:
        spec = ComposabilitySpec(model="H100", size=2)
        payload = ComposeRequested(spec=spec, principal="root", may_force=True, cluster=cluster)
        return self.write("gateway", "composability", name, "compose-requested", payload, trace="t-compose")

    def decompose(self, name: str, *, cluster: str = "") -> Fact:
        payload = DecomposeRequested(principal="root", reason="enough", force=True, may_force=True, cluster=cluster)
        return self.write("gateway", "composability", name, "decompose-requested", payload)

    def detach(self, uuid: str, *, cluster: str = "") -> Fact:
        payload = DetachRequested(principal="root", cluster=cluster)
        return self.write("gateway", "device", uuid, "detach-requested", payload)

    def report(self, one: Job, name: str = "succeeded", *, cluster: str = "atlas") -> Fact:
        """A cluster's terminal fact, as it stands in FED_UP."""
        self.reports += 1
        end = JobFinished(attempt=1)
        return a_fact(
            "scheduler", "job", one.id, name, end, seq=self.reports, time=START, cluster=cluster,
            fact_id=f"r{self.reports}",
        )  # fmt: skip

    def copy(self, report: Fact) -> None:
        draft = copy_of(report)
        assert draft is not None
        self.append("federation", draft)

    def names(self, one: Job) -> list[str]:
        return [fact.name for fact in self.log if fact.subject_id == one.id and fact.writer == "federation"]

    def recover(self) -> FederationCore:
        """A core that folded a checkpoint of now."""
        return recover(self.new_core(), self.snapshot())


def belief(core: FederationCore) -> object:
    """What must be equal in two cores that folded the same."""
    state = core.state
    return {
        "state": {(draft.kind, draft.subject_id): draft.payload for draft in core.snapshot()},
        "ended": list(state.ended),
        "open": {job_id for job_id in state.dirty if core._answer(state.jobs[job_id])},
    }
