"""The agent's part in composable machines over HTTP to a fake API server: watches, patches, facts, status."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from kit.agent_shell import AgentShell
from kit.kube.fake import FakeKube, Refusal
from kit.kube.fake.samples import node
from muster.agent.core.cluster import AddNode
from muster.agent.kubernetes.cdi import CAPACITY
from muster.bus.kubernetes_settings import KubernetesSettings, PluginPods, ScaleTargets
from muster.bus.service import LeaderHandle
from muster.core.settings import GroupSettings, ScalingSettings
from muster.kube import resources
from muster.kube.connection import KubeConnection
from muster.kube.objects import JsonObject, at, integer, mapping, strings, text
from muster.schemas.devices import ComposabilitySpec, RequestPhase
from muster.schemas.facts.composability import RequestAccepted, RequestEnded, RequestMoved
from muster.schemas.facts.device import DeviceAttached
from muster.schemas.facts.node import NodeJoined

SETTINGS = KubernetesSettings(
    image="busybox",
    devices="device-plugin",
    requests="muster",
    scaling=ScaleTargets(namespace="capi", names={"hgx": "hgx-set"}, autoscaler=True),
    plugin_pods=(PluginPods(namespace="gpu-operator", labels={"app": "plugin"}),),
)
SCALING = ScalingSettings(
    groups=(GroupSettings(name="hgx", composable=True, gpus_max=8, gpu_models=("A100",), fabric="f", nodes_max=9),)
)


class Shell(AgentShell):
    """At a fake API server."""

    def __init__(self, kube: FakeKube) -> None:
        self.kube = kube

        async def connect() -> KubeConnection:
            return KubeConnection.plain(kube.url, user_agent="muster-agent/test")

        super().__init__(SETTINGS, SCALING, connect)

    def is_gone(self, resource: resources.Resource, name: str) -> bool:
        try:
            self.get(resource, name)
        except Refusal:
            return True
        return False

    def get(self, resource: resources.Resource, name: str, namespace: str = "") -> JsonObject:
        return self.kube.store.get(resource, name, namespace)


@asynccontextmanager
async def opened() -> AsyncIterator[Shell]:
    kube = FakeKube()
    await kube.start()
    for namespace in ("capi", "gpu-operator"):
        kube.add(resources.NAMESPACES, {"metadata": {"name": namespace}})
    kube.add(resources.MACHINE_SETS, {"metadata": {"name": "hgx-set", "namespace": "capi"}, "spec": {"replicas": 1}})
    shell = Shell(kube)
    await shell.sink.open(shell.core, None, LeaderHandle())
    try:
        yield shell
    finally:
        await shell.sink.close()
        await kube.stop()


def machine(name: str) -> JsonObject:
    return {
        "metadata": {
            "name": name, "namespace": "capi",
            "ownerReferences": [{"kind": "MachineSet", "name": "hgx-set", "uid": "u"}],
        },
        "spec": {},
    }  # fmt: skip


async def test_a_node_comes_by_a_replica_and_joins_as_that_of_the_choice() -> None:
    async with opened() as shell:
        shell.core.cluster.carry_out(AddNode("s000001", "hgx", "hgx-0001", shell.time.wall()))
        await shell.until(
            lambda: integer(shell.get(resources.MACHINE_SETS, "hgx-set", "capi"), "spec", "replicas") == 2
        )
        shell.kube.add(resources.MACHINES, machine("m2"))
        shell.kube.add(resources.NODES, node("ip-10-0-0-7", gpus=8))
        shell.kube.set_status(resources.MACHINES, "m2", {"nodeRef": {"name": "ip-10-0-0-7"}}, "capi")
        await shell.until(
            lambda: any(
                isinstance(fact.payload, NodeJoined) and fact.payload.scale == "s000001"
                for fact in shell.facts("node", "joined")
            )
        )
        shown = strings(shell.get(resources.MACHINE_SETS, "hgx-set", "capi"), "metadata", "annotations")
        assert shown["muster.dev/spec"] == "spec-fixed"
        assert shown[f"{CAPACITY}gpu-count"] == "8"
        assert integer(shell.get(resources.MACHINE_SETS, "hgx-set", "capi"), "spec", "replicas") == 2


async def test_the_autoscalers_taints_events_and_status_become_facts() -> None:
    async with opened() as shell:
        shell.kube.add(resources.NODES, node("n1", gpus=8))
        await shell.until(lambda: bool(shell.facts("node", "joined")))
        shell.kube.change(
            resources.NODES,
            "n1",
            {"spec": {"taints": [{"key": "DeletionCandidateOfClusterAutoscaler", "effect": "PreferNoSchedule"}]}},
        )
        await shell.until(lambda: bool(shell.facts("autoscaler", "node-unneeded")))
        assert shell.facts("autoscaler", "node-unneeded")[0].subject_id == "n1"
        shell.kube.change(resources.MACHINE_SETS, "hgx-set", {"spec": {"replicas": 4}}, "capi")
        await shell.until(lambda: bool(shell.facts("autoscaler", "node-wanted")))
        assert shell.facts("autoscaler", "node-wanted")[0].subject_id == "hgx"
        watched = [one.query for one in shell.kube.asked("watch", "events") + shell.kube.asked("list", "events")]
        assert all("reason=" in str(query) for query in watched)


async def test_an_object_is_kept_served_and_let_go() -> None:
    async with opened() as shell:
        spec = {"type": "gpu", "model": "A100", "size": 1, "target_node": "n1"}
        shell.kube.add(resources.COMPOSABILITY_REQUESTS, {"metadata": {"name": "gpus"}, "spec": {"resource": spec}})
        await shell.until(lambda: bool(shell.facts("composability", "compose-requested")))
        body = ComposabilitySpec.model_validate(spec)
        shell.write("composer", "composability", "gpus", "accepted",
                  RequestAccepted(spec=body, principal="kubernetes:composabilityrequests"))  # fmt: skip
        shell.write("composer", "composability", "gpus", "moved", RequestMoved(phase=RequestPhase.RUNNING))
        raw = lambda: shell.get(resources.COMPOSABILITY_REQUESTS, "gpus")  # noqa: E731 - read again and again
        await shell.until(lambda: text(raw(), "status", "state") == "Running")
        shell.kube.remove(resources.COMPOSABILITY_REQUESTS, "gpus")
        await shell.until(lambda: bool(shell.facts("composability", "decompose-requested")))
        assert at(raw(), "metadata", "deletionTimestamp") is not None
        shell.write("composer", "composability", "gpus", "ended", RequestEnded())
        await shell.until(lambda: shell.is_gone(resources.COMPOSABILITY_REQUESTS, "gpus"))


async def test_after_an_attach_only_that_nodes_plugin_starts_anew() -> None:
    async with opened() as shell:
        for name in ("n1", "n2"):
            shell.kube.add(resources.NODES, node(name, gpus=0))
            plugin: JsonObject = {
                "metadata": {"name": f"plugin-{name}", "namespace": "gpu-operator", "labels": {"app": "plugin"}},
                "spec": {"nodeName": name, "containers": [{"name": "c", "image": "i"}]},
                "status": {"phase": "Running"},
            }
            shell.kube.add(resources.PODS, plugin)
        await shell.until(lambda: len(shell.facts("node", "joined")) == 2)
        attached = DeviceAttached(device_uuid="GPU-a", device_id="res-1", node="n1", model="A100")
        shell.write("composer", "attachment", "gpu-1", "attached", attached)
        await shell.until(lambda: bool(shell.kube.asked("delete", "pods")))
        assert [one.name for one in shell.kube.asked("delete", "pods")] == ["plugin-n1"]
        new = {**plugin, "metadata": {**mapping(plugin, "metadata"), "name": "plugin-n1-b"}}
        new["spec"] = {**mapping(plugin, "spec"), "nodeName": "n1"}
        shell.kube.add(resources.PODS, new)
        shell.kube.set_status(resources.PODS, "plugin-n1-b", {"phase": "Running"}, "gpu-operator")
        shell.kube.set_status(
            resources.NODES, "n1", {"allocatable": {"nvidia.com/gpu": "1"}, "capacity": {"nvidia.com/gpu": "1"}}
        )
        await shell.until(
            lambda: any(
                isinstance(fact.payload, NodeJoined) and "GPU-a" in fact.payload.gpu_uuids
                for fact in shell.facts("node", "joined")
            )
        )
        assert shell.facts("node", "joined")[-1].payload.gpu_model == "A100"  # type: ignore[attr-defined]
        assert len(shell.kube.asked("delete", "pods")) == 1


@pytest.mark.parametrize("group", ["cluster.x-k8s.io", "cro.hpsys.ibm.ie.com"])
async def test_what_is_not_served_is_said_and_the_rest_goes_on(group: str) -> None:
    async with opened() as shell:
        pass
    kube = FakeKube(without=(group,))
    await kube.start()
    shell = Shell(kube)
    await shell.sink.open(shell.core, None, LeaderHandle())
    try:
        kube.add(resources.NODES, node("n1", gpus=1))
        await shell.until(lambda: bool(shell.facts("node", "joined")))
        (described,) = shell.facts("cluster", "described")
        assert any(group in words for words in described.payload.lacking)  # type: ignore[attr-defined]
    finally:
        await shell.sink.close()
        await kube.stop()
