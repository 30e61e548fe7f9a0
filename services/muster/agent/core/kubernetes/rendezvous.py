"""Let the pods of a gang find each other: PyTorch, MPI, parameter servers, Indexed Jobs.

Every pod has a stable host name under its attempt's headless Service. Groups named `launcher` start the processes of
the others (MPI); groups named `ps` serve parameters to the others, with a group `scheduler` if the framework needs one
(DMLC). All of it follows from the groups' names.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from muster.agent.core.kubernetes import names
from muster.kube.objects import JsonObject
from muster.schemas.job import JobKind, JobSpec, Slot

LAUNCHER, SERVERS, SCHEDULER = "launcher", "ps", "scheduler"
TORCH_PORT = 29_500
"""torchrun's default."""
TENSORFLOW_PORT = 2_222
DMLC_PORT = 9_091
HOSTS_FILE = "/etc/mpi/hostfile"
"""The path of mpi-operator."""
EVERY_PEER_MAX = 256
"""With more pods TF_CONFIG names only the servers and the pod itself: otherwise etcd would hold n x n names."""


@dataclass(frozen=True)
class Gang:
    """All pods of one attempt. Ranks go by group, then replica."""

    job_id: str
    attempt: int
    spec: JobSpec
    slots: tuple[Slot, ...]

    @cached_property
    def service(self) -> str:
        """Return the name of its headless Service."""
        return names.attempt_name(self.job_id, self.attempt)

    @property
    def has_service(self) -> bool:
        """Return whether it has more than one pod."""
        return len(self.slots) > 1

    @cached_property
    def groups(self) -> Mapping[str, tuple[Slot, ...]]:
        """Return slots by group name, in order."""
        found: dict[str, list[Slot]] = {}
        for slot in self.everybody:
            found.setdefault(self.group_of(slot), []).append(slot)
        return {name: tuple(slots) for name, slots in found.items()}

    @cached_property
    def everybody(self) -> tuple[Slot, ...]:
        """Return all slots in rank order."""
        return tuple(sorted(self.slots, key=_place))

    @cached_property
    def ranks(self) -> Mapping[tuple[int, int], int]:
        """Return ranks among all pods by (group, replica)."""
        return {_place(slot): rank for rank, slot in enumerate(self.everybody)}

    @cached_property
    def ranks_in_group(self) -> Mapping[tuple[int, int], int]:
        """Return ranks within the group by (group, replica)."""
        return {_place(slot): rank for slots in self.groups.values() for rank, slot in enumerate(slots)}

    def host(self, slot: Slot) -> str:
        """Return the host name of a pod within the namespace."""
        return f"{names.host_name(self.spec, slot.group, slot.replica)}.{self.service}"

    def group_of(self, slot: Slot) -> str:
        """Return the name of the slot's group."""
        return self.spec.task_groups[slot.group].name

    @property
    def has_launcher(self) -> bool:
        """Return whether a launcher group starts the processes of the others."""
        return LAUNCHER in self.groups and len(self.groups) > 1

    def launches(self, slot: Slot) -> bool:
        """Return whether this pod starts processes in others: the launcher, or rank 0 of an MPI job without one."""
        if self.has_launcher:
            return self.group_of(slot) == LAUNCHER
        return self.has_service and self.spec.kind is JobKind.MPI and self.ranks[_place(slot)] == 0

    @cached_property
    def launched(self) -> tuple[Slot, ...]:
        """Return the pods in which processes are started, in rank order."""
        return tuple(slot for name, slots in self.groups.items() for slot in slots if name != LAUNCHER)


def deciding_groups(spec: JobSpec) -> frozenset[int]:
    """Return the indexes of the groups whose end is the job's end; the other groups are ended after them.

    MPI: the launcher. Parameter servers: all groups but the servers. Otherwise all groups.
    """
    by_name = {group.name: index for index, group in enumerate(spec.task_groups)}
    everybody = frozenset(by_name.values())
    if LAUNCHER in by_name:
        return frozenset({by_name[LAUNCHER]})
    if SERVERS in by_name:
        serving = {by_name[name] for name in (SERVERS, SCHEDULER) if name in by_name}
        return everybody - serving or everybody
    return everybody


def service_manifest(
    gang: Gang, *, namespace: str, labels: Mapping[str, str], owner: tuple[str, str] = ("", "")
) -> JsonObject:
    """Return the headless Service, which names pods from their start, since they wait for each other to be ready.

    `owner` is name and uid of the pod with which it is deleted; "" for none.
    """
    metadata: JsonObject = {"name": gang.service, "namespace": namespace, "labels": dict(labels)}
    if owner[1]:
        metadata["ownerReferences"] = [{"apiVersion": "v1", "kind": "Pod", "name": owner[0], "uid": owner[1]}]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {
                names.JOB_LABEL: names.job_label(gang.job_id),
                names.ATTEMPT_LABEL: str(gang.attempt),
            },
        },
    }


def hosts_lines(gang: Gang) -> str:
    """Return the host file of an MPI gang: a line per pod with as many slots as GPUs, or cores without GPUs."""
    return "".join(f"{gang.host(slot)} slots={_processes(gang.spec, slot)}\n" for slot in gang.launched)


def variables(gang: Gang, slot: Slot) -> dict[str, str]:
    """Return the variables that identify the pod and its peers."""
    told = dict(_identity(gang, slot))
    if gang.launches(slot):
        told |= dict(_launcher(gang))
    if gang.has_service and not gang.has_launcher:
        told |= dict(_torch(gang, slot))
    if SERVERS in gang.groups:
        told["TF_CONFIG"] = _tensorflow(gang, slot)
        told |= dict(_dmlc(gang, slot))
    return told


def _place(slot: Slot) -> tuple[int, int]:
    return slot.group, slot.replica


def _processes(spec: JobSpec, slot: Slot) -> int:
    group = spec.task_groups[slot.group]
    return max(1, group.gpus or group.cpu_milli // 1000)


def _identity(gang: Gang, slot: Slot) -> Iterator[tuple[str, str]]:
    """Yield identity: MUSTER_RANK counts all pods of the gang; JOB_COMPLETION_INDEX those of the group."""
    yield "MUSTER_JOB", gang.job_id
    yield "MUSTER_ATTEMPT", str(gang.attempt)
    yield "MUSTER_GROUP", gang.group_of(slot)
    yield "MUSTER_REPLICA", str(slot.replica)
    yield "MUSTER_RANK", str(gang.ranks[_place(slot)])
    yield "MUSTER_WORLD_SIZE", str(len(gang.slots))
    yield "JOB_COMPLETION_INDEX", str(slot.replica)
    if gang.has_service:
        yield "MUSTER_SERVICE", gang.service
        yield "MUSTER_HOST", gang.host(slot)


def _torch(gang: Gang, slot: Slot) -> Iterator[tuple[str, str]]:
    """Yield the variables of `init_method="env://"` and torchrun (PET_...).

    Parameter servers use another protocol, so with them only pods of the same group are ranks.
    """
    apart = SERVERS in gang.groups
    peers = gang.groups[gang.group_of(slot)] if apart else gang.everybody
    rank = (gang.ranks_in_group if apart else gang.ranks)[_place(slot)]
    first = gang.host(peers[0])
    yield from (("MASTER_ADDR", first), ("MASTER_PORT", str(TORCH_PORT)))
    yield from (("WORLD_SIZE", str(len(peers))), ("RANK", str(rank)))
    yield from (("PET_MASTER_ADDR", first), ("PET_MASTER_PORT", str(TORCH_PORT)))
    yield from (("PET_NNODES", str(len(peers))), ("PET_NODE_RANK", str(rank)))
    yield "PET_NPROC_PER_NODE", str(max(1, gang.spec.task_groups[slot.group].gpus))


def _launcher(gang: Gang) -> Iterator[tuple[str, str]]:
    """Yield the host file of Open MPI, Intel MPI and MPICH, and the total number of processes."""
    yield "OMPI_MCA_orte_default_hostfile", HOSTS_FILE
    yield "PRTE_MCA_prte_default_hostfile", HOSTS_FILE
    yield "OMPI_MCA_orte_keep_fqdn_hostnames", "true"
    yield "I_MPI_HYDRA_HOST_FILE", HOSTS_FILE
    yield "HYDRA_HOST_FILE", HOSTS_FILE
    yield "MUSTER_PROCESSES", str(sum(_processes(gang.spec, slot) for slot in gang.launched))


def _tensorflow(gang: Gang, slot: Slot) -> str:
    mine = gang.group_of(slot)
    every = len(gang.slots) <= EVERY_PEER_MAX
    cluster: dict[str, object] = {}
    for name, slots in gang.groups.items():
        if every or name == SERVERS:
            cluster[name] = [_address(gang, other) for other in slots]
        elif name == mine:  # TensorFlow's sparse form: only its own entry
            cluster[name] = {str(slot.replica): _address(gang, slot)}
    told = {"cluster": cluster, "task": {"type": mine, "index": slot.replica}, "environment": "cloud"}
    return json.dumps(told, separators=(",", ":"))


def _dmlc(gang: Gang, slot: Slot) -> Iterator[tuple[str, str]]:
    """Yield the variables of MXNet and BytePS, whose servers meet at a scheduler group."""
    meeting = gang.groups.get(SCHEDULER)
    if not meeting:
        return
    servers = len(gang.groups[SERVERS])
    yield "DMLC_ROLE", {SERVERS: "server", SCHEDULER: "scheduler"}.get(gang.group_of(slot), "worker")
    yield "DMLC_NUM_SERVER", str(servers)
    yield "DMLC_NUM_WORKER", str(len(gang.slots) - servers - len(meeting))
    yield "DMLC_PS_ROOT_URI", gang.host(meeting[0])
    yield "DMLC_PS_ROOT_PORT", str(DMLC_PORT)


def _address(gang: Gang, slot: Slot) -> str:
    return f"{gang.host(slot)}:{TENSORFLOW_PORT}"


def meeting(gang: Gang, slot: Slot) -> dict[str, str]:
    """Return the variables for checks across the gang: pods with whole GPUs, in rank order.

    Pods without GPUs do not take part in collective checks.
    """
    shapes = gang.spec.task_groups
    taking = [slots for slots in gang.groups.values() if shapes[slots[0].group].gpus]
    if not gang.has_service or not shapes[slot.group].gpus:
        return {}
    before = (slots for slots in gang.groups.values() if slots[0].group < slot.group)
    left_out = sum(len(slots) for slots in before if not shapes[slots[0].group].gpus)
    return {
        "MUSTER_PREFLIGHT_RANK": str(gang.ranks[slot.group, slot.replica] - left_out),
        "MUSTER_PREFLIGHT_NODES": str(sum(map(len, taking))),
        "MUSTER_PREFLIGHT_FIRST": gang.host(taking[0][0]),
    }
