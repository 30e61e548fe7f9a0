"""Attempts whose pods others make, and whose places pods of ours check before: one story, led by one leader or by many.

What the API server holds is `there`; what the log has is `log`, from which another leader begins.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from kit.agent_workloads import POLICY, has_asked
from muster.agent.core.cluster import (
    ChecksSeen,
    CreatePods,
    DeletePods,
    Effect,
    Observation,
    OpenGate,
    PodsObservation,
    PodsStartedSeen,
)
from muster.agent.core.kubernetes.calls import Bind, Call, Create, Delete, Done, Kind, Merge, Outcome
from muster.agent.core.kubernetes.cluster import ClusterOptions, KubernetesCluster
from muster.agent.core.kubernetes.names import COMPLETION_INDEX, PodKey, pod_name
from muster.agent.core.kubernetes.options import PodPolicy
from muster.agent.core.kubernetes.orders import PodOrders
from muster.agent.core.kubernetes.ports import AuxiliaryObjects
from muster.agent.core.kubernetes.views import End, Member, Owner, PodView
from muster.agent.core.kubernetes.worklist import Worklist
from muster.agent.core.workload_values import WorkloadKind
from muster.agent.core.workloads.adopted_pods import WorkloadPods
from muster.agent.core.workloads.workloads import Workloads
from muster.checks.report import dump
from muster.core import Instant
from muster.kube.objects import at as found_at
from muster.schemas.facts.operations import CheckOrder, CheckOutcome, CheckResult, PreflightPlan
from muster.schemas.job import JobSpec, Slot, TaskGroup, WorkloadRef
from unit.agent.kubernetes.rig import JOB, SPACE, Rig, at, node, slot

THEIRS = "physics"
"""Namespace of the object."""
PLAN = PreflightPlan(suite="quick", checks=(CheckOrder(check="device-count"), CheckOrder(check="gpu-health")))
PODS = PodPolicy(cluster="atlas", namespace=SPACE, preflight_image="tools:1")
MEMBERS = ("uid-g0", "uid-g1")
BIND_S = 60.0


def found(*outcomes: CheckOutcome) -> str:
    """A report on the plan."""
    pairs = zip(PLAN.checks, outcomes, strict=True)
    return dump([CheckResult(node="?", check=one.check, outcome=outcome) for one, outcome in pairs])


def check_key(replica: int, *, attempt: int = 1) -> PodKey:
    return PodKey(JOB, attempt, 0, replica, is_check=True)


def check_pod(replica: int, *, attempt: int = 1, **fields: object) -> PodView:
    """A pod that checks, as it is seen: bound."""
    key = check_key(replica, attempt=attempt)
    member = Member("atlas", PodKey(JOB, attempt, 0, replica, is_check=True))
    name = pod_name(key)
    view = PodView(SPACE, name, f"uid-{name}", node=f"n{replica}", scheduler="muster", member=member)
    return replace(view, **fields)  # type: ignore[arg-type] - fields of a view


def said(report: str = "", *, code: int = 0, reason: str = "") -> End:
    """How such a pod ends."""
    return End(succeeded=not code, exit_code=code, reason=reason, finished_at=at(5), said=report)


PASSED = said(found(CheckOutcome.PASS, CheckOutcome.PASS))


def adopted(replica: int, **fields: object) -> PodView:
    """A pod that the object's controller, or a person, made: unbound unless said otherwise."""
    view = PodView(
        THEIRS, f"g{replica}", f"uid-g{replica}", scheduler="muster", labels=((COMPLETION_INDEX, str(replica)),),
        owner=Owner("Job", "j", "u-1"),
    )  # fmt: skip
    return replace(view, **fields)  # type: ignore[arg-type] - fields of a view


def order(kind: WorkloadKind, slots: Sequence[Slot] = (), *, attempt: int = 1) -> CreatePods:
    members = MEMBERS if kind is WorkloadKind.POD else ()
    origin = WorkloadRef(
        cluster="local", api_version="v1", kind=kind.value, namespace=THEIRS, name="j", uid="u-1", members=members
    )
    group = TaskGroup(gpus=1, replicas=2, cpu_milli=500, memory_mib=512)
    spec = JobSpec(name="j", team="blue", task_groups=(group,))
    return CreatePods(JOB, attempt, at(0), tuple(slots) or (slot(0), slot(1)), spec, origin=origin, preflight=PLAN)


class Telling(AuxiliaryObjects):
    """Implements `ports.AuxiliaryObjects`. told: what was asked, and whether for pods of ours."""

    def __init__(self) -> None:
        self.told: list[tuple[str, bool]] = []

    def begin(self, order: CreatePods, now: Instant) -> None:
        self.told.append(("begin", order.origin is None))

    def prepare(self, order: CreatePods, slot: Slot, *, name: str, uid: str, now: Instant) -> bool:
        self.told.append(("prepare", order.origin is None))
        return True

    def release(self, order: CreatePods, slot: Slot, now: Instant) -> None:
        self.told.append(("release", order.origin is None))

    def end(self, order: CreatePods, now: Instant) -> None:
        self.told.append(("end", order.origin is None))


@dataclass
class Story:
    """kind: of the object. there: pods by name, as they are. Calls are answered as done, and done to `there`."""

    kind: WorkloadKind = WorkloadKind.JOB
    policy: PodPolicy = PODS
    there: dict[str, PodView] = field(default_factory=dict)
    log: list[Effect | tuple[Observation, Instant]] = field(default_factory=list)
    auxiliary: Telling = field(default_factory=Telling)
    rig: Rig = field(init=False)
    let_go: int = 0

    def __post_init__(self) -> None:
        self.rig = self._new_rig()
        self.rig.ready()

    def _new_rig(self) -> Rig:
        worklist = Worklist()
        workloads = Workloads(POLICY)
        has_asked(workloads, order(self.kind))
        adopted = WorkloadPods(worklist, workloads)
        options = ClusterOptions("atlas", SPACE, bind_s=BIND_S)
        return Rig(
            KubernetesCluster(
                options, PodOrders(self.policy), worklist=worklist, auxiliary=self.auxiliary, adopted=adopted
            )
        )

    def do(self, effect: Effect) -> None:
        self.log.append(effect)
        self.rig.cluster.carry_out(effect)

    def begin(self, *, attempt: int = 1) -> None:
        if self.kind is WorkloadKind.POD:
            self.appear(adopted(0), adopted(1))
        self.do(order(self.kind, attempt=attempt))

    def open(self) -> None:
        self.do(OpenGate(JOB, 1, self.rig.now))

    def stop(self, *, lost_node: str = "") -> None:
        self.do(DeletePods(JOB, 1, self.rig.now, lost_node))

    def appear(self, *views: PodView) -> None:
        """These are so now."""
        self.there.update({view.name: view for view in views})
        self.rig.see(*views)

    def vanish(self, *names: str) -> None:
        for name in names:
            self.rig.lose(self.there.pop(name))

    def relead(self) -> None:
        """Another process leads: it folds the log, and sees what is there."""
        now_s = self.rig.now_s
        self.rig = self._new_rig()
        self.rig.now_s = now_s
        for entry in self.log:
            if isinstance(entry, tuple):
                self.rig.cluster.acknowledge(*entry)
            else:
                self.rig.cluster.carry_out(entry)
        self._see_all()

    def lead_again(self) -> None:
        """The same process leads anew."""
        self.rig.cluster.reset()
        self.rig.tasks.clear()
        self._see_all()

    def _see_all(self) -> None:
        for view in self.there.values():
            self.rig.cluster.pod_seen(view, self.rig.now)
        for number in (0, 1, 2):
            self.rig.cluster.node_seen(node(f"n{number}"), self.rig.now)
        self.rig.cluster.synced()

    def work(self, *, keeps: Sequence[str] = ()) -> list[Call]:
        """Do everything that is asked for, until nothing more is. keeps: pods whose deletion takes its time."""
        made: list[Call] = []
        while calls := self.rig.calls():
            made += calls
            for call in calls:
                self.rig.answer(self._done(call), call=call)
            for call in calls:
                self._happen(call, keeps)
        return made

    def _done(self, call: Call) -> Outcome:
        return Done({"metadata": {"uid": f"uid-{call.name}"}} if isinstance(call, Create) else {})

    def _happen(self, call: Call, keeps: Sequence[str]) -> None:
        match call:
            case Create(kind=Kind.PODS):
                _, _, attempt, _, replica, _ = call.name.split("-")
                self.appear(check_pod(int(replica), attempt=int(attempt), node=""))
            case Bind():
                self.appear(replace(self.there[call.name], node=call.node))
            case Delete(kind=Kind.PODS) if call.name in self.there and call.name not in keeps:
                self.vanish(call.name)
            case Merge() if found_at(call.body, "spec", "suspend") is False:
                self.let_go += 1
                self.appear(*(adopted(number) for number in (0, 1) if f"g{number}" not in self.there))
            case _:
                pass

    def told(self) -> list[Observation]:
        """All that there is to tell of the job, which the log then has."""
        news: list[Observation] = []
        while seen := self.rig.observe():
            for one in seen:
                if isinstance(one, PodsObservation):
                    news.append(one)
                    self.log.append((one, self.rig.now))
                self.rig.cluster.acknowledge(one, self.rig.now)
        return news

    def checking(self) -> None:
        """Until the pods that check run, and the log has that."""
        self.begin()
        self.work()
        self.appear(check_pod(0, phase="Running"), check_pod(1, phase="Running"))
        (started,) = self.told()
        assert isinstance(started, PodsStartedSeen)

    def checked(self) -> None:
        """Until they passed, and the log has that."""
        self.checking()
        self.appear(*(check_pod(number, phase="Succeeded", end=PASSED) for number in (0, 1)))
        (seen,) = self.told()
        assert isinstance(seen, ChecksSeen)
        assert {one.outcome for one in seen.results} == {CheckOutcome.PASS}
