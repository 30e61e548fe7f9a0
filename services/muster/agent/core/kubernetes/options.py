"""Options of a job's pods as parts of a manifest: volumes, variables, devices between nodes, networks, privileges."""

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
"""Beginnings of variables that a job cannot set: they say which pod it is, and which GPUs it sees."""
LOCK_MEMORY = "IPC_LOCK"
"""Registering memory with an RDMA device locks it, as far as the limit of the container's runtime goes, or without end
with this capability: outside a user namespace only, and not under the profile `baseline`.
"""


@dataclass(frozen=True, slots=True)
class PodPolicy:
    """The part of a cluster's settings that pods follow from.

    cluster: as Muster calls it. namespace: `{team}` stands for the team. resource: what a GPU is called as an extended
    resource. device_class: of our claims. sharing: thousandths of a GPU by extended resource. rdma: extended resources
    that a pod gets, and how many. lock_memory: pods with them may lock memory. networks: annotations by network. image:
    of jobs that name none; preflight_image: of what checks them before their first step, "": nothing does.
    user_namespaces, shm: whether pods get them. run_as: user id in the containers; None: the
    image's own. With one, pods obey the pod-security profile `restricted`. names_objects: jobs may name
    Secrets, claims and service accounts there.
    """

    cluster: str
    namespace: str = "muster-jobs"
    resource: str = "nvidia.com/gpu"
    device_class: str = "gpu.muster.dev"
    sharing: Mapping[str, int] = field(default_factory=dict)
    rdma: Mapping[str, int] = field(default_factory=dict)
    lock_memory: bool = False
    networks: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    image: str = ""
    preflight_image: str = ""
    user_namespaces: bool = True
    shm: bool = True
    run_as: int | None = None
    names_objects: bool = False


@dataclass(frozen=True, slots=True)
class Storage:
    """One volume and where the container sees it."""

    volume: JsonObject
    mount: JsonObject


def storage(options: PodOptions, *, memory_mib: int, policy: PodPolicy, has_hosts: bool) -> list[Storage]:
    """All volumes of a pod."""
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
    """Shared memory of a size: it counts as the container's, so it cannot take more than that from the node."""
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
    """The host file comes from the pod's own annotation: no ConfigMap to make, to own and to clean up."""
    folder, _, file = HOSTS_FILE.rpartition("/")
    item: JsonObject = {"path": file, "fieldRef": {"fieldPath": f"metadata.annotations['{names.HOSTS}']"}}
    return Storage(
        volume={"name": "hosts", "downwardAPI": {"items": [item]}},
        mount={"name": "hosts", "mountPath": folder, "readOnly": True},
    )


def environment(options: PodOptions, told: Mapping[str, str]) -> list[JsonObject]:
    """Variables of the container. told: by Muster; the job may set any but those that say which pod it is."""
    chosen = {name: value for name, value in options.env.items() if not name.startswith(OURS)}
    found: list[JsonObject] = [{"name": name, "value": value} for name, value in {**told, **chosen}.items()]
    for secret in options.secret_env:
        if not secret.variable.startswith(OURS):
            found = [one for one in found if one["name"] != secret.variable]
            reference: JsonObject = {"name": secret.secret, "key": secret.key}
            found.append({"name": secret.variable, "valueFrom": {"secretKeyRef": reference}})
    return found


def quantities(spec: JobSpec, group: TaskGroup, *, devices: Mapping[str, int]) -> JsonObject:
    """requests and limits. devices: extended resources.

    Memory is limited to what is asked, so that one job never takes another's. CPU is limited only with whole cores
    (Guaranteed: the kubelet's static policy then gives cores of their own, near the GPUs); else a limit throttles.
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
                f"whole cores need a whole number of them and memory, not {group.cpu_milli} milli and"
                f" {group.memory_mib} MiB",
                field=f"task_groups.{group.name}.cpu_milli",
                cure=f"ask for {max(1, cores) * 1000}, or leave pod.whole_cores out",
            )
        asked["cpu"] = str(cores)
    limits = {name: value for name, value in asked.items() if name == "memory" or spec.pod.whole_cores}
    counted = {name: str(count) for name, count in devices.items()}
    return {"requests": {**asked, **counted}, "limits": {**limits, **counted}}


def between_nodes(spec: JobSpec, *, pods: int, launches: bool, policy: PodPolicy) -> Mapping[str, int]:
    """Devices of the fabric between nodes that one pod gets: extended resources. Raises ImpossiblePodError."""
    wanted = spec.pod.rdma
    if wanted and not policy.rdma:
        raise ImpossiblePodError(
            "this cluster has no RDMA devices", field="pod.rdma", cure="leave it out, or name them in network.rdma"
        )
    if wanted is None:
        wanted = pods > 1 and not launches
    return policy.rdma if wanted else {}


def network_annotations(options: PodOptions, policy: PodPolicy) -> dict[str, str]:
    """Annotations that attach the secondary networks; the same one from two of them is joined by a comma."""
    found: dict[str, str] = {}
    for name in options.networks:
        annotations = policy.networks.get(name)
        if annotations is None:
            known = ", ".join(sorted(policy.networks)) or "none"
            raise ImpossiblePodError(
                f"this cluster has no network {name!r}, but {known}",
                field="pod.networks",
                cure="choose one of those, or name it in network.annotations",
            )
        for key, value in annotations.items():
            found[key] = f"{found[key]},{value}" if key in found else value
    return found


def is_inside(options: PodOptions, policy: PodPolicy, *, locks_memory: bool) -> bool:
    """Whether the pod has a user namespace of its own, in which no capability counts outside."""
    return options.user_namespace and policy.user_namespaces and not locks_memory


def check_named(options: PodOptions, policy: PodPolicy) -> None:
    """Raises ImpossiblePodError where a job names objects of a namespace that is not its team's alone."""
    named = {
        "pod.secret_env": bool(options.secret_env),
        "pod.volumes": bool(options.volumes),
        "pod.service_account": options.service_account is not None,
    }
    for name, is_named in named.items():
        if is_named and not policy.names_objects:
            raise ImpossiblePodError(
                f"all teams' jobs share the namespace {policy.namespace}, and could so use each other's objects",
                field=name,
                cure="give each team a namespace ({team} in kubernetes.namespace), submit an object in your own"
                " namespace, or set kubernetes.shared_objects where teams trust each other",
            )


def pod_security(policy: PodPolicy) -> JsonObject:
    """What holds for the whole pod."""
    context: JsonObject = {"seccompProfile": {"type": "RuntimeDefault"}}
    if policy.run_as is not None:
        user = policy.run_as
        context |= {"runAsNonRoot": True, "runAsUser": user, "runAsGroup": user, "fsGroup": user}
        context["fsGroupChangePolicy"] = "OnRootMismatch"  # else a large volume is walked at every start
    return context


def container_security(options: PodOptions, policy: PodPolicy, *, locks_memory: bool) -> JsonObject:
    """What holds for the container.

    In a user namespace root and its capabilities count for nothing outside, and package managers and sshd work as
    people know them. Without one nobody gains privileges; with a user of its own there are none.
    """
    added: JsonObject = {"add": [LOCK_MEMORY]} if locks_memory else {}
    if policy.run_as is not None:
        return {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"], **added}}
    inside = is_inside(options, policy, locks_memory=locks_memory)
    context: JsonObject = {} if inside else {"allowPrivilegeEscalation": False}
    if added:
        context["capabilities"] = added
    return context
