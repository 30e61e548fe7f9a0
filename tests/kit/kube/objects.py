"""Objects that ask to run, as people write them, and what they show."""

from collections.abc import Mapping

from muster.kube.objects import JsonObject, at, objects, strings, text
from muster.kube.workload_labels import GANG, GANG_SIZE, POD_CONDITION, QUEUE

SPACE = "physics"
"""A namespace whose team has a queue."""


def muster_job(name: str, *, replicas: int = 1, gpus: int = 1, **spec: object) -> JsonObject:
    groups = [{"name": "main", "replicas": replicas, "gpus": gpus, "cpuMilli": 100, "memoryMib": 100}]
    return {
        "apiVersion": "muster.dev/v1alpha1",
        "kind": "MusterJob",
        "metadata": {"name": name, "namespace": SPACE},
        "spec": {"taskGroups": groups, **spec},
    }


def template(gpus: int = 1, *, annotations: Mapping[str, str] | None = None, **spec: object) -> JsonObject:
    """A pod template whose pods Muster places."""
    container = {"name": "main", "image": "busybox", "resources": {"limits": {"nvidia.com/gpu": str(gpus), "cpu": "1"}}}
    return {
        "metadata": {"annotations": dict(annotations or {})},
        "spec": {"schedulerName": "muster", "restartPolicy": "Never", "containers": [container], **spec},
    }


def asking_pod(name: str, *, gang: str = "", size: int = 0, gpus: int = 1, **spec: object) -> JsonObject:
    labels = {QUEUE: SPACE} | ({GANG: gang, GANG_SIZE: str(size)} if gang else {})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": SPACE, "labels": labels},
        "spec": template(gpus, **spec)["spec"],
    }


def batch_job(name: str, *, pods: int = 2, gpus: int = 1, suspend: bool = True, **spec: object) -> JsonObject:
    return _asking(
        "batch/v1", "Job", name,
        {"parallelism": pods, "completions": pods, "completionMode": "Indexed", "suspend": suspend, "backoffLimit": 0,
         "template": template(gpus), **spec},
    )  # fmt: skip


def job_set(name: str, *, gpus: int = 1) -> JsonObject:
    def job(group: str, replicas: int, pods: int) -> JsonObject:
        spec = {"parallelism": pods, "completions": pods, "completionMode": "Indexed", "template": template(gpus)}
        return {"name": group, "replicas": replicas, "template": {"spec": spec}}

    return _asking(
        "jobset.x-k8s.io/v1alpha2", "JobSet", name,
        {"suspend": True, "replicatedJobs": [job("driver", 1, 1), job("worker", 2, 2)]},
    )  # fmt: skip


def mpi_job(name: str, *, workers: int = 2, gpus: int = 1) -> JsonObject:
    replicas = {
        "Launcher": {"replicas": 1, "template": template(0)},
        "Worker": {"replicas": workers, "template": template(gpus)},
    }
    spec: JsonObject = {"runPolicy": {"suspend": True}, "slotsPerWorker": 1, "mpiReplicaSpecs": replicas}
    return _asking("kubeflow.org/v2beta1", "MPIJob", name, spec)


def condition(found: JsonObject, kind: str = POD_CONDITION) -> JsonObject:
    """The condition of that type; {} if there is none."""
    return next((one for one in objects(found, "status", "conditions") if text(one, "type") == kind), {})


def note(found: JsonObject, key: str) -> str:
    """An annotation."""
    return strings(found, "metadata", "annotations").get(key, "")


def phase(found: JsonObject) -> str:
    """Of a MusterJob."""
    return text(at(found, "status"), "phase")


def _asking(api_version: str, kind: str, name: str, spec: JsonObject) -> JsonObject:
    metadata = {"name": name, "namespace": SPACE, "labels": {QUEUE: SPACE}}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}
