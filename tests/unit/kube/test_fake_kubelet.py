"""The fake kubelet does to pods what a kubelet does, so that tests of Muster see it."""

from collections.abc import AsyncIterator

import pytest

from kit.kube.fake import EXIT_CODE, OUT_OF, RUN_S, FakeKube, FakeKubelet, node, pod
from kit.waiting import until
from muster.kube.objects import JsonObject, at, objects, text
from muster.kube.resources import NODES, PODS


@pytest.fixture
async def kube() -> AsyncIterator[FakeKube]:
    kube = FakeKube()
    kube.add(NODES, node("n1", gpus=8))
    with FakeKubelet(kube):
        yield kube


def phase(kube: FakeKube, name: str) -> str:
    found = kube.store.find(PODS, name, "default")
    return "gone" if found is None else text(found, "status", "phase")


def of(kube: FakeKube, name: str) -> JsonObject:
    return kube.store.get(PODS, name, "default")


async def test_only_a_bound_pod_runs(kube: FakeKube) -> None:
    kube.add(PODS, pod("bound", node_name="n1"))
    kube.add(PODS, pod("waiting"))
    await until(lambda: phase(kube, "bound") == "Running")
    assert phase(kube, "waiting") == "Pending"


@pytest.mark.parametrize(("code", "ended"), [("0", "Succeeded"), ("3", "Failed")])
async def test_a_pod_ends_as_its_annotations_say(kube: FakeKube, code: str, ended: str) -> None:
    kube.add(PODS, pod("p", node_name="n1", annotations={RUN_S: "0", EXIT_CODE: code}))
    await until(lambda: phase(kube, "p") == ended)
    (status,) = objects(of(kube, "p"), "status", "containerStatuses")
    assert at(status, "state", "terminated", "exitCode") == int(code)


async def test_a_node_without_room_refuses_a_pod(kube: FakeKube) -> None:
    kube.add(PODS, pod("first", gpus=6, node_name="n1"))
    await until(lambda: phase(kube, "first") == "Running")
    kube.add(PODS, pod("second", gpus=4, node_name="n1"))
    kube.add(PODS, pod("told", node_name="n1", annotations={OUT_OF: "cpu"}))
    await until(lambda: phase(kube, "second") == phase(kube, "told") == "Failed")
    assert text(of(kube, "second"), "status", "reason") == "OutOfnvidia.com/gpu"
    assert text(of(kube, "told"), "status", "reason") == "OutOfcpu"


async def test_room_comes_back_when_a_pod_ends(kube: FakeKube) -> None:
    kube.add(PODS, pod("first", gpus=8, node_name="n1", annotations={RUN_S: "0"}))
    await until(lambda: phase(kube, "first") == "Succeeded")
    kube.add(PODS, pod("second", gpus=8, node_name="n1"))
    await until(lambda: phase(kube, "second") == "Running")


async def test_a_deleted_pod_ends_and_goes(kube: FakeKube) -> None:
    ends: list[JsonObject] = []
    kube.store.listeners.append(lambda event: ends.append(event.now.obj))
    kube.add(PODS, pod("p", node_name="n1"))
    await until(lambda: phase(kube, "p") == "Running")
    kube.remove(PODS, "p", "default", grace_s=None)
    await until(lambda: phase(kube, "p") == "gone")
    codes = [
        at(status, "state", "terminated", "exitCode")
        for obj in ends
        for status in objects(obj, "status", "containerStatuses")
    ]
    assert 143 in codes
