"""Small objects for tests."""

from collections.abc import Mapping, Sequence

from muster.kube.objects import JsonObject


def pod(
    name: str,
    *,
    namespace: str = "default",
    gpus: int = 0,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    node_name: str = "",
    scheduler: str = "muster",
    grace_s: int = 30,
    finalizers: Sequence[str] = (),
) -> JsonObject:
    """A pod with one container."""
    metadata: JsonObject = {"name": name, "namespace": namespace}
    if labels:
        metadata["labels"] = dict(labels)
    if annotations:
        metadata["annotations"] = dict(annotations)
    if finalizers:
        metadata["finalizers"] = list(finalizers)
    resources: JsonObject = {"limits": {"nvidia.com/gpu": str(gpus)}, "requests": {"nvidia.com/gpu": str(gpus)}}
    container: JsonObject = {"name": "main", "image": "example.com/train:1"}
    if gpus:
        container["resources"] = resources
    spec: JsonObject = {
        "schedulerName": scheduler,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": grace_s,
        "containers": [container],
    }
    if node_name:
        spec["nodeName"] = node_name
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def node(name: str, *, gpus: int = 8, labels: Mapping[str, str] | None = None) -> JsonObject:
    """A node that is ready."""
    amounts: JsonObject = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": str(gpus)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "spec": {},
        "status": {
            "capacity": dict(amounts),
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }


def binding(name: str, node_name: str, *, uid: str = "") -> JsonObject:
    """What binds a pod, which it must name, to a node. uid: of the pod that is meant."""
    metadata: JsonObject = {"name": name, "uid": uid} if uid else {"name": name}
    target: JsonObject = {"apiVersion": "v1", "kind": "Node", "name": node_name}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}


def custom_resource(group: str, plural: str, kind: str, *, version: str = "v1", namespaced: bool = True) -> JsonObject:
    """A CustomResourceDefinition without a schema, with a status."""
    served: JsonObject = {
        "name": version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
        "subresources": {"status": {}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"},
            "scope": "Namespaced" if namespaced else "Cluster",
            "versions": [served],
        },
    }
