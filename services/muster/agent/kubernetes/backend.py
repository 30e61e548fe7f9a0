"""Wire the Kubernetes cluster of the settings, and its sink.

The parts here are features of pods and nodes that depend on the API server; the cluster's core has their logic.
"""

import os
import socket
import zlib
from collections.abc import Sequence
from importlib.metadata import version

from typing_extensions import override

from muster.agent.core.core import AgentCore
from muster.agent.core.kubernetes import names
from muster.agent.core.kubernetes.cdi.composable import ComposableMachines
from muster.agent.core.kubernetes.chosen import ChosenDevices, DevicePolicy
from muster.agent.core.kubernetes.cluster import ClusterOptions, KubernetesCluster
from muster.agent.core.kubernetes.cpus import read_cpu_set
from muster.agent.core.kubernetes.describing import Devices, NodePolicy
from muster.agent.core.kubernetes.names import GPU_TAINT, OWN_TAINT
from muster.agent.core.kubernetes.node_jobs import WorkPolicy
from muster.agent.core.kubernetes.options import PodPolicy
from muster.agent.core.kubernetes.orders import PodOrders
from muster.agent.core.kubernetes.projections import NodeProjection, PodProjection
from muster.agent.core.kubernetes.published import ModelsByClaims
from muster.agent.core.kubernetes.views import NodeView, PodView
from muster.agent.core.kubernetes.worklist import Worklist
from muster.agent.core.workloads.adopted_pods import WorkloadPods
from muster.agent.core.workloads.pod_gangs import AdoptedProjection
from muster.agent.core.workloads.workloads import Workloads
from muster.agent.kubernetes.abilities import Abilities
from muster.agent.kubernetes.cdi import CdiPart, machines_of, plugin_of
from muster.agent.kubernetes.dra import DevicesPart
from muster.agent.kubernetes.gang_services import GangServicesPart
from muster.agent.kubernetes.metrics import MetricsPart
from muster.agent.kubernetes.parts import KindWatch, Part, Watch
from muster.agent.kubernetes.sink import KubernetesSink
from muster.agent.kubernetes.workloads import WorkloadsPart, workload_policy
from muster.bus.clock import SystemTime
from muster.bus.kubernetes_settings import KubernetesSettings
from muster.core import Instant
from muster.core.settings import PreflightSettings, ScalingSettings
from muster.kube.bounds import CONNECTIONS_MAX
from muster.kube.connection import KubeConnection, user_agent_of
from muster.kube.credentials import read_credentials
from muster.kube.holdings import Change
from muster.kube.objects import JsonObject, strings
from muster.kube.permissions import Feature
from muster.kube.resources import NAMESPACES, NODES, PODS
from muster.kube.shapes import Selection
from muster.schemas.pods import TEAM


class TeamNamespacesPart(Part):
    """Reads the team label of namespaces, set by the cluster's administrator.

    Used only if `kubernetes.namespace` has `{team}`.
    """

    features = (Feature.TEAM_NAMESPACES,)

    def __init__(self, cluster: KubernetesCluster) -> None:
        self._cluster = cluster

    @override
    def watches(self, abilities: Abilities) -> Sequence[Watch]:
        orders = self._cluster.manifests
        if not isinstance(orders, PodOrders) or not abilities.has(Feature.TEAM_NAMESPACES):
            return ()
        orders.team_of.clear()

        def feed(change: Change[str], now: Instant) -> None:  # noqa: ARG001 - the port
            if change.now is None:
                orders.team_of.pop(change.key.name, None)
            else:
                orders.team_of[change.key.name] = change.now

        return (KindWatch(NAMESPACES, _team, feed, select=Selection(labels=names.TEAM_LABEL), metadata_only=True),)


def _team(namespace: JsonObject) -> str:
    return strings(namespace, "metadata", "labels").get(names.TEAM_LABEL, "")


class PreflightPart(Part):
    """Enables checks in pods only if their gates can be opened."""

    features = (Feature.PREFLIGHT,)

    def __init__(self, cluster: KubernetesCluster) -> None:
        self._cluster = cluster

    @override
    def watches(self, abilities: Abilities) -> Sequence[Watch]:
        orders = self._cluster.manifests
        if isinstance(orders, PodOrders):
            orders.is_checking = abilities.has(Feature.PREFLIGHT)
        return ()


class NodeWorkPart(Part):
    """Enables work on nodes if it is permitted; otherwise requests are answered as impossible."""

    features = (Feature.NODE_WORK,)

    def __init__(self, cluster: KubernetesCluster) -> None:
        self._cluster = cluster

    @override
    def watches(self, abilities: Abilities) -> Sequence[Watch]:
        self._cluster.works.may_work = abilities.has(Feature.NODE_WORK)
        return ()


DISTRIBUTION = "gpumuster"


def new_core(
    cluster: str,
    settings: KubernetesSettings,
    scaling: ScalingSettings | None = None,
    *,
    operated: str = "",
    preflight: PreflightSettings | None = None,
) -> AgentCore:
    """Return an empty agent core over the Kubernetes cluster named `cluster`. Raises CpuSetError.

    `operated` is the fabric that the Composable Resource Operator controls, "" for none.
    """
    workloads = Workloads(workload_policy(cluster, settings))
    made = new_cluster(cluster, settings, workloads, scaling, operated=operated, preflight=preflight)
    machines = made.machines
    assert isinstance(machines, ComposableMachines), "`new_cluster` made it so"
    return AgentCore(made, workloads, machines.apply)


def new_cluster(
    name: str,
    settings: KubernetesSettings,
    workloads: Workloads,
    scaling: ScalingSettings | None = None,
    *,
    operated: str = "",
    preflight: PreflightSettings | None = None,
) -> KubernetesCluster:
    """Return a new, empty cluster; `workloads` are the objects that may own pods. Raises CpuSetError."""
    preflight = preflight or PreflightSettings()
    worklist = Worklist(seed_of_process())
    orders = PodOrders(pod_policy(name, settings, preflight_image=preflight.image))
    machines = machines_of(settings, scaling or ScalingSettings(), worklist, operated=operated)
    adopted = WorkloadPods(worklist, workloads)
    devices = ChosenDevices(device_policy(settings), worklist, orders, adopted)
    cluster = KubernetesCluster(
        ClusterOptions(
            cluster=name,
            namespace=settings.namespace,
            nodes=node_policy(settings),
            bind_s=settings.bind_s,
            lost_s=settings.lost_s,
            kept_s=settings.kept_s,
        ),
        orders,
        worklist=worklist,
        auxiliary=devices,
        devices=Devices() if settings.devices == "device-plugin" else devices,
        adopted=adopted,
        machines=machines,
        works=work_policy(name, preflight),
    )
    devices.belongs_to(cluster.nodes)
    workloads.templates.models = ModelsByClaims(cluster.nodes)
    machines.belongs_to(cluster.nodes)
    if machines.pool is not None:
        devices.on_claim = machines.pool.claim_seen
        devices.on_claim_gone = lambda view: machines.claim_gone(view.uid)
    return cluster


def new_sink(settings: KubernetesSettings) -> KubernetesSink:
    """Return the sink of one term."""

    async def connect() -> KubeConnection:
        return await open_connection(settings)

    def parts(core: AgentCore) -> Sequence[Part]:
        return (*parts_of(settings, core), MetricsPart(lambda: sink.watching))

    sink = KubernetesSink(
        settings,
        connect=connect,
        watches=watches_of,
        parts=parts,
        clock=SystemTime(),
        seed=seed_of_process(),
    )
    return sink


def parts_of(settings: KubernetesSettings, core: AgentCore) -> Sequence[Part]:
    """Return the parts beside pods and nodes."""
    now = SystemTime().wall
    assert isinstance(core.cluster, KubernetesCluster), "these are parts of a Kubernetes cluster"
    devices = core.cluster.auxiliary
    assert isinstance(devices, ChosenDevices), "`new_cluster` made it so"
    machines = core.cluster.machines
    assert isinstance(machines, ComposableMachines), "`new_cluster` made it so"
    return (
        PreflightPart(core.cluster),
        *((TeamNamespacesPart(core.cluster),) if TEAM in settings.namespace else ()),
        *((NodeWorkPart(core.cluster),) if core.cluster.works.policy.is_any else ()),
        DevicesPart(devices, is_wanted=settings.devices != "device-plugin", now=now),
        GangServicesPart(core.cluster, seed=seed_of_process()),
        WorkloadsPart(core.workloads, now=now, by_claims=settings.devices != "device-plugin"),
        CdiPart(settings, machines, core),
    )


async def open_connection(settings: KubernetesSettings) -> KubeConnection:
    """Open a connection that sends each request once, because only a leader may repeat it. Raises KubeConfigError."""
    return KubeConnection(
        await read_credentials(settings.kubeconfig, context=settings.context or ""),
        user_agent=user_agent_of("agent", version(DISTRIBUTION)),
        seed=seed_of_process(),
        connections_max=max(CONNECTIONS_MAX, settings.writes),
        connection_age_s_max=settings.connection_age_s,
        attempts_max=1,
    )


def watches_of(cluster: KubernetesCluster, settings: KubernetesSettings) -> Sequence[Watch]:
    """Return the watches of all pods, whose use counts, and of the nodes that Muster schedules."""

    def pod(change: Change[PodView], now: Instant) -> None:
        before, view = change.before, change.now
        if before is not None and (view is None or view.uid != before.uid):
            cluster.pod_gone(before)
        if view is not None:
            cluster.pod_seen(view, now)

    def node(change: Change[NodeView], now: Instant) -> None:
        if change.now is None:
            cluster.node_gone(change.key.name)
        else:
            cluster.node_seen(change.now, now)

    policy = node_policy(settings)
    work = cluster.works.policy
    nodes = NodeProjection(
        labels=policy.labels | work.labels,
        annotations=work.annotations | {settings.machine_annotation},
        tolerated=frozenset({GPU_TAINT, OWN_TAINT, settings.resource}),
    )
    adopted = AdoptedProjection(workload_policy("", settings))
    chosen = Selection(labels=",".join(f"{key}={value}" for key, value in sorted(settings.node_selector.items())))
    return (
        KindWatch(NODES, nodes, node, select=chosen),
        KindWatch(PODS, PodProjection(settings.resource, adopted, plugin_of(settings)), pod),
    )


def node_policy(settings: KubernetesSettings) -> NodePolicy:
    """Return the settings for describing nodes. Raises CpuSetError."""
    return NodePolicy(
        resource=settings.resource,
        model_label=settings.model_label,
        models=settings.models,
        levels=tuple(settings.levels.items()),
        group_label=settings.group_label,
        machine_annotation=settings.machine_annotation,
        machine_is_node=settings.requests == "operator",
        reserved_cpus=len(read_cpu_set(settings.reserved_cpus)),
        sharing=settings.sharing.profiles,
    )


def seed_of_process() -> int:
    """Return a seed for this replica, so that replicas do not retry together after a common failure."""
    return zlib.crc32(f"{socket.gethostname()}/{os.getpid()}".encode())


def pod_policy(cluster: str, settings: KubernetesSettings, *, preflight_image: str = "") -> PodPolicy:
    """Return the settings for pod manifests. `preflight_image` runs checks before the first step."""
    return PodPolicy(
        cluster=cluster,
        namespace=settings.namespace,
        resource=settings.resource,
        device_class=settings.device_class,
        sharing=settings.sharing.profiles,
        rdma=settings.network.rdma,
        lock_memory=settings.network.lock_memory,
        networks=settings.network.annotations,
        image=settings.image,
        preflight_image=preflight_image,
        user_namespaces=settings.user_namespaces,
        shm=settings.shm,
        run_as=settings.run_as,
        names_objects=settings.shared_objects or "{team}" in settings.namespace,
    )


def device_policy(settings: KubernetesSettings) -> DevicePolicy:
    """Return the settings for devices that Muster chooses. Raises CpuSetError."""
    return DevicePolicy(
        driver=settings.driver,
        models=settings.models,
        reserved=read_cpu_set(settings.reserved_cpus),
        threads=settings.cpu_threads,
        own_nodes=settings.own_nodes,
        namespace=settings.own_namespace,
    )


def work_policy(cluster: str, settings: PreflightSettings) -> WorkPolicy:
    """Return the settings for work on nodes."""
    nodes = settings.nodes
    return WorkPolicy(**{**dict(nodes), "image": nodes.image or settings.image}, cluster=cluster)
