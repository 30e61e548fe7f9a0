"""The local control plane: what it is made of answers, and single processes come and go."""

import subprocess

import psutil
import pytest

from kit.kube.planes import ORDINARY, AnyPlane, kubectl_argv, open_plane
from kit.waiting import until_async
from muster_tools.local_kubernetes.errors import LocalPlaneError
from muster_tools.local_kubernetes.fleet import make_fleet
from muster_tools.local_kubernetes.nodes import Devices, NodeShape, device_uuid
from muster_tools.local_kubernetes.options import PlaneOptions

FORBIDDEN = 403


def kubectl(plane: AnyPlane, *words: str, user: str = "admin") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        kubectl_argv(plane, *words, user=user), capture_output=True, text=True, timeout=60, check=False
    )


async def test_the_admin_may_do_everything(plane: AnyPlane) -> None:
    said = kubectl(plane, "auth", "can-i", "*", "*", "--all-namespaces")

    assert said.stdout.strip() == "yes"


async def test_an_ordinary_user_is_known_and_may_do_nothing_yet(plane: AnyPlane) -> None:
    async with plane.client(ORDINARY) as client, client.get("/api/v1/secrets") as answer:
        body = await answer.json()

    assert answer.status == FORBIDDEN
    assert f'User "{ORDINARY}"' in body["message"]


async def test_a_user_that_was_not_asked_for_has_no_kubeconfig(plane: AnyPlane) -> None:
    with pytest.raises(LocalPlaneError, match="no 'nobody'"):
        plane.kubeconfig("nobody")


async def test_the_api_server_comes_back_where_it_was_with_what_it_held() -> None:
    async with open_plane(PlaneOptions(kwok=False)) as plane, plane.client() as client:
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kept"}}
        async with client.post("/api/v1/namespaces", json=space) as answer:
            answer.raise_for_status()

        await plane.stop("kube-apiserver-0")
        assert set(plane.pids) == {"etcd"}
        await plane.start("kube-apiserver-0")

        async with client.get("/api/v1/namespaces/kept") as answer:
            assert answer.ok


async def test_two_api_servers_serve_the_same_objects() -> None:
    async with open_plane(PlaneOptions(kwok=False, apiservers=2)) as plane:
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "both"}}
        async with plane.client(server=0) as first, first.post("/api/v1/namespaces", json=space) as answer:
            assert answer.ok
        async with plane.client(server=1) as second, second.get("/api/v1/namespaces/both") as answer:
            assert answer.ok


async def test_an_older_version_is_emulated() -> None:
    async with (
        open_plane(PlaneOptions(kwok=False, emulated_version="1.32")) as plane,
        plane.client() as client,
        client.get("/version") as answer,
    ):
        assert (await answer.json())["emulationMinor"] == "32"


async def test_nothing_is_left_when_the_plane_ends() -> None:
    async with open_plane() as plane:
        pids = dict(plane.pids)
        assert set(pids) == {"etcd", "kube-apiserver-0", "kube-controller-manager", "kwok"}

    assert not any(psutil.pid_exists(pid) for pid in pids.values())
    assert not plane.directory.exists()


async def test_pods_run_end_and_stop_as_their_annotations_say(plane: AnyPlane) -> None:
    node = {"metadata": {"name": "stage-node"}, "status": {"capacity": {"cpu": "8", "nvidia.com/gpu": "8"}}}
    async with plane.client() as client:

        async def phase(name: str) -> str:
            async with client.get(f"/api/v1/namespaces/default/pods/{name}") as answer:
                return str((await answer.json())["status"]["phase"]) if answer.ok else "gone"

        async def phase_is(name: str, wanted: str) -> bool:
            return await phase(name) == wanted

        async with client.post("/api/v1/nodes", json=node) as answer:
            answer.raise_for_status()
        for name, notes in (("ends", {"muster.dev/run-s": "0.1", "muster.dev/exit-code": "3"}), ("stays", {})):
            spec = {
                "nodeName": "stage-node",
                "restartPolicy": "Never",
                "containers": [{"name": "main", "image": "none"}],
            }
            pod = {"metadata": {"name": name, "annotations": notes}, "spec": spec}
            async with client.post("/api/v1/namespaces/default/pods", json=pod) as answer:
                answer.raise_for_status()

        await until_async(lambda: phase_is("ends", "Failed"))
        await until_async(lambda: phase_is("stays", "Running"))
        async with client.delete("/api/v1/namespaces/default/pods/stays") as answer:
            answer.raise_for_status()
        await until_async(lambda: phase_is("stays", "gone"))
        async with client.get("/api/v1/namespaces/default/pods/ends") as answer:
            state = (await answer.json())["status"]["containerStatuses"][0]["state"]
            assert state["terminated"]["exitCode"] == 3


async def test_nodes_of_a_fleet_stay_ready_and_publish_their_devices(plane: AnyPlane) -> None:
    async with plane.client() as client:
        fleet = await make_fleet(client, 5, shape=NodeShape(devices=Devices.DRA), prefix="fleet")

        async with client.get(f"/api/v1/nodes/{fleet.names[4]}") as answer:
            conditions = (await answer.json())["status"]["conditions"]
        async with client.get(
            "/apis/resource.k8s.io/v1/resourceslices?fieldSelector=spec.nodeName=fleet-0004"
        ) as answer:
            (found,) = (await answer.json())["items"]

    assert [each["status"] for each in conditions if each["type"] == "Ready"] == ["True"]
    assert found["spec"]["devices"][7]["attributes"]["uuid"]["string"] == device_uuid(4, 7)
