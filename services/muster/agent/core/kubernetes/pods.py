"""Build the manifest of one pod: a pure function of the job, its slot and the cluster's settings."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from muster.agent.core.kubernetes import names, options, resources
from muster.agent.core.kubernetes.names import CHECKS, GATE, GATE_ANNOTATION, GATE_FILE, GATE_FOLDER, GATE_VOLUME
from muster.agent.core.kubernetes.options import PodPolicy
from muster.agent.core.kubernetes.ports import ImpossiblePodError
from muster.agent.core.kubernetes.rendezvous import Gang, hosts_lines, meeting, service_manifest, variables
from muster.checks import catalogue
from muster.checks.plan import orders_for
from muster.kube.objects import JsonObject, mapping, objects, text
from muster.schemas.facts.operations import PreflightPlan
from muster.schemas.job import Slot, TaskGroup
from muster.schemas.labels import EXIT_CODE, RUN_S
from muster.schemas.pods import CONTAINER, namespace_for

CLAIM = "gpus"
"""Name of the ResourceClaim within the pod."""
WHOLE_MILLI = 1000
_SIMULATED = ((RUN_S, "muster.dev/run-s"), (EXIT_CODE, "muster.dev/exit-code"))
"""Labels of a job for simulations, and the annotations in which simulated kubelets (KWOK) find them."""
_NUMBER = re.compile(r"[0-9]{1,9}(\.[0-9]{1,6})?")
GRACE_S_MIN = 1
"""The shortest grace that Kubernetes does not treat as "at once"."""


@dataclass(frozen=True)
class PodOrder:
    """One wanted pod; all pods of an attempt share `gang`."""

    gang: Gang
    slot: Slot
    policy: PodPolicy
    claimed: bool = False
    """Whether its GPUs come by a ResourceClaim (DRA) instead of extended resources."""
    trace: str = ""
    resumed_s: float = 0.0
    """Seconds of work that checkpoints keep."""
    checks: PreflightPlan | None = None
    """Checks before its first step."""
    is_check: bool = False
    """Whether it only runs checks."""

    @property
    def key(self) -> names.PodKey:
        """Return the key of the pod."""
        return names.PodKey(self.gang.job_id, self.gang.attempt, self.slot.group, self.slot.replica, self.is_check)

    @property
    def name(self) -> str:
        """Return the pod's name."""
        return names.pod_name(self.key)

    @property
    def namespace(self) -> str:
        """Return the namespace of the pod, its claim and its gang's Service."""
        return namespace_for(self.policy.namespace, self.gang.spec.team)

    @property
    def group(self) -> TaskGroup:
        """Return its task group."""
        return self.gang.spec.task_groups[self.slot.group]

    @property
    def gpus(self) -> int:
        """Return the number of whole GPUs; a job with whole nodes may hold more than it requests."""
        return 0 if is_share(self.slot, self.group) else self.slot.gpu_count or self.group.gpus

    @property
    def share_milli(self) -> int:
        """Return the share of a GPU in thousandths; 0 for none."""
        return (self.slot.gpu_milli or self.group.gpu_milli) if is_share(self.slot, self.group) else 0

    @property
    def has_claim(self) -> bool:
        """Return whether it has a ResourceClaim."""
        return self.claimed and bool(self.gpus)


def is_share(slot: Slot, group: TaskGroup) -> bool:
    """Return whether the slot holds a share of a GPU."""
    return 0 < (slot.gpu_milli or group.gpu_milli) < WHOLE_MILLI


def pod_labels(order: PodOrder) -> dict[str, str]:
    """Return the labels that identify the pod."""
    return {
        **_attempt_labels(order.gang, order.policy),
        **({names.CHECK_POD_LABEL: "true"} if order.is_check else {}),
        names.GROUP_LABEL: order.group.name,
        names.GROUP_INDEX_LABEL: str(order.slot.group),
        names.REPLICA_LABEL: str(order.slot.replica),
        names.COMPLETION_INDEX: str(order.slot.replica),
    }


def gang_service(gang: Gang, policy: PodPolicy, *, owner: tuple[str, str] = ("", "")) -> JsonObject | None:
    """Return the headless Service of an attempt; None for a single pod. `owner` is a pod's name and uid."""
    if not gang.has_service:
        return None
    namespace = namespace_for(policy.namespace, gang.spec.team)
    return service_manifest(gang, namespace=namespace, labels=_attempt_labels(gang, policy), owner=owner)


def pod_manifest(order: PodOrder) -> JsonObject:
    """Return the pod without a node: it is bound once the whole gang exists. Raises ImpossiblePodError."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": order.name,
            "namespace": order.namespace,
            "labels": pod_labels(order),
            "annotations": _annotations(order),
        },
        "spec": _spec(order),
    }


def _attempt_labels(gang: Gang, policy: PodPolicy) -> dict[str, str]:
    return {
        names.CLUSTER_LABEL: policy.cluster,
        names.JOB_LABEL: names.job_label(gang.job_id),
        names.ATTEMPT_LABEL: str(gang.attempt),
        names.TEAM_LABEL: gang.spec.team,
        names.QUEUE_LABEL: gang.spec.queue_name,
    }


def _annotations(order: PodOrder) -> dict[str, str]:
    """Return the annotations. Of the job's labels only those for simulations: annotations configure runtimes and
    networks."""
    gang, slot = order.gang, order.slot
    simulated = ((said, gang.spec.labels.get(label, "")) for label, said in _SIMULATED)
    found = {said: value for said, value in simulated if _NUMBER.fullmatch(value)}
    found |= {names.JOB_NAME: gang.spec.name, names.COMPLETION_INDEX: str(slot.replica)}
    if order.trace:
        found[names.TRACE] = order.trace
    if gang.launches(slot):
        found[names.HOSTS] = hosts_lines(gang)
    return found | options.network_annotations(gang.spec.pod, order.policy)


def _spec(order: PodOrder) -> JsonObject:
    gang, policy, asked = order.gang, order.policy, order.gang.spec.pod
    options.check_named(asked, policy)
    container, volumes = _container(order)
    spec: JsonObject = {
        "schedulerName": names.SCHEDULER_NAME,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": max(GRACE_S_MIN, math.ceil(gang.spec.grace_s)),
        "enableServiceLinks": False,  # otherwise every Service of the namespace adds variables
        "automountServiceAccountToken": asked.service_account is not None,
        "securityContext": options.pod_security(policy),
        "tolerations": _tolerations(order),
        "containers": [container],
    }
    if order.checks is not None:
        spec["initContainers"] = _checking(order, order.checks, container)
        volumes = [*volumes, _gate_volume()]
    if volumes:
        spec["volumes"] = volumes
    if asked.service_account is not None:
        spec["serviceAccountName"] = asked.service_account
    if options.is_inside(asked, policy, locks_memory=_locks_memory(order)):
        spec["hostUsers"] = False
    if gang.has_service:
        spec["hostname"] = names.host_name(gang.spec, order.slot.group, order.slot.replica)
        spec["subdomain"] = gang.service
    if order.has_claim:
        spec["resourceClaims"] = [{"name": CLAIM, "resourceClaimName": names.claim_name(order.name)}]
    return spec


def _container(order: PodOrder) -> tuple[JsonObject, list[JsonObject]]:
    """Return the only container, and its volumes."""
    gang, group, policy, asked = order.gang, order.group, order.policy, order.gang.spec.pod
    launches = gang.launches(order.slot)
    resources = options.quantities(gang.spec, group, devices={**_gpus(order), **_fabric(order)})
    if order.has_claim:
        resources["claims"] = [{"name": CLAIM}]
    stored = options.storage(asked, memory_mib=group.memory_mib, policy=policy, has_hosts=launches)
    container: JsonObject = {
        "name": CONTAINER,
        "image": _image(order),
        "env": options.environment(asked, _told(order)),
        "resources": resources,
        "securityContext": options.container_security(asked, policy, locks_memory=_locks_memory(order)),
    }
    command = group.command or gang.spec.command
    if command:
        container["command"] = list(command)
    if gang.spec.workdir:
        container["workingDir"] = gang.spec.workdir
    if stored:
        container["volumeMounts"] = [one.mount for one in stored]
    return container, [one.volume for one in stored]


def _checking(order: PodOrder, plan: PreflightPlan, container: JsonObject) -> list[JsonObject]:
    """Return the init containers for checks: they see the job's devices, but none of its programs, files and variables.

    They mount only volumes that a check writes to. Others could hide the tools of the checks, whose results are
    evidence against the node.
    """
    paths = tuple(one.parameters["path"] for one in plan.checks if one.parameters.get("path"))
    return _init_containers(
        plan,
        gpus=order.gpus,
        image=order.policy.preflight_image,
        told=_told(order) | meeting(order.gang, order.slot),
        resources=mapping(container, "resources"),
        plain=options.quantities(order.gang.spec, order.group, devices={}),
        security=mapping(container, "securityContext"),
        mounts=[one for one in objects(container, "volumeMounts") if _is_written(text(one, "mountPath"), paths)],
    )


def _is_written(mount: str, paths: Sequence[str]) -> bool:
    """Return whether the volume is shared memory, or one that a check writes to."""
    below = mount.rstrip("/") + "/"
    return mount == options.SHM or (mount != "/" and any(f"{path}/".startswith(below) for path in paths))


def _fabric(order: PodOrder) -> Mapping[str, int]:
    gang = order.gang
    return options.between_nodes(
        gang.spec, pods=len(gang.slots), launches=gang.launches(order.slot), policy=order.policy
    )


def _locks_memory(order: PodOrder) -> bool:
    return order.policy.lock_memory and bool(_fabric(order))


def _image(order: PodOrder) -> str:
    image = order.group.image or order.gang.spec.image or order.policy.image
    if not image:
        raise ImpossiblePodError("no image is set", field="image", cure="set it, or `image` of the cluster")
    return image


def _told(order: PodOrder) -> dict[str, str]:
    told = variables(order.gang, order.slot)
    if order.trace:
        told["TRACEPARENT"] = order.trace
    if order.resumed_s:
        told["MUSTER_RESUMED_S"] = f"{order.resumed_s:.0f}"
    if not order.gpus and not order.share_milli:
        told["NVIDIA_VISIBLE_DEVICES"] = "void"  # CUDA images default to "all", and would see GPUs of others
    return told


def _gpus(order: PodOrder) -> dict[str, int]:
    """Return the GPUs, or the share, as extended resources."""
    group = order.group
    if order.gpus and not order.claimed:
        return {order.policy.resource: order.gpus}
    if not order.share_milli:
        return {}
    profile = resources.profile_for(order.share_milli, order.policy.sharing)
    if profile is None:
        raise ImpossiblePodError(
            f"this cluster has no GPU share of {order.share_milli / WHOLE_MILLI:g} GPUs or more",
            field=f"task_groups.{group.name}.gpu_milli",
            cure="set `gpus` for a whole GPU, or add a larger profile to the cluster's `sharing`",
        )
    return {profile: 1}


def _tolerations(order: PodOrder) -> list[JsonObject]:
    found: list[JsonObject] = [{"key": names.OWN_TAINT, "operator": "Exists", "effect": "NoSchedule"}]
    if order.gpus or order.share_milli:
        found.append({"key": names.GPU_TAINT, "operator": "Exists", "effect": "NoSchedule"})
    return found


def _init_containers(
    plan: PreflightPlan,
    *,
    gpus: int,
    image: str,
    told: dict[str, str],
    resources: JsonObject,
    plain: JsonObject,
    security: JsonObject,
    mounts: list[JsonObject],
) -> list[JsonObject]:
    """Return both containers. `told` are the gang's variables; `resources` include the devices, `plain` do not."""
    orders = orders_for(plan, gpus=gpus)
    mine = plan.model_copy(update={"checks": orders}) if orders else None
    variables = {**told, "MUSTER_PREFLIGHT_GPUS": str(gpus)}
    variables["MUSTER_PREFLIGHT_PLAN"] = mine.model_dump_json(exclude_defaults=True) if mine is not None else ""
    checks: JsonObject = {
        "name": CHECKS,
        "image": image,
        "command": ["muster", "preflight", "run"],
        "env": [{"name": name, "value": value} for name, value in variables.items()],
        "resources": resources,
        "securityContext": security,
        "terminationMessagePolicy": "File",
    }
    if mounts:
        checks["volumeMounts"] = mounts
    gate: JsonObject = {
        "name": GATE,
        "image": image,
        "command": ["muster", "preflight", "gate", "--file", f"{GATE_FOLDER}/{GATE_FILE}"],
        "resources": plain,
        "securityContext": security,
        "volumeMounts": [{"name": GATE_VOLUME, "mountPath": GATE_FOLDER, "readOnly": True}],
    }
    return [checks, gate]


def _gate_volume() -> JsonObject:
    """Return a volume with the pod's gate annotation as a file."""
    item: JsonObject = {"path": GATE_FILE, "fieldRef": {"fieldPath": f"metadata.annotations['{GATE_ANNOTATION}']"}}
    return {"name": GATE_VOLUME, "downwardAPI": {"items": [item]}}


def plan_apart(plan: PreflightPlan) -> PreflightPlan:
    """Return the checks that a check pod can run: its file system is not the job's storage."""
    return plan.model_copy(update={"checks": tuple(one for one in plan.checks if one.check != catalogue.STORAGE)})
