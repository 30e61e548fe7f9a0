"""Pods that others make, on a real API server with DRA: the claim controller's claims get devices that Muster chose."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
import pytest_asyncio

from kit.kube.choosers import WAIT_S, Chooser, held, open_chooser
from kit.kube.definitions import define
from kit.kube.objects import asking_pod, batch_job, condition, job_set, mpi_job, note
from kit.kube.operators import operating
from kit.kube.planes import AnyPlane
from kit.waiting import until_async
from muster.kube.objects import JsonObject, mapping, objects, text
from muster.kube.resources import (
    JOB_SETS,
    JOBS,
    MPI_JOBS,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    Resource,
)
from muster.kube.workload_labels import JOB_ID, PHASE, QUEUE, REASON
from muster.schemas.facts.job import JobRouted
from muster.schemas.facts.queue import QueueSpec
from muster_tools.local_kubernetes.fleet import make_fleet
from muster_tools.local_kubernetes.nodes import NodeShape

pytestmark = pytest.mark.asyncio(loop_scope="module")

TEMPLATE = "two-gpus"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def chooser(plane: AnyPlane, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Chooser]:
    async with AsyncExitStack() as stack:
        define(plane)
        directory = tmp_path_factory.mktemp("claims")
        opened = await stack.enter_async_context(open_chooser(plane, directory / "state"))
        await opened.harness.muster.set_queue(QueueSpec(name=opened.namespace))
        await stack.enter_async_context(operating(opened.kube, JOB_SETS, MPI_JOBS))
        yield opened


def template(device_class: str, **rest: object) -> JsonObject:
    request = {"name": "gpus", "exactly": {"deviceClassName": device_class, "count": 2, **rest}}
    return {"metadata": {"name": TEMPLATE}, "spec": {"spec": {"devices": {"requests": [request]}}}}


def claiming(pod_spec: JsonObject) -> None:
    """Pods of this spec have a claim of two GPUs, and no count."""
    pod_spec["resourceClaims"] = [{"name": "gpus", "resourceClaimTemplateName": TEMPLATE}]
    container = objects(pod_spec, "containers")[0]
    container["resources"] = {"limits": {"cpu": "1"}, "claims": [{"name": "gpus"}]}


async def create(chooser: Chooser, resource: Resource, body: JsonObject) -> None:
    metadata = mapping(body, "metadata")
    metadata["namespace"] = chooser.namespace
    mapping(metadata, "labels")[QUEUE] = chooser.namespace
    await chooser.kube.create(resource, body, namespace=chooser.namespace)


async def shows(chooser: Chooser, resource: Resource, name: str, phase: str) -> JsonObject:
    found: JsonObject = {}

    async def shown() -> bool:
        nonlocal found
        found = await chooser.kube.get(resource, name, namespace=chooser.namespace)
        said = text(condition(found), "reason").lower() if resource == PODS else note(found, PHASE)
        return said == phase

    await until_async(shown, patience_s=WAIT_S)
    return found


def gang_of_pods() -> list[tuple[Resource, JsonObject]]:
    pods = [asking_pod(f"pair-{number}", gang="pair", size=2, gpus=0) for number in range(2)]
    for pod in pods:
        claiming(mapping(pod, "spec"))
    return [(PODS, pod) for pod in pods]


def indexed_job() -> list[tuple[Resource, JsonObject]]:
    body = batch_job("sweep", pods=3, gpus=0)
    claiming(mapping(body, "spec", "template", "spec"))
    return [(JOBS, body)]


def set_of_jobs() -> list[tuple[Resource, JsonObject]]:
    body = job_set("pretrain", gpus=0)
    claiming(mapping(objects(body, "spec", "replicatedJobs")[1], "template", "spec", "template", "spec"))
    return [(JOB_SETS, body)]


def mpi() -> list[tuple[Resource, JsonObject]]:
    body = mpi_job("reduce", workers=2, gpus=0)
    claiming(mapping(body, "spec", "mpiReplicaSpecs", "Worker", "template", "spec"))
    return [(MPI_JOBS, body)]


async def test_an_object_waits_for_its_template_and_says_so(chooser: Chooser) -> None:
    """First: no template is there yet."""
    [(resource, body)] = indexed_job()
    mapping(body, "metadata")["name"] = "early"
    await create(chooser, resource, body)
    waits = await shows(chooser, JOBS, "early", "waiting")
    assert TEMPLATE in note(waits, REASON)
    await chooser.kube.create(RESOURCE_CLAIM_TEMPLATES, template(chooser.namespace), namespace=chooser.namespace)
    await shows(chooser, JOBS, "early", "running")
    await chooser.kube.delete(JOBS, "early", namespace=chooser.namespace)
    await chooser.until_nothing_is_left()


@pytest.mark.parametrize(("make", "pods"), [(gang_of_pods, 2), (indexed_job, 3), (set_of_jobs, 4), (mpi, 2)])
async def test_pods_of_objects_run_on_devices_that_were_chosen_and_give_them_back(
    chooser: Chooser, make: object, pods: int
) -> None:
    assert callable(make)
    made: list[tuple[Resource, JsonObject]] = make()
    for resource, body in made:
        await create(chooser, resource, body)
    resource, first = made[0]
    await shows(chooser, resource, text(first, "metadata", "name"), "running")
    claims = await chooser.claims()
    assert len(held(claims)) == len(set(held(claims))) == 2 * pods
    for claim in claims:
        [user] = objects(claim, "status", "reservedFor")
        pod = await chooser.kube.get(PODS, text(user, "name"), namespace=chooser.namespace)
        assert {name for name, _ in held([claim])} == {text(pod, "spec", "nodeName")}, "devices of the pod's own node"
        assert text(pod, "status", "phase") == "Running"
    for resource, body in made:
        await chooser.kube.delete(resource, text(body, "metadata", "name"), namespace=chooser.namespace)
    await chooser.until_nothing_is_left()


async def test_two_gangs_share_no_device_and_the_next_one_gets_what_the_last_one_had(chooser: Chooser) -> None:
    """16 devices: seven pods of two, then eight."""
    for name, pods, phase in (("seven", 7, "running"), ("eight", 8, "queued")):
        body = batch_job(name, pods=pods, gpus=0)
        claiming(mapping(body, "spec", "template", "spec"))
        await create(chooser, JOBS, body)
        await shows(chooser, JOBS, name, phase)
    await chooser.kube.delete(JOBS, "seven", namespace=chooser.namespace)
    await shows(chooser, JOBS, "eight", "running")
    claims = [one for one in await chooser.claims() if text(one, "metadata", "deletionTimestamp") == ""]
    assert len(set(held(claims))) == 16
    await chooser.kube.delete(JOBS, "eight", namespace=chooser.namespace)
    await chooser.until_nothing_is_left()


async def test_where_some_nodes_count_their_gpus_pods_with_claims_keep_off_them(
    plane: AnyPlane, chooser: Chooser
) -> None:
    """18 devices are asked for: 16 there are by claims, and 8 of another model by count."""
    async with plane.client() as client:
        counted = NodeShape(product="COUNTED-80GB")
        prefix, labels = f"{chooser.namespace}-counted", {"muster.dev/test": chooser.namespace}
        [name] = (await make_fleet(client, 1, shape=counted, prefix=prefix, labels=labels)).names

    async def is_known() -> bool:
        return name in {node.name for node in await chooser.harness.muster.nodes()}

    await until_async(is_known, patience_s=WAIT_S)
    body = batch_job("nine", pods=9, gpus=0)
    claiming(mapping(body, "spec", "template", "spec"))
    await create(chooser, JOBS, body)
    waits = await shows(chooser, JOBS, "nine", "queued")
    told = [fact for fact in await chooser.harness.facts() if fact.subject_id == note(waits, JOB_ID)]
    assert "placed" not in [fact.name for fact in told], "nowhere is a claim served for each of its pods"
    [routed] = [fact.payload for fact in told if isinstance(fact.payload, JobRouted)]
    assert [group.gpu_models for group in routed.job.spec.task_groups] == [(NodeShape().product,)]
    await chooser.kube.delete(JOBS, "nine", namespace=chooser.namespace)
    await chooser.until_nothing_is_left()
    await chooser.kube.delete(NODES, name)


async def test_a_count_is_refused_with_what_to_do(chooser: Chooser) -> None:
    await create(chooser, JOBS, batch_job("counts", pods=1, gpus=1))
    rejected = await shows(chooser, JOBS, "counts", "rejected")
    assert "ResourceClaimTemplate" in note(rejected, REASON)
    assert await chooser.claims() == []
