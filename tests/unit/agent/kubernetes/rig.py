"""A Kubernetes cluster's core under a test's hands: calls are taken and answered one by one, views are fed."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from muster.agent.core.cluster import CreatePods, DeletePods, Observation, PodsExitedSeen, ResizePods
from muster.agent.core.kubernetes.calls import Bind, Call, Create, Done, Outcome, Refused
from muster.agent.core.kubernetes.cluster import ClusterOptions, KubernetesCluster
from muster.agent.core.kubernetes.names import SCHEDULER_NAME, PodKey, pod_name
from muster.agent.core.kubernetes.views import End, Member, NodeView, PodView, Requests
from muster.agent.core.kubernetes.worklist import Task
from muster.core import NS_PER_S, Instant
from muster.kube.objects import JsonObject
from muster.schemas.facts.job import PodsExited
from muster.schemas.job import JobSpec, Slot, TaskGroup

JOB = "J" * 26
SPACE = "jobs"
GPU = "nvidia.com/gpu"


def at(seconds: float) -> Instant:
    return Instant(round((1_700_000_000 + seconds) * NS_PER_S))


def slot(replica: int = 0, *, node: str = "", group: int = 0) -> Slot:
    return Slot(group=group, replica=replica, node=node or f"n{replica}", gpus=1)


def order(*slots: Slot, job_id: str = JOB, attempt: int = 1, groups: Sequence[str] = ("main",)) -> CreatePods:
    shapes = tuple(TaskGroup(name=name, gpus=1, replicas=8) for name in groups)
    spec = JobSpec(name="job", team="blue", task_groups=shapes)
    return CreatePods(job_id, attempt, at(0), slots or (slot(),), spec)


def key(replica: int = 0, *, job_id: str = JOB, attempt: int = 1, group: int = 0) -> PodKey:
    return PodKey(job_id, attempt, group, replica)


def pod(of: PodKey | None = None, **fields: object) -> PodView:
    """A pod of Muster as it is seen, unbound unless said otherwise."""
    of = of or key()
    member = Member("atlas", PodKey(of.job_id, of.attempt, of.group, of.replica))
    view = PodView(SPACE, pod_name(of), f"uid-{pod_name(of)}", scheduler=SCHEDULER_NAME, member=member)
    return replace(view, **fields)  # type: ignore[arg-type] - fields of a view


def node(name: str, *, gpus: int = 8, **fields: object) -> NodeView:
    offer = Requests(64_000, 1024 * 256, ((GPU, gpus),))
    return replace(NodeView(name, f"uid-{name}", offer, 64_000, ready=True), **fields)  # type: ignore[arg-type]


def failed(reason: str = "", code: int = 0, **fields: object) -> End:
    return replace(End(succeeded=False, exit_code=code, reason=reason), **fields)  # type: ignore[arg-type]


class Manifests:
    """Implements `ports.Manifests`."""

    makes_check_pods = False

    def namespace(self, order: CreatePods) -> str:
        return SPACE

    def pod(self, order: CreatePods, slot: Slot, peers: Sequence[Slot]) -> JsonObject:
        return {"kind": "Pod", "metadata": {"name": pod_name(key(slot.replica, group=slot.group))}}

    def check_pod(self, order: CreatePods, slot: Slot, peers: Sequence[Slot]) -> JsonObject:
        raise NotImplementedError("pods are not checked by others here")


@dataclass
class Rig:
    """now_s moves only by `pass_time`. calls: taken and not answered."""

    cluster: KubernetesCluster = field(
        default_factory=lambda: KubernetesCluster(
            ClusterOptions(cluster="atlas", namespace=SPACE, bind_s=60.0, lost_s=40.0, kept_s=300.0), Manifests()
        )
    )
    now_s: float = 0.0
    tasks: list[Task] = field(default_factory=list)

    @property
    def now(self) -> Instant:
        return at(self.now_s)

    def ready(self, *nodes: NodeView) -> "Rig":
        """All was seen; the log knows these nodes."""
        for one in nodes or (node("n0"), node("n1"), node("n2")):
            self.cluster.node_seen(one, self.now)
        self.cluster.synced()
        for seen in self.cluster.observe(self.now):
            self.cluster.acknowledge(seen, self.now)
        return self

    def see(self, *views: PodView) -> None:
        for view in views:
            self.cluster.pod_seen(view, self.now)
        self.cluster.settle(self.now)

    def lose(self, view: PodView) -> None:
        self.cluster.pod_gone(view)
        self.cluster.settle(self.now)

    def pass_time(self, seconds: float) -> None:
        self.now_s += seconds
        self.cluster.settle(self.now)

    def calls(self) -> list[Call]:
        """Everything that is to be done now and was not taken before."""
        self.cluster.settle(self.now)
        before = len(self.tasks)
        while (task := self.cluster.take(self.now)) is not None:
            self.tasks.append(task)
        return [task.call for task in self.tasks[before:]]

    def answer(self, outcome: Outcome | None = None, *, call: Call | None = None) -> None:
        """Answer all calls that were taken, or this one; as done unless said otherwise."""
        answered = [task for task in self.tasks if call is None or task.call is call]
        self.tasks = [task for task in self.tasks if task not in answered]
        for task in answered:
            self.cluster.finished(task, outcome or self._done(task.call), self.now)
        self.cluster.settle(self.now)

    def _done(self, call: Call) -> Outcome:
        if isinstance(call, Create):
            return Done({"metadata": {"uid": f"uid-{call.name}"}})
        return Done()

    def create(self, wanted: CreatePods) -> list[PodView]:
        """Have the attempt's pods created and bound; as they are seen then."""
        self.cluster.carry_out(wanted)
        created = self.calls()
        assert all(isinstance(call, Create) for call in created), created
        self.answer()
        bound = self.calls()
        assert all(isinstance(call, Bind) for call in bound), bound
        self.answer()
        return [
            pod(key(one.replica, job_id=wanted.job_id, attempt=wanted.attempt, group=one.group), node=one.node)
            for one in wanted.slots
        ]

    def run(self, wanted: CreatePods) -> list[PodView]:
        """The same until they run and the log has that."""
        running = [replace(view, phase="Running") for view in self.create(wanted)]
        self.see(*running)
        (started,) = self.observe()
        self.cluster.acknowledge(started, self.now)
        return running

    def observe(self) -> Sequence[Observation]:
        return self.cluster.observe(self.now)

    def exit(self) -> PodsExited:
        """The one exit that there is to tell."""
        (seen,) = (seen for seen in self.observe() if isinstance(seen, PodsExitedSeen))
        return seen.exited

    def delete(self, *, grace_s: float = 0.0, evict: bool = False, lost_node: str = "") -> None:
        self.cluster.carry_out(DeletePods(JOB, 1, self.now, lost_node, grace_s, evict))

    def resize(self, *slots: Slot) -> None:
        self.cluster.carry_out(ResizePods(JOB, 1, self.now, slots))


REFUSED = Refused(409, "Conflict", "pod is already assigned to a node")
