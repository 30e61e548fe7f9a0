"""What is kept of the objects that are watched: a few fields each, so that 10,000 pods take megabytes, not hundreds.

A projection is a function of the object as the API server sends it; the reflectors apply it to every event, and what
compares equal to what is known is no change. Keep the views small, and free of what changes without meaning
(resourceVersion, heartbeats).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from muster.agent.core.kubernetes import names
from muster.agent.core.kubernetes.quantities import count, instant, mib_down, mib_up, milli
from muster.agent.core.workloads.guests import Guest
from muster.core import Instant
from muster.kube.objects import (
    JsonObject,
    at,
    integer,
    mapping,
    name_of,
    namespace_of,
    objects,
    strings,
    text,
    truth,
    uid_of,
)

NOT_SEEN = Instant(0)
UNNEEDED_TAINTS = frozenset({"ToBeDeletedByClusterAutoscaler", "DeletionCandidateOfClusterAutoscaler"})


@dataclass(frozen=True, slots=True)
class Requests:
    """What a pod asks of its node. extended: devices and other whole things, by resource name, sorted."""

    cpu_milli: int = 0
    memory_mib: int = 0
    extended: tuple[tuple[str, int], ...] = ()


NO_REQUESTS = Requests()


@dataclass(frozen=True, slots=True)
class Member:
    """Which pod of which attempt its labels say that it is."""

    cluster: str
    job_id: str
    attempt: int
    group: int
    replica: int

    @property
    def key(self) -> names.PodKey:
        """Without the cluster."""
        return names.PodKey(self.job_id, self.attempt, self.group, self.replica)


@dataclass(frozen=True, slots=True)
class Owner:
    """The controller that made a pod."""

    kind: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class End:
    """How a pod ended. exit_code: of its first container that failed, else 0. message: the pod's, or why that container
    ended ("OOMKilled"). says_done: its program declared itself done (termination message "done"), so that success
    counts also where it had been told to stop.

    finished_at, ran_s: of its containers, by the kubelet's clock; 0 where none ever ran.
    """

    succeeded: bool
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    finished_at: Instant = NOT_SEEN
    ran_s: float = 0.0
    says_done: bool = False
    disrupted: bool = False

    @property
    def told(self) -> str:
        """Why, in words; "" if nobody said."""
        return ": ".join(filter(None, (self.reason, self.message)))


@dataclass(frozen=True, slots=True)
class PodView:
    """A pod. member: of Muster's own labels, None for others'. labels, owner: kept only of pods that Muster shall bind
    and did not make.

    ends_at: until when it was asked to end, 0 if nobody asked; grace_s: that it was given. waiting: why its containers
    do not start ("ImagePullBackOff"), "" if nothing holds them up. devices: what the kubelet gave it, where it tells.
    plugin: of which sort of plugin it is, "" if of none; created_at: of a plugin's.
    """

    namespace: str
    name: str
    uid: str
    node: str = ""
    phase: str = "Pending"
    scheduler: str = ""
    requests: Requests = NO_REQUESTS
    member: Member | None = None
    end: End | None = None
    ends_at: Instant = NOT_SEEN
    grace_s: int = 0
    waiting: str = ""
    devices: tuple[str, ...] = ()
    checkpointed_at: Instant = NOT_SEEN
    labels: tuple[tuple[str, str], ...] = ()
    owner: Owner | None = None
    gated: bool = False
    guest: Guest | None = None
    plugin: str = ""
    created_at: Instant = NOT_SEEN

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.namespace, self.name

    @property
    def is_running(self) -> bool:
        """All containers were started and one runs."""
        return self.phase == "Running"


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node. allocatable: to pods; capacity_cpu_milli: with what is kept for the system. closed: why nothing new is to
    be placed there ("cordoned", "taint …"), "" if nothing speaks against. labels, annotations: those asked for.
    unneeded: the taint by which the Cluster Autoscaler says that it would remove the node.
    """

    name: str
    uid: str
    allocatable: Requests = NO_REQUESTS
    capacity_cpu_milli: int = 0
    ready: bool = False
    not_ready: str = ""
    closed: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    annotations: tuple[tuple[str, str], ...] = ()
    deleting: bool = False
    unneeded: str = ""

    def label(self, key: str) -> str:
        """Value of a label that was asked for, "" if the node has none."""
        return next((value for name, value in self.labels if name == key), "")

    def annotation(self, key: str) -> str:
        """The same of an annotation."""
        return next((value for name, value in self.annotations if name == key), "")


@dataclass(frozen=True, slots=True)
class PodProjection:
    """Makes a PodView. resource: what the device plugin calls a GPU, for `devices`. guest_of: reads what a pod asks.

    plugin_of: says of which sort of plugin a pod is (namespace, labels), "" for others.
    """

    resource: str = "nvidia.com/gpu"
    guest_of: Callable[[JsonObject], Guest | None] | None = None
    plugin_of: Callable[[str, Mapping[str, str]], str] | None = None

    def __call__(self, raw: JsonObject) -> PodView:
        """Raises nothing: what is absent counts as its default."""
        spec, status, labels = mapping(raw, "spec"), mapping(raw, "status"), strings(raw, "metadata", "labels")
        scheduler, member = text(spec, "schedulerName"), _member(labels)
        is_guest = member is None and scheduler == names.SCHEDULER_NAME
        plugin = self.plugin_of(namespace_of(raw), labels) if self.plugin_of is not None and member is None else ""
        return PodView(
            namespace=namespace_of(raw),
            name=name_of(raw),
            uid=uid_of(raw),
            node=text(spec, "nodeName"),
            phase=text(status, "phase"),
            scheduler=scheduler,
            requests=pod_requests(spec),
            member=member,
            end=_end(status),
            ends_at=instant(text(raw, "metadata", "deletionTimestamp")),
            grace_s=integer(raw, "metadata", "deletionGracePeriodSeconds"),
            waiting=_waiting(status),
            devices=_devices(status, self.resource),
            checkpointed_at=instant(text(raw, "metadata", "annotations", names.CHECKPOINT_ANNOTATION)),
            labels=tuple(sorted(_guest_labels(raw, labels))) if is_guest else (),
            owner=_owner(raw) if is_guest else None,
            gated=bool(objects(spec, "schedulingGates")),
            guest=self.guest_of(raw) if is_guest and self.guest_of is not None else None,
            plugin=plugin,
            created_at=instant(text(raw, "metadata", "creationTimestamp")) if plugin else NOT_SEEN,
        )


@dataclass(frozen=True, slots=True)
class NodeProjection:
    """Makes a NodeView. labels, annotations: that are kept. tolerated: keys of taints that Muster's pods tolerate."""

    labels: frozenset[str] = frozenset()
    annotations: frozenset[str] = frozenset()
    tolerated: frozenset[str] = frozenset()

    def __call__(self, raw: JsonObject) -> NodeView:
        """Raises nothing: what is absent counts as its default."""
        spec, status = mapping(raw, "spec"), mapping(raw, "status")
        ready, why = _readiness(status)
        return NodeView(
            name=name_of(raw),
            uid=uid_of(raw),
            allocatable=_offer(mapping(status, "allocatable")),
            capacity_cpu_milli=milli(at(status, "capacity", "cpu")),
            ready=ready,
            not_ready=why,
            closed=self._closed(spec),
            labels=_kept(strings(raw, "metadata", "labels"), self.labels),
            annotations=_kept(strings(raw, "metadata", "annotations"), self.annotations),
            deleting=bool(text(raw, "metadata", "deletionTimestamp")),
            unneeded=next((key for one in objects(spec, "taints") if (key := text(one, "key")) in UNNEEDED_TAINTS), ""),
        )

    def _closed(self, spec: JsonObject) -> str:
        if truth(spec, "unschedulable"):
            return "cordoned"
        for taint in objects(spec, "taints"):
            key, effect = text(taint, "key"), text(taint, "effect")
            is_ours = key in self.tolerated or key.startswith("node.kubernetes.io/")  # those follow readiness
            if effect in ("NoSchedule", "NoExecute") and not is_ours:
                return f"taint {key}:{effect}"
        return ""


def pod_requests(spec: JsonObject) -> Requests:
    """What the scheduler and the kubelet count: containers beside the largest init container, sidecars, overhead.

    As in k8s.io/component-helpers `resource.PodRequests`; pod-level resources (`spec.resources`) win where they stand.
    """
    cpu = memory = 0
    extended: dict[str, int] = {}
    for container in objects(spec, "containers"):
        asked = _asked(container)
        cpu, memory = cpu + asked.cpu_milli, memory + asked.memory_mib
        _add(extended, asked.extended)
    side_cpu = side_memory = most_cpu = most_memory = 0
    sidecars: dict[str, int] = {}
    most: dict[str, int] = {}
    for container in objects(spec, "initContainers"):
        asked = _asked(container)
        is_sidecar = text(container, "restartPolicy") == "Always"
        if is_sidecar:
            side_cpu, side_memory = side_cpu + asked.cpu_milli, side_memory + asked.memory_mib
            _add(sidecars, asked.extended)
        own_cpu, own_memory = (0, 0) if is_sidecar else (asked.cpu_milli, asked.memory_mib)
        most_cpu, most_memory = max(most_cpu, side_cpu + own_cpu), max(most_memory, side_memory + own_memory)
        for name, number in () if is_sidecar else asked.extended:
            most[name] = max(most.get(name, 0), number + sidecars.get(name, 0))
    _add(extended, sidecars.items())
    for name, number in most.items():
        extended[name] = max(extended.get(name, 0), number)
    total = mapping(spec, "resources", "requests")
    overhead = mapping(spec, "overhead")
    cpu = milli(total["cpu"]) if "cpu" in total else max(cpu + side_cpu, most_cpu)
    memory = mib_up(total["memory"]) if "memory" in total else max(memory + side_memory, most_memory)
    return Requests(
        cpu + milli(overhead.get("cpu")), memory + mib_up(overhead.get("memory")), tuple(sorted(extended.items()))
    )


def _asked(container: JsonObject) -> Requests:
    requests = mapping(container, "resources", "requests")
    if not requests:
        return NO_REQUESTS
    extended = tuple((name, count(requests[name])) for name in requests if "/" in name)
    return Requests(milli(requests.get("cpu")), mib_up(requests.get("memory")), extended)


def _offer(allocatable: JsonObject) -> Requests:
    extended = tuple(sorted((name, count(allocatable[name])) for name in allocatable if "/" in name))
    return Requests(milli(allocatable.get("cpu")), mib_down(allocatable.get("memory")), extended)


def _add(to: dict[str, int], more: Iterable[tuple[str, int]]) -> None:
    for name, number in more:
        to[name] = to.get(name, 0) + number


def _kept(have: dict[str, str], wanted: frozenset[str]) -> tuple[tuple[str, str], ...]:
    return tuple((key, have[key]) for key in sorted(wanted) if key in have)


def _readiness(status: JsonObject) -> tuple[bool, str]:
    for condition in objects(status, "conditions"):
        if text(condition, "type") == "Ready":
            if text(condition, "status") == "True":
                return True, ""
            return False, text(condition, "message") or text(condition, "reason") or "not ready"
    return False, "the kubelet has not reported yet"


def attempt_of(labels: Mapping[str, str]) -> tuple[str, int] | None:
    """Job and attempt of which Muster's own labels say that the object is; None if they do not."""
    job, attempt = labels.get(names.JOB_LABEL), labels.get(names.ATTEMPT_LABEL, "")
    return None if job is None or not attempt.isdecimal() else (names.job_of_label(job), int(attempt))


def _member(labels: dict[str, str]) -> Member | None:
    of, cluster = attempt_of(labels), labels.get(names.CLUSTER_LABEL)
    group, replica = labels.get(names.GROUP_INDEX_LABEL, ""), labels.get(names.REPLICA_LABEL, "")
    if of is None or cluster is None or not group.isdecimal() or not replica.isdecimal():
        return None
    return Member(cluster, *of, int(group), int(replica))


def _guest_labels(raw: JsonObject, labels: dict[str, str]) -> Iterable[tuple[str, str]]:
    """Labels of a pod that is bound for somebody, and its completion index, which may be an annotation."""
    yield from labels.items()
    index = "batch.kubernetes.io/job-completion-index"
    value = text(raw, "metadata", "annotations", index)
    if value and index not in labels:
        yield index, value


def _owner(raw: JsonObject) -> Owner | None:
    for owner in objects(raw, "metadata", "ownerReferences"):
        if truth(owner, "controller"):
            return Owner(text(owner, "kind"), text(owner, "name"), text(owner, "uid"))
    return None


def _end(status: JsonObject) -> End | None:
    phase = text(status, "phase")
    if phase not in ("Succeeded", "Failed"):
        return None
    code, began, ended, message, why = 0, NOT_SEEN, NOT_SEEN, "", ""
    for container in (*objects(status, "containerStatuses"), *objects(status, "initContainerStatuses")):
        over = mapping(container, "state", "terminated")
        code = code or integer(over, "exitCode")
        why = why or (text(over, "reason") if integer(over, "exitCode") else "")
        started, finished = instant(text(over, "startedAt")), instant(text(over, "finishedAt"))
        began = min(began, started) if began and started else began or started
        ended = max(ended, finished)
        message = message or text(over, "message").strip()
    return End(
        succeeded=phase == "Succeeded",
        exit_code=code,
        reason=text(status, "reason"),
        message=text(status, "message") or ("" if why == "Error" else why),
        finished_at=ended,
        ran_s=max(0, ended - began) / 1e9 if began else 0.0,
        says_done=message == "done",
        disrupted=any(
            text(condition, "type") == "DisruptionTarget" and text(condition, "status") == "True"
            for condition in objects(status, "conditions")
        ),
    )


def _waiting(status: JsonObject) -> str:
    for container in (*objects(status, "initContainerStatuses"), *objects(status, "containerStatuses")):
        reason = text(container, "state", "waiting", "reason")
        if reason not in ("", "ContainerCreating", "PodInitializing"):
            return reason
    return ""


def _devices(status: JsonObject, resource: str) -> tuple[str, ...]:
    """Uuids of the GPUs that the kubelet gave the pod, where it publishes them (KEP-4680, ResourceHealthStatus)."""
    found: list[str] = []
    for container in objects(status, "containerStatuses"):
        for allocated in objects(container, "allocatedResourcesStatus"):
            if text(allocated, "name") == resource:
                found += [text(device, "resourceID") for device in objects(allocated, "resources")]
    return tuple(sorted(filter(None, found)))
