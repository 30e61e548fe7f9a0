"""A real API server that serves `resource.k8s.io/v1beta1` alone, as Kubernetes 1.32 does, and its upgrade to v1."""

import itertools
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from contract.kube.devices import DeviceKindsContract
from kit.kube.choosers import DRIVER, WAIT_S, Chooser, held, open_chooser
from kit.kube.manifests import K8S, kubectl
from kit.kube.planes import ORDINARY, SHARED, open_plane
from kit.stack.living import job
from kit.waiting import until_async
from muster.kube.connection import KubeConnection
from muster.kube.errors import ForbiddenError
from muster.kube.objects import JsonObject, at, objects
from muster.kube.resources import CONFIG_MAPS, NAMESPACES, RESOURCE_CLAIMS
from muster.kube.shapes import Patch
from muster.schemas.job import JobSpec, Phase
from muster.schemas.views import JobView
from muster_tools.local_kubernetes.plane import ControlPlane

pytestmark = pytest.mark.asyncio(loop_scope="module")

OLD = replace(
    SHARED,
    emulated_version="1.32",
    feature_gates={"DynamicResourceAllocation": True},
    runtime_config={"resource.k8s.io/v1beta1": True},
)
NEW = replace(SHARED, runtime_config={"resource.k8s.io/v1beta1": False, "resource.k8s.io/v1beta2": False})
_NUMBERS = itertools.count()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def old() -> AsyncIterator[ControlPlane]:
    async with open_plane(OLD) as plane:
        kubectl(plane, "apply", "-f", str(K8S / "base" / "namespaces.yaml"))
        yield plane


@pytest_asyncio.fixture(loop_scope="module")
async def kube(old: ControlPlane) -> AsyncIterator[KubeConnection]:
    async with await KubeConnection.open(kubeconfig=old.kubeconfig(), user_agent="muster-test/1") as connection:
        yield connection


@pytest_asyncio.fixture(loop_scope="module")
async def space(kube: KubeConnection) -> str:
    name = f"older-{next(_NUMBERS)}"
    await kube.create(NAMESPACES, {"metadata": {"name": name}})
    return name


@pytest.fixture
def version() -> str:
    return "v1beta1"


class TestRealV1Beta1(DeviceKindsContract):
    """The same as of a fake one, and as of v1."""


async def test_a_manifest_of_a_version_that_is_not_served_is_refused_and_the_older_one_taken(old: ControlPlane) -> None:
    with pytest.raises(AssertionError, match=r'no matches for kind "DeviceClass" in version "resource\.k8s\.io/v1"'):
        kubectl(old, "apply", "--dry-run=server", "-k", str(K8S / "base" / "dra"))
    said = kubectl(old, "apply", "--server-side", "-k", str(K8S / "base" / "dra-v1beta1"))
    assert "deviceclass.resource.k8s.io/gpu.muster.dev serverside-applied" in said
    assert "Warning" not in said


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
async def test_manifests_of_older_versions_differ_in_the_device_class_alone(old: ControlPlane, version: str) -> None:
    newest = kubectl(old, "kustomize", str(K8S / "base" / "dra"))
    older = kubectl(old, "kustomize", str(K8S / "base" / f"dra-{version}"))
    device_class = "apiVersion: resource.k8s.io/{}\nkind: DeviceClass"
    assert newest.count(device_class.format("v1")) == 1
    assert older == newest.replace(device_class.format("v1"), device_class.format(version))


async def test_others_may_not_allocate_devices_of_our_nodes(
    old: ControlPlane, kube: KubeConnection, space: str
) -> None:
    """The policies are those of the test before, and their words too."""
    owned: JsonObject = {"data": {"owned-node": DRIVER}}
    await kube.patch(CONFIG_MAPS, "muster-own-nodes", owned, kind=Patch.MERGE, namespace="muster")
    kubectl(
        old, "create", "clusterrole", "claims", "--verb=create,get,update",
        "--resource=resourceclaims.resource.k8s.io,resourceclaims.resource.k8s.io/status",
    )  # fmt: skip
    kubectl(old, "create", "clusterrolebinding", "claims", "--clusterrole=claims", f"--user={ORDINARY}")
    async with await KubeConnection.open(kubeconfig=old.kubeconfig(ORDINARY), user_agent="other/1") as ordinary:

        async def allocates(name: str, node: str) -> str:
            """Why not, "" if so."""
            request = {"name": "r", "exactly": {"deviceClassName": "gpu.muster.dev"}}
            body: JsonObject = {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}}
            claim = await ordinary.create(RESOURCE_CLAIMS, body, namespace=space)
            result = {"request": "r", "driver": DRIVER, "pool": node, "device": "gpu-0"}
            claim["status"] = {"allocation": {"devices": {"results": [result]}}}
            try:
                await ordinary.replace(RESOURCE_CLAIMS, name, claim, namespace=space, subresource="status")
            except ForbiddenError as refused:
                return str(refused)
            return ""

        tries = (f"try-{number}" for number in itertools.count())

        async def is_refused() -> bool:
            return "is given by Muster alone" in await allocates(next(tries), "owned-node")

        await until_async(is_refused)  # policies take a moment to be in force
        assert await allocates("elsewhere", "other-node") == ""


@pytest_asyncio.fixture(loop_scope="module")
async def chooser(old: ControlPlane, tmp_path: Path) -> AsyncIterator[Chooser]:
    async with open_chooser(old, tmp_path / "state", devices_api="v1beta1") as opened:
        yield opened


async def test_jobs_get_chosen_devices_before_an_upgrade_and_after_it(old: ControlPlane, chooser: Chooser) -> None:
    """The agent that began with v1beta1 goes on when v1 alone is served."""
    muster = chooser.harness.muster
    early = await muster.submit(lasting("early", gpus=4, replicas=3))
    await chooser.harness.job_that(early.id, is_running, WAIT_S)
    assert len(set(held(await chooser.claims()))) == 12

    await old.upgrade(NEW)
    late = await muster.submit(lasting("late", gpus=4))
    await chooser.harness.job_that(late.id, is_running, WAIT_S)
    claims = await chooser.claims()
    assert len(held(claims)) == len(set(held(claims))) == 16
    assert all(len(objects(claim, "status", "reservedFor")) == 1 for claim in claims)
    assert {at(claim, "apiVersion") for claim in claims} <= {None, "resource.k8s.io/v1"}

    async def tells_v1() -> bool:
        described = [fact for fact in await chooser.harness.facts() if fact.name == "described"]
        return "resource.k8s.io/v1" in described[-1].payload.served  # type: ignore[attr-defined]

    await until_async(tells_v1, patience_s=WAIT_S)
    for one in (early, late):
        await muster.cancel(one.id)
    await chooser.until_nothing_is_left()


def lasting(name: str, *, gpus: int, replicas: int = 1) -> JobSpec:
    """A job whose pods run on."""
    return job(name, gpus=gpus, replicas=replicas).model_copy(update={"labels": {}})


def is_running(view: JobView) -> bool:
    return view.phase is Phase.RUNNING
