"""The objects for the contenders: pods that request GPUs by number, or by claims."""

from functools import cache
from typing import cast

from muster.agent.core.kubernetes.options import PodPolicy
from muster.agent.core.kubernetes.pods import PodOrder, pod_manifest
from muster.agent.core.kubernetes.rendezvous import Gang
from muster.schemas.ids import job_id
from muster.schemas.job import JobSpec, Slot, TaskGroup
from muster_tools.bench.workload import TEAM
from muster_tools.local_kubernetes.nodes import DRIVER, GPU, Manifest

NAMESPACE = "bench"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
TEMPLATES = f"/apis/resource.k8s.io/v1/namespaces/{NAMESPACE}/resourceclaimtemplates"
IMAGE = "bench"
CPU_MILLI, MEMORY_MIB = 1000, 1024
"""The same values as in the bodies of `muster_tools.bench.workload`."""
_TRACE = f"00-{1:032x}-{1:016x}-01"


def namespace(name: str = NAMESPACE) -> tuple[str, Manifest]:
    """Return path and object of a namespace."""
    return "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def pod_name(number: int) -> str:
    """Return the name of the n-th workload."""
    return f"work-{number:05}"


def pod(number: int, gpus: int, *, scheduler: str) -> tuple[str, Manifest]:
    """Return path and object of a workload that requests its GPUs by number."""
    return PODS, _named(number, {**_spec(gpus), "schedulerName": scheduler}, gpus)


def claiming_pod(number: int, gpus: int, *, scheduler: str) -> tuple[str, Manifest]:
    """Return path and object of a workload that claims its GPUs."""
    spec = _spec(gpus)
    (container,) = cast("list[dict[str, Manifest]]", spec["containers"])
    resources: dict[str, object] = {
        kind: {name: amount for name, amount in cast("Manifest", amounts).items() if name != GPU}
        for kind, amounts in container["resources"].items()
    }
    claims = [{"name": "gpus", "resourceClaimTemplateName": template_name(gpus)}]
    claiming = {**container, "resources": {**resources, "claims": [{"name": "gpus"}]}}
    return PODS, _named(
        number, {**spec, "schedulerName": scheduler, "containers": [claiming], "resourceClaims": claims}, gpus
    )


def template_name(gpus: int) -> str:
    """Return the name of the claim template for this many GPUs."""
    return f"gpus-{gpus}"


def claim_template(gpus: int) -> tuple[str, Manifest]:
    """Return path and object of a claim template for this many GPUs of one node."""
    request = {"name": "gpu", "exactly": {"deviceClassName": DRIVER, "allocationMode": "ExactCount", "count": gpus}}
    return TEMPLATES, {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": template_name(gpus)},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }


def binding(name: str, node: str) -> tuple[str, Manifest]:
    """Return path and object of the binding of a pod to a node."""
    return f"{PODS}/{name}/binding", {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }


def _named(number: int, spec: Manifest, gpus: int) -> Manifest:
    alike = _alike(gpus)
    metadata = cast("Manifest", alike["metadata"])
    return {**alike, "metadata": {**metadata, "name": pod_name(number)}, "spec": spec}


def _spec(gpus: int) -> Manifest:
    return cast("Manifest", _alike(gpus)["spec"])


@cache
def _alike(gpus: int) -> Manifest:
    """Return the pod that Muster's agent makes of such a job, so that each contender's pods have the same cost."""
    group = TaskGroup(gpus=gpus, cpu_milli=CPU_MILLI, memory_mib=MEMORY_MIB)
    spec = JobSpec(name=NAMESPACE, team=TEAM, task_groups=(group,))
    slot = Slot(group=0, replica=0, node="", gpus=gpus, gpu_milli=1000)
    gang = Gang(job_id(team=TEAM, principal="bench", idempotency_key=str(gpus)), 1, spec, (slot,))
    policy = PodPolicy(cluster="bench", namespace=NAMESPACE, image=IMAGE)
    return pod_manifest(PodOrder(gang, slot, policy, trace=_TRACE))
