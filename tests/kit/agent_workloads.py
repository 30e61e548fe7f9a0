"""Objects that ask to run, and an agent that sees them: the gateway's and the federation's answers are the test's."""

from kit.agent import QUICK, VirtualAgent, fleet_of
from kit.log import a_fact
from muster.agent.core.cluster import CreatePods
from muster.agent.core.core import AgentCore
from muster.agent.core.simulated import SimulatedCluster
from muster.agent.core.workload_values import Shown, Unfit, WorkloadKind, WorkloadPolicy, WorkloadView
from muster.agent.core.workloads.workloads import Workloads
from muster.core import Fact
from muster.schemas.facts.control import ClusterDescribed
from muster.schemas.facts.job import JobPlaced, JobQueued, JobRouted, JobRunning
from muster.schemas.facts.workload import JobRefused, WorkloadSubmitRequested
from muster.schemas.job import Job, JobSpec, Slot, TaskGroup

POLICY = WorkloadPolicy(cluster="local", teams={"ns-red": "red", "blue": "blue", "physics": "physics"})
SPEC = JobSpec(name="train", team="blue", task_groups=(TaskGroup(gpus=1),))
UNFIT = Unfit("the request names no kind of GPU", field="spec.containers[0]", cure="Name one.")


def seen(uid: str = "u-1", *, asks: JobSpec | Unfit | None = SPEC, **rest: object) -> WorkloadView:
    values: dict[str, object] = {
        "kind": WorkloadKind.MUSTER_JOB,
        "api_version": "muster.dev/v1alpha1",
        "namespace": "blue",
        "name": f"train-{uid}",
        "uid": uid,
        "generation": 1,
        "asks": asks,
        **rest,
    }
    return WorkloadView(**values)  # type: ignore[arg-type]


def has_asked(workloads: Workloads, order: CreatePods) -> CreatePods:
    """The order itself; the object that it stands for asked for this job, as the agent wrote into the log."""
    assert order.origin is not None, "a person's job has no object"
    asked = WorkloadSubmitRequested(
        job_id=order.job_id, spec=order.spec, principal="kubernetes:any", origin=order.origin
    )
    uid = order.origin.uid
    workloads.apply(a_fact("agent", "workload", uid, "submit-requested", asked, cluster="local", fact_id=uid))
    return order


class WatchingAgent(VirtualAgent):
    """An agent whose workloads the test sees for it."""

    def __init__(self) -> None:
        super().__init__()
        fleet = fleet_of()
        self.new_core = lambda: AgentCore(SimulatedCluster(fleet, QUICK), Workloads(POLICY))
        self.core = self.new_core()
        self.settle()
        self.describe("kubelet")
        self.core.workloads.read(WorkloadKind.MUSTER_JOB)

    def describe(self, devices: str) -> None:
        described = ClusterDescribed(backend="kubernetes", devices=devices)
        self.write("agent", "cluster", "local", "described", described)

    @property
    def workloads(self) -> Workloads:
        return self.core.workloads

    def see(self, view: WorkloadView) -> None:
        self.workloads.see(view)
        self.settle()

    def lose(self, uid: str) -> None:
        self.workloads.lose(uid)
        self.settle()

    def shows(self, uid: str = "u-1", phase: str = "succeeded", **rest: object) -> None:
        """The object shows this of its job."""
        record = self.workloads.records[uid]
        self.see(seen(uid, shown=Shown(job_id=record.job_id, phase=phase), **rest))

    def asked(self, uid: str = "u-1") -> WorkloadSubmitRequested:
        """The last wish of this object, as the log has it."""
        payload = self.wish(uid).payload
        assert isinstance(payload, WorkloadSubmitRequested)
        return payload

    def wish(self, uid: str = "u-1") -> Fact:
        """The same as a fact."""
        return [fact for fact in self.facts("submit-requested") if fact.subject_id == uid][-1]

    def accept(self, uid: str = "u-1") -> Job:
        """The gateway accepts it, and the federation sends it here."""
        request = self.asked(uid)
        job = Job(
            id=request.job_id, spec=request.spec, principal=request.principal, idempotency_key=uid, body_hash="",
            trace=request.trace, origin=request.origin,
        )  # fmt: skip
        self.write("federation", "job", job.id, "routed", JobRouted(job=job, cluster="local"))
        self.write("scheduler", "job", job.id, "queued", JobQueued(queue="blue", attempt=1))
        self.settle()
        return job

    def refuse(self, uid: str = "u-1", *, wish: str = "") -> None:
        """The gateway refuses the last wish. wish: another one."""
        refused = JobRefused(
            workload=uid, cluster="local", reason="unknown queue", field="queue", cure="Make it.",
            wish=wish or self.wish(uid).id,
        )  # fmt: skip
        self.write("federation", "job", self.asked(uid).job_id, "refusal-forwarded", refused)
        self.settle()

    def start(self, job: Job, *nodes: str, attempt: int = 1) -> None:
        slots = tuple(Slot(group=0, replica=index, node=node, devices=(0,)) for index, node in enumerate(nodes))
        self.write("scheduler", "job", job.id, "placed", JobPlaced(attempt=attempt, slots=slots), trace=job.trace)
        self.write("scheduler", "job", job.id, "running", JobRunning(attempt=attempt))

    def restart(self) -> None:
        """kill -9: the log is folded anew, and nothing is seen yet."""
        self.crash()

    def names(self, uid: str = "u-1") -> list[str]:
        """Facts of the object, in order."""
        return [fact.name for fact in self.log if fact.kind == "workload" and fact.subject_id == uid]
