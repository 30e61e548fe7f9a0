"""Pods that objects create themselves: which pod is which slot of an attempt.

Implements `muster.agent.core.kubernetes.ports.AdoptedPods`. An object that can be suspended creates its pods when it is
unsuspended; ordinary pods exist already.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from typing_extensions import override

from muster.agent.core.cluster import CreatePods
from muster.agent.core.kubernetes.calls import Kind, Merge, Outcome, Refused
from muster.agent.core.kubernetes.names import COMPLETION_INDEX, PodKey
from muster.agent.core.kubernetes.ports import AdoptedPods, AdoptionWatcher
from muster.agent.core.kubernetes.views import NOT_SEEN, End, PodView
from muster.agent.core.kubernetes.worklist import Purpose, Worklist
from muster.agent.core.workload_values import WorkloadKind
from muster.agent.core.workloads.pod_shapes import small_number
from muster.agent.core.workloads.showing import hold, let_go
from muster.agent.core.workloads.workloads import Workloads
from muster.core import Instant, after
from muster.schemas.job import REPLICAS_MAX, WorkloadRef

JOB_SET = "jobset.sigs.k8s.io/jobset-name"
JOB_SET_GROUP = "jobset.sigs.k8s.io/replicatedjob-name"
JOB_SET_REPLICAS = "jobset.sigs.k8s.io/replicatedjob-replicas"
JOB_SET_INDEX = "jobset.sigs.k8s.io/job-index"
MPI_JOB = "training.kubeflow.org/job-name"
MPI_ROLE = "training.kubeflow.org/job-role"
MPI_INDEX = "training.kubeflow.org/replica-index"

Place = tuple[int, int]
"""Group and replica."""
_BY_NAME = frozenset(kind.value for kind in WorkloadKind)
_KINDS = {WorkloadKind.JOB: Kind.JOBS, WorkloadKind.JOB_SET: Kind.JOB_SETS, WorkloadKind.MPI_JOB: Kind.MPI_JOBS}


@dataclass(frozen=True, slots=True, eq=False)
class ObjectRequest:
    """A request to an object."""

    call: Merge
    order: CreatePods
    """The attempt of the request."""
    lets_go: bool = False
    """Whether the object may create its pods."""


@dataclass(frozen=True, slots=True)
class PatchObject(Purpose):
    """A call that patches the object of this uid."""

    uid: str
    request: ObjectRequest | None = field(default=None, compare=False, repr=False)


class ObjectRequests:
    """Requests to objects: one patch at a time each, and finally the newest.

    Concurrent patches of one object could be applied in any order, so a newer request waits for the outcome of the
    patch in progress. The owner serves `PatchObject` on `worklist`.
    """

    def __init__(self, worklist: Worklist) -> None:
        self._worklist = worklist
        self._newest: dict[str, ObjectRequest] = {}

    def send(self, uid: str, request: ObjectRequest) -> None:
        """Request a change of the object, replacing one that is not sent yet."""
        self._newest[uid] = request
        self._ask(uid)

    def withdraw_letting_go(self, uid: str) -> None:
        """Drop a request to unsuspend that is not sent yet."""
        request = self._newest.get(uid)
        if request is not None and request.lets_go:
            del self._newest[uid]
            self._worklist.cancel(PatchObject(uid))

    def answered(self, purpose: PatchObject, outcome: Outcome) -> ObjectRequest | None:
        """Take the outcome of a patch; return the request if it is the newest and was refused."""
        uid, request = purpose.uid, purpose.request
        if request is None or self._newest.get(uid) is not request:
            self._ask(uid)
            return None
        del self._newest[uid]
        return request if isinstance(outcome, Refused) else None

    def clear(self) -> None:
        """Forget everything, because another process leads; the worklist does, too."""
        self._newest.clear()

    def _ask(self, uid: str) -> None:
        self._worklist.cancel(PatchObject(uid))  # what waits is out of date; what is under way is not repeated
        request = self._newest.get(uid)
        if request is not None:  # turned away while another is under way, whose outcome brings it here again
            self._worklist.ask(PatchObject(uid, request), request.call)


class WorkloadPods(AdoptedPods):
    """Adopted pods; objects are unsuspended and suspended by calls on `worklist`."""

    def __init__(self, worklist: Worklist, workloads: Workloads) -> None:
        self._watcher: AdoptionWatcher | None = None
        self._requests = ObjectRequests(worklist)
        worklist.serve(self, PatchObject)
        self._workloads = workloads
        self._held: dict[tuple[str, int], bool] = {}
        """Attempts that end by their object, and whether it can be suspended."""
        self._by_arrival: dict[tuple[str, int], dict[str, Place]] = {}
        """Places of pods without an index, by attempt and uid."""

    @override
    @property
    def has_news(self) -> bool:
        return self._workloads.has_news

    @override
    def seen(self, pod: PodView) -> None:
        self._workloads.see_pod(pod)

    @override
    def gone(self, pod: PodView) -> None:
        self._workloads.lose_pod(pod.uid)

    @override
    def synced(self) -> None:
        self._workloads.all_read()

    @override
    def refusal(self, order: CreatePods) -> str:
        """Return why the job must have no pods, by this agent's own record of the object.

        Pods of such a job may use Secrets, claims and the service account of the object's namespace. So a job from
        elsewhere must belong to an object that asked for it.
        """
        if order.origin is None or self._is_asked(order):
            return ""
        return f"{order.origin.title} of {order.origin.cluster} never asked for this job here"

    @override
    def makes_own_pods(self, order: CreatePods) -> bool:
        return order.origin is not None and _kind(order.origin).makes_pods

    @override
    def keys_of_order(self, order: CreatePods) -> tuple[str, ...]:
        origin = order.origin
        if origin is None:
            return ()
        match _kind(origin):
            case WorkloadKind.MUSTER_JOB:
                return ()
            case WorkloadKind.POD:
                return origin.members
            case WorkloadKind.JOB_SET | WorkloadKind.MPI_JOB:
                return (_named(origin.kind, origin.namespace, origin.name),)
            case _:
                return (origin.uid,)

    @override
    def keys_of_pod(self, pod: PodView) -> tuple[str, ...]:
        keys, labels = [pod.uid], dict(pod.labels)
        if pod.owner is not None:
            keys.append(pod.owner.uid)
        for kind, label in ((WorkloadKind.JOB_SET, JOB_SET), (WorkloadKind.MPI_JOB, MPI_JOB)):
            if label in labels:
                keys.append(_named(kind.value, pod.namespace, labels[label]))
        return tuple(keys)

    @override
    def place_of(self, order: CreatePods, pod: PodView) -> tuple[int, int] | None:
        """Return the place of a pod; terminating pods, and ones that failed elsewhere, belong to an earlier attempt."""
        if pod.ends_at or (pod.end is not None and _failed_before(order, pod.end)) or not self._is_asked(order):
            return None
        place = self._place(order, pod)
        if place is None or pod.end is None or pod.end.succeeded:
            return place
        nodes = {(slot.group, slot.replica): slot.node for slot in order.slots}
        return place if nodes.get(place) == pod.node else None

    @override
    def begin(self, order: CreatePods, now: Instant) -> None:
        origin = order.origin
        if origin is not None and (kind := _kind(origin)) in _KINDS:
            body = let_go(kind, origin.uid, job_id=order.job_id, attempt=order.attempt)
            call = Merge(_KINDS[kind], origin.namespace, origin.name, dict(body))
            self._requests.send(origin.uid, ObjectRequest(call, order, lets_go=True))

    @override
    def stop(self, order: CreatePods, *, grace_s: float, now: Instant) -> bool:
        """Suspend the object; its pods have the grace of the object.

        An attempt that ends by itself, or with its node, is not suspended: the object may continue or retry. Nor is an
        object that is gone or being deleted, whose pods may remain (a Job deleted without a policy leaves them), or one
        that cannot be suspended.
        """
        origin, key = _origin(order), (order.job_id, order.attempt)
        kind, record = _kind(origin), self._workloads.log.of_job(order.job_id)
        view = self._workloads.views.get(origin.uid)
        is_there = view is not None and not view.deleting
        if not self._is_asked(order):
            return False
        self._requests.withdraw_letting_go(origin.uid)  # what was not let go yet waits for the next attempt
        if kind not in _KINDS or record is None or not record.standing.stopping or not is_there:
            self._by_arrival.pop(key, None)
            return False
        if key not in self._held:
            self._held[key] = True
            self._by_arrival.pop(key, None)
            body = hold(kind, origin.uid, job_id=order.job_id)
            call = Merge(_KINDS[kind], origin.namespace, origin.name, dict(body))
            self._requests.send(origin.uid, ObjectRequest(call, order))
        return self._held[key]

    @override
    def forget(self, order: CreatePods) -> None:
        key = (order.job_id, order.attempt)
        self._held.pop(key, None)
        self._by_arrival.pop(key, None)

    @override
    def clear(self) -> None:
        """Forget requests to objects; they are made again."""
        self._workloads.forget_views()
        self._requests.clear()
        self._held.clear()
        self._by_arrival.clear()

    @override
    def watched_by(self, watcher: AdoptionWatcher) -> None:
        self._watcher = watcher

    def _is_asked(self, order: CreatePods) -> bool:
        """Return whether the job's object asked for it, by this agent's record in the log."""
        record = self._workloads.log.of_job(order.job_id)
        return record is not None and record.asked.origin == order.origin

    def answered(self, purpose: PatchObject, outcome: Outcome, now: Instant) -> None:
        """Continue after a patch."""
        request = self._requests.answered(purpose, outcome)
        if request is not None and isinstance(outcome, Refused):
            if request.lets_go:
                self._not_let_go(request.order, outcome, now)
            else:
                self._not_held(request.order, outcome)

    def _not_let_go(self, order: CreatePods, refusal: Refused, now: Instant) -> None:
        """Refuse the gang of an object that cannot be unsuspended: it gives up its place."""
        if self._watcher is not None:
            first = order.slots[0]
            key = PodKey(order.job_id, order.attempt, first.group, first.replica)
            reason = f"{_origin(order).title} cannot be let go: {refusal.message}"
            self._watcher.is_refused(key, now, reason=reason)

    def _not_held(self, order: CreatePods, refusal: Refused) -> None:
        """Have pods ended one by one; those that the object creates in their place are not bound."""
        key = (order.job_id, order.attempt)
        if key in self._held and self._watcher is not None:
            self._held[key] = False
            self._watcher.goes_on(key, reason=f"{_origin(order).title} cannot be held: {refusal.message}")

    def _place(self, order: CreatePods, pod: PodView) -> Place | None:
        origin, labels = _origin(order), dict(pod.labels)
        match _kind(origin):
            case WorkloadKind.POD:
                return _places(order)[origin.members.index(pod.uid)] if pod.uid in origin.members else None
            case WorkloadKind.JOB:
                index = labels.get(COMPLETION_INDEX)
                return _numbered(order, 0, index) if index is not None else self._arrived(order, pod)
            case WorkloadKind.JOB_SET:
                return _of_job_set(order, labels)
            case WorkloadKind.MPI_JOB:
                group = _group(order, labels.get(MPI_ROLE, ""))
                return None if group is None else _numbered(order, group, labels.get(MPI_INDEX, "0"))
            case _:
                return None

    def _arrived(self, order: CreatePods, pod: PodView) -> Place | None:
        """Return the first free place: pods of a Job without indexes are equal."""
        taken = self._by_arrival.setdefault((order.job_id, order.attempt), {})
        if pod.uid in taken:
            return taken[pod.uid]
        held = set(taken.values())
        wanted = [place for place in _places(order) if place not in held]
        if not wanted:
            return None
        nodes = {(slot.group, slot.replica): slot.node for slot in order.slots}
        same_node = (place for place in wanted if nodes[place] == pod.node)  # bound before this agent led
        taken[pod.uid] = next(same_node, wanted[0])
        return taken[pod.uid]


def _failed_before(order: CreatePods, end: End) -> bool:
    """Return whether the pod ended before this attempt was placed. Kubelets report whole seconds."""
    return not end.succeeded and end.finished_at > NOT_SEEN and after(end.finished_at, 1.0) <= order.at


def _origin(order: CreatePods) -> WorkloadRef:
    assert order.origin is not None, "only objects make pods themselves"
    return order.origin


def _kind(origin: WorkloadRef) -> WorkloadKind:
    """Return the kind of the object; an unknown kind never asked for a job, and creates no pods."""
    return WorkloadKind(origin.kind) if origin.kind in _BY_NAME else WorkloadKind.MUSTER_JOB


def _named(kind: str, namespace: str, name: str) -> str:
    return f"{kind}/{namespace}/{name}"


def _places(order: CreatePods) -> list[Place]:
    """Return all places of the job, with or without a slot, in the order of the object's pods."""
    groups = enumerate(order.spec.task_groups)
    return [(group, replica) for group, shape in groups for replica in range(shape.replicas)]


def _group(order: CreatePods, name: str) -> int | None:
    names = [group.name for group in order.spec.task_groups]
    return names.index(name) if name in names else None


def _numbered(order: CreatePods, group: int, index: str) -> Place | None:
    number = small_number(index, most=order.spec.task_groups[group].replicas - 1)
    return None if number is None else (group, number)


def _of_job_set(order: CreatePods, labels: Mapping[str, str]) -> Place | None:
    """Return the Job and index of a replica: pods of Job 0 come first."""
    group = _group(order, labels.get(JOB_SET_GROUP, ""))
    said = (labels.get(label, "") for label in (JOB_SET_REPLICAS, JOB_SET_INDEX, COMPLETION_INDEX))
    jobs, job, index = (small_number(one, most=REPLICAS_MAX) for one in said)
    if group is None or jobs is None or job is None or index is None:
        return None
    each = order.spec.task_groups[group].replicas // max(1, jobs)
    return _numbered(order, group, str(job * each + index)) if index < each else None
