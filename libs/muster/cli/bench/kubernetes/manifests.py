"""The objects that the contenders are given: pods that ask for GPUs by number, or by claims."""

from collections.abc import Mapping

from muster.kube.local.nodes import DRIVER, GPU, Manifest

NAMESPACE = "bench"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
TEMPLATES = f"/apis/resource.k8s.io/v1/namespaces/{NAMESPACE}/resourceclaimtemplates"
CPU, MEMORY = "1", "1Gi"


def namespace(name: str = NAMESPACE) -> tuple[str, Manifest]:
    """Path and object of a namespace."""
    return "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def pod_name(number: int, *, prefix: str = "work") -> str:
    """Of the n-th workload."""
    return f"{prefix}-{number:05}"


def pod(number: int, gpus: int, *, scheduler: str, prefix: str = "work") -> tuple[str, Manifest]:
    """Path and object of a workload that asks its GPUs by number."""
    return PODS, _pod(pod_name(number, prefix=prefix), scheduler, {"limits": {GPU: str(gpus)}}, {})


def claiming_pod(number: int, gpus: int, *, scheduler: str) -> tuple[str, Manifest]:
    """Path and object of a workload that claims its GPUs."""
    claims = {"resourceClaims": [{"name": "gpus", "resourceClaimTemplateName": template_name(gpus)}]}
    return PODS, _pod(pod_name(number), scheduler, {"claims": [{"name": "gpus"}]}, claims)


def template_name(gpus: int) -> str:
    """Of the template of claims for so many GPUs."""
    return f"gpus-{gpus}"


def claim_template(gpus: int) -> tuple[str, Manifest]:
    """Path and object of a template of claims for so many GPUs of one node."""
    request = {"name": "gpu", "exactly": {"deviceClassName": DRIVER, "allocationMode": "ExactCount", "count": gpus}}
    return TEMPLATES, {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": template_name(gpus)},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }


def binding(name: str, node: str) -> tuple[str, Manifest]:
    """Path and object that bind a pod to a node."""
    return f"{PODS}/{name}/binding", {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }


def _pod(name: str, scheduler: str, gpus: Mapping[str, object], spec: Mapping[str, object]) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "schedulerName": scheduler,
            "restartPolicy": "Never",
            "containers": [
                {
                    "name": "main",
                    "image": "bench",
                    "resources": {"requests": {"cpu": CPU, "memory": MEMORY}, **gpus},
                }
            ],
            **spec,
        },
    }
