"""The controllers of Job, JobSet and MPIJob as far as Muster meets them: pods while let go, none while held, an end.

They talk to a fake or a real API server over HTTP, as the real ones do, and look again after every round.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from muster.kube.connection import KubeConnection
from muster.kube.errors import AlreadyExistsError, ConflictError, NotFoundError
from muster.kube.objects import JsonObject, at, integer, mapping, name_of, namespace_of, objects, text, truth, uid_of
from muster.kube.resources import JOB_SETS, JOBS, MPI_JOBS, PODS, Resource
from muster.kube.shapes import Patch, Selection

ROUND_S = 0.05
GRACE_S = 1
OWNER = "operators.test/owner"
"""Label of pods: uid of the object that they were made for."""
INDEX = "batch.kubernetes.io/job-completion-index"
ENDS = {JOBS: ("Complete", "Failed"), JOB_SETS: ("Completed", "Failed"), MPI_JOBS: ("Succeeded", "Failed")}


@dataclass
class Operators:
    """kinds: that are served. made: names of pods so far, by object."""

    connection: KubeConnection
    kinds: tuple[Resource, ...]
    made: dict[str, list[str]] = field(default_factory=dict)

    async def run(self) -> None:
        while True:
            for kind in self.kinds:
                for found in (await self.connection.list_page(kind)).items:
                    await self._reconcile(kind, found)
            await asyncio.sleep(ROUND_S)

    async def _reconcile(self, kind: Resource, found: JsonObject) -> None:
        namespace = namespace_of(found)
        select = Selection(namespace=namespace, labels=f"{OWNER}={uid_of(found)}")
        pods = (await self.connection.list_page(PODS, select=select)).items
        if _has_ended(kind, found):
            return
        if _is_suspended(kind, found) or text(found, "metadata", "deletionTimestamp"):
            for pod in pods:
                if not text(pod, "metadata", "deletionTimestamp") and text(pod, "status", "phase") != "Succeeded":
                    with suppress(NotFoundError):
                        await self.connection.delete(PODS, name_of(pod), namespace=namespace, grace_s=GRACE_S)
            return
        there = {name_of(pod): text(pod, "status", "phase") for pod in pods}
        for wanted in pods_of(kind, found):
            if name_of(wanted) not in there:
                with suppress(AlreadyExistsError):
                    await self.connection.create(PODS, wanted, namespace=namespace)
                    self.made.setdefault(name_of(found), []).append(name_of(wanted))
        phases = [there.get(name_of(pod), "") for pod in pods_of(kind, found)]
        if "Failed" in phases or all(phase == "Succeeded" for phase in phases):
            end = ENDS[kind][1 if "Failed" in phases else 0]
            status: JsonObject = {"status": {"conditions": [{"type": end, "status": "True"}]}}
            with suppress(ConflictError, NotFoundError):
                await self.connection.patch(
                    kind, name_of(found), status, kind=Patch.MERGE, namespace=namespace, subresource="status"
                )


def pods_of(kind: Resource, found: JsonObject) -> Iterator[JsonObject]:
    """The pods that the object's controller makes, with the labels by which people tell them apart."""
    name = name_of(found)
    if kind == JOBS:
        yield from _of_job(found, mapping(found, "spec"), name, {})
    elif kind == JOB_SETS:
        for job in objects(found, "spec", "replicatedJobs"):
            group, replicas = text(job, "name"), integer(job, "replicas", default=1)
            for number in range(replicas):
                labels = {
                    "jobset.sigs.k8s.io/jobset-name": name,
                    "jobset.sigs.k8s.io/replicatedjob-name": group,
                    "jobset.sigs.k8s.io/replicatedjob-replicas": str(replicas),
                    "jobset.sigs.k8s.io/job-index": str(number),
                }
                yield from _of_job(found, mapping(job, "template", "spec"), f"{name}-{group}-{number}", labels)
    else:
        replicas_of = mapping(found, "spec", "mpiReplicaSpecs")
        for role in ("Launcher", "Worker"):
            replica = mapping(replicas_of, role)
            for number in range(integer(replica, "replicas", default=1) if replica else 0):
                labels = {
                    "training.kubeflow.org/job-name": name,
                    "training.kubeflow.org/job-role": role.lower(),
                    "training.kubeflow.org/replica-index": str(number),
                }
                pod = f"{name}-{role.lower()}-{number}"
                yield _pod(found, mapping(replica, "template"), pod, labels)


@asynccontextmanager
async def operating(connection: KubeConnection, *kinds: Resource) -> AsyncIterator[Operators]:
    """Controllers of these kinds, ended at the end."""
    operators = Operators(connection, kinds or (JOBS, JOB_SETS, MPI_JOBS))
    task = asyncio.create_task(operators.run())
    try:
        yield operators
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def _of_job(found: JsonObject, job: JsonObject, name: str, labels: dict[str, str]) -> Iterator[JsonObject]:
    is_indexed = text(job, "completionMode") == "Indexed" or bool(labels)
    for number in range(integer(job, "parallelism", default=1)):
        numbered = {**labels, INDEX: str(number)} if is_indexed else labels
        yield _pod(found, mapping(job, "template"), f"{name}-{number}", numbered)


def _pod(found: JsonObject, template: JsonObject, name: str, labels: dict[str, str]) -> JsonObject:
    owner: JsonObject = {
        "apiVersion": text(found, "apiVersion") or "v1",
        "kind": text(found, "kind") or "Job",
        "name": name_of(found),
        "uid": uid_of(found),
        "controller": True,
    }
    metadata: JsonObject = {
        "name": name,
        "namespace": namespace_of(found),
        "labels": {**mapping(template, "metadata", "labels"), **labels, OWNER: uid_of(found)},
        "annotations": mapping(template, "metadata", "annotations"),
        "ownerReferences": [owner],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": mapping(template, "spec")}


def _is_suspended(kind: Resource, found: JsonObject) -> bool:
    path = ("spec", "runPolicy", "suspend") if kind == MPI_JOBS else ("spec", "suspend")
    return truth(found, *path)


def _has_ended(kind: Resource, found: JsonObject) -> bool:
    return any(
        text(condition, "type") in ENDS[kind] and at(condition, "status") == "True"
        for condition in objects(found, "status", "conditions")
    )
