"""Project pods and nodes from objects of the API server, for every event of the reflectors.

They never raise: absent or invalid fields have their defaults.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from muster.agent.core.kubernetes import names
from muster.agent.core.kubernetes.names import CHECKS, GATE_ANNOTATION, INIT_CONTAINERS, OPEN
from muster.agent.core.kubernetes.resources import instant, milli, offered, pod_requests
from muster.agent.core.kubernetes.views import NOT_SEEN, End, Member, NodeView, Owner, PodView, PreflightView
from muster.agent.core.workload_values import AdoptedPod
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

UNNEEDED_TAINTS = frozenset({"ToBeDeletedByClusterAutoscaler", "DeletionCandidateOfClusterAutoscaler"})
"""Taints with which the Cluster Autoscaler marks a node that it would remove."""
_SAYING = frozenset({names.WORK_LABEL, names.CHECK_POD_LABEL})
"""Labels of pods whose termination message is kept."""


@dataclass(frozen=True, slots=True)
class PodProjection:
    """Makes a PodView."""

    resource: str = "nvidia.com/gpu"
    """Extended resource of a GPU, for `devices`."""
    adopted_of: Callable[[JsonObject], AdoptedPod | None] | None = None
    """Reads what a pod asks."""
    plugin_of: Callable[[str, Mapping[str, str]], str] | None = None
    """Classifies plugin pods by namespace and labels; "" for others."""

    def __call__(self, raw: JsonObject) -> PodView:
        """Project a pod; never raises."""
        spec, status, labels = mapping(raw, "spec"), mapping(raw, "status"), strings(raw, "metadata", "labels")
        scheduler, member = text(spec, "schedulerName"), _member(labels)
        is_adopted = member is None and scheduler == names.SCHEDULER_NAME
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
            end=_end(status, says=not _SAYING.isdisjoint(labels)),
            ends_at=instant(text(raw, "metadata", "deletionTimestamp")),
            grace_s=integer(raw, "metadata", "deletionGracePeriodSeconds"),
            waiting=_waiting(status),
            devices=_devices(status, self.resource),
            checkpointed_at=instant(text(raw, "metadata", "annotations", names.CHECKPOINT_ANNOTATION)),
            labels=tuple(sorted(_adopted_labels(raw, labels))) if is_adopted else (),
            owner=_owner(raw) if is_adopted else None,
            gated=bool(objects(spec, "schedulingGates")),
            adopted=self.adopted_of(raw) if is_adopted and self.adopted_of is not None else None,
            plugin=plugin,
            created_at=instant(text(raw, "metadata", "creationTimestamp")) if plugin else NOT_SEEN,
            preflight=None if member is None else _preflight(raw, status),
            work=labels.get(names.WORK_LABEL, ""),
        )


@dataclass(frozen=True, slots=True)
class NodeProjection:
    """Makes a NodeView with these labels and annotations; Muster's pods tolerate the taint keys in `tolerated`."""

    labels: frozenset[str] = frozenset()
    annotations: frozenset[str] = frozenset()
    tolerated: frozenset[str] = frozenset()

    def __call__(self, raw: JsonObject) -> NodeView:
        """Project a node; never raises."""
        spec, status = mapping(raw, "spec"), mapping(raw, "status")
        ready, why = _readiness(status)
        return NodeView(
            name=name_of(raw),
            uid=uid_of(raw),
            allocatable=offered(mapping(status, "allocatable")),
            capacity_cpu_milli=milli(at(status, "capacity", "cpu")),
            ready=ready,
            not_ready=why,
            closed=self._closed(spec),
            labels=_kept(strings(raw, "metadata", "labels"), self.labels),
            annotations=_kept(strings(raw, "metadata", "annotations"), self.annotations),
            deleting=bool(text(raw, "metadata", "deletionTimestamp")),
            boot=text(status, "nodeInfo", "bootID"),
            address=_address(status),
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


def _kept(have: dict[str, str], wanted: frozenset[str]) -> tuple[tuple[str, str], ...]:
    return tuple((key, have[key]) for key in sorted(wanted) if key in have)


def _address(status: JsonObject) -> str:
    return next((text(one, "address") for one in objects(status, "addresses") if text(one, "type") == "InternalIP"), "")


def _readiness(status: JsonObject) -> tuple[bool, str]:
    for condition in objects(status, "conditions"):
        if text(condition, "type") == "Ready":
            if text(condition, "status") == "True":
                return True, ""
            return False, text(condition, "message") or text(condition, "reason") or "not ready"
    return False, "the kubelet has not reported yet"


def attempt_of(labels: Mapping[str, str]) -> tuple[str, int] | None:
    """Return job and attempt in Muster's labels; None without them."""
    job, attempt = labels.get(names.JOB_LABEL), labels.get(names.ATTEMPT_LABEL, "")
    return None if job is None or not attempt.isdecimal() else (names.job_of_label(job), int(attempt))


def _member(labels: dict[str, str]) -> Member | None:
    of, cluster = attempt_of(labels), labels.get(names.CLUSTER_LABEL)
    group, replica = labels.get(names.GROUP_INDEX_LABEL, ""), labels.get(names.REPLICA_LABEL, "")
    if of is None or cluster is None or not group.isdecimal() or not replica.isdecimal():
        return None
    is_check = labels.get(names.CHECK_POD_LABEL) == "true"
    return Member(cluster, names.PodKey(*of, int(group), int(replica), is_check))


def _adopted_labels(raw: JsonObject, labels: dict[str, str]) -> Iterable[tuple[str, str]]:
    """Yield the labels of an adopted pod, and its completion index, which may be an annotation."""
    yield from labels.items()
    value = text(raw, "metadata", "annotations", names.COMPLETION_INDEX)
    if value and names.COMPLETION_INDEX not in labels:
        yield names.COMPLETION_INDEX, value


def _owner(raw: JsonObject) -> Owner | None:
    for owner in objects(raw, "metadata", "ownerReferences"):
        if truth(owner, "controller"):
            return Owner(text(owner, "kind"), text(owner, "name"), text(owner, "uid"))
    return None


def _preflight(raw: JsonObject, status: JsonObject) -> PreflightView | None:
    for container in objects(status, "initContainerStatuses"):
        if text(container, "name") == CHECKS:
            state = mapping(container, "state")
            over = mapping(state, "terminated")
            return PreflightView(
                started="running" in state or bool(over),
                report=text(over, "message") if over else None,
                exit_code=integer(over, "exitCode"),
                is_open=text(raw, "metadata", "annotations", GATE_ANNOTATION) == OPEN,
            )
    return None


def _end(status: JsonObject, *, says: bool = False) -> End | None:
    """Return the end of a pod; `says` keeps its termination message."""
    phase = text(status, "phase")
    if phase not in ("Succeeded", "Failed"):
        return None
    code, began, ended, message, why = 0, NOT_SEEN, NOT_SEEN, "", ""
    for container in (*objects(status, "containerStatuses"), *objects(status, "initContainerStatuses")):
        over = mapping(container, "state", "terminated")
        code = code or integer(over, "exitCode")
        why = why or (text(over, "reason") if integer(over, "exitCode") else "")
        finished = instant(text(over, "finishedAt"))
        ended = max(ended, finished)
        if text(container, "name") in INIT_CONTAINERS:
            continue  # checks before the first step are no part of its run
        started = instant(text(over, "startedAt"))
        began = min(began, started) if began and started else began or started
        message = message or text(over, "message").strip()
    return End(
        succeeded=phase == "Succeeded",
        exit_code=code,
        reason=text(status, "reason"),
        message=text(status, "message") or ("" if why == "Error" else why),
        finished_at=ended,
        ran_s=max(0, ended - began) / 1e9 if began else 0.0,
        says_done=message == "done",
        said=message if says else "",
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
    """Return the uuids of the GPUs from the kubelet, where it publishes them (KEP-4680, ResourceHealthStatus)."""
    found: list[str] = []
    for container in objects(status, "containerStatuses"):
        for allocated in objects(container, "allocatedResourcesStatus"):
            if text(allocated, "name") == resource:
                found += [text(device, "resourceID") for device in objects(allocated, "resources")]
    return tuple(sorted(filter(None, found)))
