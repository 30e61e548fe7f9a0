"""A real API server takes every shape of pod that Muster makes, under the strictest standard that it can pass."""

import itertools
from collections.abc import AsyncIterator

import pytest

from kit.kube.planes import AnyPlane
from muster.agent.core.kubernetes.claims import claim_manifest
from muster.agent.core.kubernetes.options import PodPolicy
from muster.agent.core.kubernetes.pods import PodOrder, gang_service, pod_manifest
from muster.kube.connection import KubeConnection
from muster.kube.errors import ForbiddenError
from muster.kube.objects import JsonObject, at, objects, text
from muster.kube.resources import NAMESPACES, PODS, RESOURCE_CLAIMS, SERVICES
from muster.kube.shapes import Writing
from muster.schemas.job import ClaimMount, JobKind, JobSpec, PodOptions, SecretVariable, TaskGroup
from unit.agent.pods.orders import gang, order, spec

CHECKED = Writing(dry_run=True, strict=True)
_NUMBERS = itertools.count()
EVERYTHING = PodOptions(
    shm_mib=512,
    scratch_mib=1024,
    networks=("fast",),
    whole_cores=True,
    env={"LEVEL": "debug", "PATH_OF": "$(MUSTER_RANK)"},
    secret_env=(SecretVariable(variable="TOKEN", secret="hub", key="token"),),
    volumes=(ClaimMount(claim="data", path="/data", read_only=True),),
    service_account="trainer",
)
JOBS: dict[str, JobSpec] = {
    "one GPU": spec(TaskGroup(gpus=1), command=("python", "train.py")),
    "no GPU": spec(TaskGroup()),
    "a share": spec(TaskGroup(gpu_milli=100)),
    "a gang": spec(TaskGroup(name="worker", replicas=3, gpus=8, cpu_milli=96_000, memory_mib=900_000)),
    "MPI": spec(TaskGroup(name="launcher"), TaskGroup(name="worker", replicas=2, gpus=4), kind=JobKind.MPI),
    "parameter servers": spec(TaskGroup(name="ps"), TaskGroup(name="worker", replicas=2, gpus=1)),
    "every option": spec(TaskGroup(replicas=2, gpus=1, cpu_milli=4000), pod=EVERYTHING, grace_s=0.0),
    "no user namespace": spec(pod=PodOptions(user_namespace=False, shm_mib=0)),
    "long names": spec(TaskGroup(name="g" * 63, replicas=2), name="n" * 63, team="t" * 63),
}


@pytest.fixture
async def kube(plane: AnyPlane) -> AsyncIterator[KubeConnection]:
    async with await KubeConnection.open(kubeconfig=plane.kubeconfig(), user_agent="muster-test/1") as connection:
        yield connection


async def namespace(kube: KubeConnection, standard: str) -> str:
    """A namespace that enforces a standard of pod security, and warns of nothing."""
    name = f"pods-{standard}-{next(_NUMBERS)}"
    labels = {"pod-security.kubernetes.io/enforce": standard}
    await kube.create(NAMESPACES, {"metadata": {"name": name, "labels": labels}})
    return name


def policy(where: str, *, run_as: int | None = None, rdma: bool = False, lock: bool = False) -> PodPolicy:
    return PodPolicy(
        cluster="atlas",
        namespace=where,
        image="registry.example/train:1",
        sharing={"nvidia.com/gpu.shared": 125},
        rdma={"rdma/hca": 1} if rdma else {},
        lock_memory=lock,
        networks={"fast": {"k8s.v1.cni.cncf.io/networks": "infiniband"}},
        run_as=run_as,
        names_objects=True,
    )


def orders(job: JobSpec, offered: PodPolicy, *, claimed: bool = False) -> list[PodOrder]:
    return [order(job, slot, policy=offered, claimed=claimed) for slot in range(len(gang(job).slots))]


async def taken(kube: KubeConnection, wanted: list[PodOrder]) -> list[JsonObject]:
    """The pods as the API server would keep them."""
    return [await kube.create(PODS, pod_manifest(one), namespace=one.namespace, writing=CHECKED) for one in wanted]


@pytest.mark.parametrize("job", JOBS.values(), ids=JOBS)
async def test_the_api_server_takes_every_pod_under_the_baseline_standard(kube: KubeConnection, job: JobSpec) -> None:
    for pod in await taken(kube, orders(job, policy(await namespace(kube, "baseline")))):
        assert at(pod, "spec", "nodeName") is None


@pytest.mark.parametrize("job", JOBS.values(), ids=JOBS)
async def test_with_a_user_of_their_own_pods_pass_the_restricted_standard(kube: KubeConnection, job: JobSpec) -> None:
    await taken(kube, orders(job, policy(await namespace(kube, "restricted"), run_as=1000)))


async def test_root_in_the_image_does_not_pass_the_restricted_standard(kube: KubeConnection) -> None:
    with pytest.raises(ForbiddenError, match="violates PodSecurity"):
        await taken(kube, orders(JOBS["one GPU"], policy(await namespace(kube, "restricted"))))


async def test_devices_between_nodes_pass_the_standards_and_locked_memory_does_not(kube: KubeConnection) -> None:
    several = JOBS["a gang"]
    await taken(kube, orders(several, policy(await namespace(kube, "baseline"), rdma=True)))
    await taken(kube, orders(several, policy(await namespace(kube, "restricted"), rdma=True, run_as=1000)))
    with pytest.raises(ForbiddenError, match="IPC_LOCK"):
        await taken(kube, orders(several, policy(await namespace(kube, "baseline"), rdma=True, lock=True)))
    await taken(kube, orders(several, policy(await namespace(kube, "privileged"), rdma=True, lock=True)))


async def test_whole_cores_make_a_pod_guaranteed(kube: KubeConnection) -> None:
    (first, _) = await taken(kube, orders(JOBS["every option"], policy(await namespace(kube, "baseline"))))
    assert text(first, "status", "qosClass") == "Guaranteed"
    (other,) = await taken(kube, orders(JOBS["one GPU"], policy(await namespace(kube, "baseline"))))
    assert text(other, "status", "qosClass") == "Burstable"


async def test_a_gangs_service_and_claims_are_taken(kube: KubeConnection) -> None:
    where = await namespace(kube, "baseline")
    job = JOBS["a gang"]
    service = gang_service(gang(job), policy(where))
    assert service is not None
    made = await kube.create(SERVICES, service, namespace=where, writing=CHECKED)
    assert text(made, "spec", "clusterIP") == "None"
    for one in orders(job, policy(where), claimed=True):
        pod = await kube.create(PODS, pod_manifest(one), namespace=where, writing=CHECKED)
        (named,) = objects(pod, "spec", "resourceClaims")
        claim = claim_manifest(
            text(named, "resourceClaimName"),
            namespace=where,
            labels={},
            pod=(one.name, "an-uid"),
            device_class="gpu.muster.dev",
            count=one.gpus,
        )
        await kube.create(RESOURCE_CLAIMS, claim, namespace=where, writing=CHECKED)
