"""Build options of pods for manifests: volumes, variables, RDMA devices, networks, security."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from muster.agent.core.kubernetes import names
from muster.agent.core.kubernetes.ports import ImpossiblePodError
from muster.agent.core.kubernetes.rendezvous import HOSTS_FILE
from muster.kube.objects import JsonObject
from muster.schemas.job import JobSpec, PodOptions, TaskGroup

SCRATCH = "/scratch"
SHM = "/dev/shm"  # noqa: S108 - where POSIX puts shared memory
OURS = ("MUSTER_", "JOB_COMPLETION_INDEX", "NVIDIA_VISIBLE_DEVICES")
"""Prefixes of variables that a job cannot set: they identify the pod and its GPUs."""
LOCK_MEMORY = "IPC_LOCK"
"""Registering memory with an RDMA device locks it, up to the limit of the container runtime, or without a limit
with this capability, which counts only outside a user namespace and violates the profile `baseline`.
"""


@dataclass(frozen=True, slots=True)
class PodPolicy:
    """Settings for pods."""

    cluster: str
    namespace: str = "muster-jobs"
    """Namespace of pods; `{team}` stands for the team."""
    resource: str = "nvidia.com/gpu"
    """Extended resource of a GPU."""
    device_class: str = "gpu.muster.dev"
    """Device class of Muster's claims."""
    sharing: Mapping[str, int] = field(default_factory=dict)
    """Thousandths of a GPU by extended resource."""
    rdma: Mapping[str, int] = field(default_factory=dict)
    """Extended resources of RDMA devices, with the number that a pod gets."""
    lock_memory: bool = False
    """Whether pods with RDMA devices may lock memory."""
    networks: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Annotations by network."""
    image: str = ""
    """Image of jobs that name none."""
    preflight_image: str = ""
    """Image of the checks before the first step; "" for no checks."""
    user_namespaces: bool = True
    shm: bool = True
    run_as: int | None = None
    """User id in the containers, for the pod-security profile `restricted`; None: the image's own."""
    names_objects: bool = False
    """Whether jobs may name Secrets, claims and service accounts."""


@dataclass(frozen=True, slots=True)
class Storage:
    """One volume and its mount."""

    volume: JsonObject
    mount: JsonObject


def storage(options: PodOptions, *, memory_mib: int, policy: PodPolicy, has_hosts: bool) -> list[Storage]:
    """Return all volumes of a pod."""
    found = [*_memory(options, memory_mib=memory_mib, policy=policy), *_scratch(options)]
    for index, mount in enumerate(options.volumes):
        name = f"claim-{index}"
        source: JsonObject = {"claimName": mount.claim, "readOnly": mount.read_only}
        found.append(
            Storage(
                volume={"name": name, "persistentVolumeClaim": source},
                mount={"name": name, "mountPath": mount.path, "readOnly": mount.read_only},
            )
        )
    if has_hosts:
        found.append(_hosts())
    return found


def _memory(options: PodOptions, *, memory_mib: int, policy: PodPolicy) -> Iterator[Storage]:
    """Yield shared memory, limited to the container's memory, as which it counts."""
    size_mib = memory_mib // 2 if options.shm_mib is None else options.shm_mib
    if size_mib and policy.shm:
        limit = min(size_mib, memory_mib) if memory_mib else size_mib
        yield Storage(
            volume={"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": f"{limit}Mi"}},
            mount={"name": "shm", "mountPath": SHM},
        )


def _scratch(options: PodOptions) -> Iterator[Storage]:
    if options.scratch_mib:
        yield Storage(
            volume={"name": "scratch", "emptyDir": {"sizeLimit": f"{options.scratch_mib}Mi"}},
            mount={"name": "scratch", "mountPath": SCRATCH},
        )


def _hosts() -> Storage:
    """Return the volume of the host file, which is an annotation of the pod: no ConfigMap is needed."""
    folder, _, file = HOSTS_FILE.rpartition("/")
    item: JsonObject = {"path": file, "fieldRef": {"fieldPath": f"metadata.annotations['{names.HOSTS}']"}}
    return Storage(
        volume={"name": "hosts", "downwardAPI": {"items": [item]}},
        mount={"name": "hosts", "mountPath": folder, "readOnly": True},
    )


def environment(options: PodOptions, told: Mapping[str, str]) -> list[JsonObject]:
    """Return the container's variables: Muster's (`told`) and the job's, which cannot override the pod's identity."""
    chosen = {name: value for name, value in options.env.items() if not name.startswith(OURS)}
    found: list[JsonObject] = [{"name": name, "value": value} for name, value in {**told, **chosen}.items()]
    for secret in options.secret_env:
        if not secret.variable.startswith(OURS):
            found = [one for one in found if one["name"] != secret.variable]
            reference: JsonObject = {"name": secret.secret, "key": secret.key}
            found.append({"name": secret.variable, "valueFrom": {"secretKeyRef": reference}})
    return found


def quantities(spec: JobSpec, group: TaskGroup, *, devices: Mapping[str, int]) -> JsonObject:
    """Return requests and limits; `devices` are extended resources.

    Memory is limited to the request. CPU is limited only for whole cores (Guaranteed: the kubelet's static policy then
    assigns exclusive cores near the GPUs); otherwise a limit would throttle.
    """
    asked: dict[str, str] = {}
    if group.cpu_milli:
        asked["cpu"] = f"{group.cpu_milli}m"
    if group.memory_mib:
        asked["memory"] = f"{group.memory_mib}Mi"
    if spec.pod.whole_cores:
        cores = math.ceil(group.cpu_milli / 1000)
        if cores * 1000 != group.cpu_milli or not group.memory_mib:
            raise ImpossiblePodError(
                f"whole cores need a whole number of cores and a memory size, not {group.cpu_milli / 1000:g} cores and"
                f" {group.memory_mib} MiB",
                field=f"task_groups.{group.name}.cpu_milli",
                cure=f"set it to {max(1, cores) * 1000}, or remove pod.whole_cores",
            )
        asked["cpu"] = str(cores)
    limits = {name: value for name, value in asked.items() if name == "memory" or spec.pod.whole_cores}
    counted = {name: str(count) for name, count in devices.items()}
    return {"requests": {**asked, **counted}, "limits": {**limits, **counted}}


def between_nodes(spec: JobSpec, *, pods: int, launches: bool, policy: PodPolicy) -> Mapping[str, int]:
    """Return the RDMA devices of one pod as extended resources. Raises ImpossiblePodError."""
    wanted = spec.pod.rdma
    if wanted and not policy.rdma:
        raise ImpossiblePodError(
            "this cluster has no RDMA devices", field="pod.rdma", cure="remove it, or set network.rdma of the cluster"
        )
    if wanted is None:
        wanted = pods > 1 and not launches
    return policy.rdma if wanted else {}


def network_annotations(options: PodOptions, policy: PodPolicy) -> dict[str, str]:
    """Return the annotations that attach secondary networks; values of the same key are joined by commas."""
    found: dict[str, str] = {}
    for name in options.networks:
        annotations = policy.networks.get(name)
        if annotations is None:
            known = ", ".join(sorted(policy.networks)) or "none"
            raise ImpossiblePodError(
                f"this cluster has no network {name!r}, but {known}",
                field="pod.networks",
                cure="choose an existing network, or add it to network.annotations",
            )
        for key, value in annotations.items():
            found[key] = f"{found[key]},{value}" if key in found else value
    return found


def is_inside(options: PodOptions, policy: PodPolicy, *, locks_memory: bool) -> bool:
    """Return whether the pod has a user namespace of its own, where capabilities do not count outside."""
    return options.user_namespace and policy.user_namespaces and not locks_memory


def check_named(options: PodOptions, policy: PodPolicy) -> None:
    """Raise ImpossiblePodError if a job names objects of a namespace that teams share."""
    named = {
        "pod.secret_env": bool(options.secret_env),
        "pod.volumes": bool(options.volumes),
        "pod.service_account": options.service_account is not None,
    }
    for name, is_named in named.items():
        if is_named and not policy.names_objects:
            raise ImpossiblePodError(
                f"jobs of all teams share namespace {policy.namespace} and could use each other's objects",
                field=name,
                cure="give each team a namespace ({team} in kubernetes.namespace), submit an object in your own"
                " namespace, or set kubernetes.shared_objects where teams trust each other",
            )


def pod_security(policy: PodPolicy) -> JsonObject:
    """Return the security context of the pod."""
    context: JsonObject = {"seccompProfile": {"type": "RuntimeDefault"}}
    if policy.run_as is not None:
        user = policy.run_as
        context |= {"runAsNonRoot": True, "runAsUser": user, "runAsGroup": user, "fsGroup": user}
        context["fsGroupChangePolicy"] = "OnRootMismatch"  # otherwise every start walks the whole volume
    return context


def container_security(options: PodOptions, policy: PodPolicy, *, locks_memory: bool) -> JsonObject:
    """Return the security context of the container.

    In a user namespace root has no rights outside, so package managers and sshd work as usual. Without one, privilege
    escalation is off; with `run_as`, all capabilities are dropped.
    """
    added: JsonObject = {"add": [LOCK_MEMORY]} if locks_memory else {}
    if policy.run_as is not None:
        return {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"], **added}}
    inside = is_inside(options, policy, locks_memory=locks_memory)
    context: JsonObject = {} if inside else {"allowPrivilegeEscalation": False}
    if added:
        context["capabilities"] = added
    return context
