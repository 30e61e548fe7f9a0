"""Wiring only: the agent's core over the simulated cluster, and what its jobs print; or over Kubernetes."""

from muster.agent.core.behaviour import Behaviour
from muster.agent.core.core import AgentCore
from muster.agent.core.fleet import Fleet, Groups, openb_fleet, regular_fleet
from muster.agent.core.local.cluster import LocalCluster
from muster.agent.core.simulated import SimulatedCluster
from muster.agent.emission import Emission
from muster.agent.kubernetes.backend import new_core, new_sink, node_policy
from muster.agent.local.sink import LocalSink
from muster.agent.unheard import Unheard
from muster.bus.clock import SystemTime
from muster.bus.declaration import Declaration
from muster.bus.kubernetes_settings import KubernetesSettings
from muster.bus.service import CoreService, Hosted
from muster.bus.settings import FleetSettings, LocalSettings, Settings
from muster.core.settings import ScalingSettings, SimulatedWorkSettings, SimulationSettings
from muster.schemas.registry import StreamRole

DECLARATION = Declaration(
    service="agent",
    folds=(StreamRole.LOG,),
    publishes=("logs.{cluster}.*",),
    withholds=True,  # nodes that somebody closed in Kubernetes
)


def services(settings: Settings) -> tuple[CoreService | Hosted, ...]:
    """One agent for the cluster.

    Raises OSError or OpenbFormatError if the node list cannot be read, CpuSetError for reserved CPUs that cannot be.
    """
    if settings.kubernetes is not None:
        return (_kubernetes_agent(settings, settings.kubernetes),)
    if settings.local is not None:
        return (_local_agent(settings, settings.local),)
    behaviour = behaviour_of(settings.simulation, settings.preflight.simulated)
    fleet = read_fleet(settings.fleet)
    groups = groups_of(settings.scaling)
    return (
        CoreService(
            declaration=DECLARATION,
            role=StreamRole.LOG,
            core=lambda: AgentCore(SimulatedCluster(fleet, behaviour, groups)),
            sink=lambda: Unheard(Emission(cluster=settings.cluster, settings=settings.simulation, clock=SystemTime())),
            acts_without_term=True,  # what `Unheard` ends, an agent ends that was started anew, too
        ),
    )


def _kubernetes_agent(stack: Settings, settings: KubernetesSettings) -> CoreService:
    """Telemetry and output of real pods are read where they are made: by DCGM exporters, and by `kubectl logs`."""
    operated = next((fabric.name for fabric in stack.fabrics if fabric.driver == "operator"), "")
    node_policy(settings)  # what cannot be read stops the start, not the first fold
    return CoreService(
        declaration=DECLARATION,
        role=StreamRole.LOG,
        core=lambda: new_core(stack.cluster, settings, stack.scaling, operated=operated, preflight=stack.preflight),
        sink=lambda: Unheard(new_sink(settings)),
        acts_without_term=True,  # what `Unheard` ends, an agent ends that was started anew, too
    )


def _local_agent(stack: Settings, settings: LocalSettings) -> CoreService:
    """The worked example of an adapter: jobs are processes of this machine."""
    fleet = read_fleet(stack.fleet)
    return CoreService(
        declaration=DECLARATION,
        role=StreamRole.LOG,
        core=lambda: AgentCore(LocalCluster(fleet)),
        sink=lambda: Unheard(LocalSink(cluster=stack.cluster, settings=settings, clock=SystemTime())),
        acts_without_term=True,  # what `Unheard` ends, an agent ends that was started anew, too
    )


def read_fleet(settings: FleetSettings) -> Fleet:
    """The simulated nodes, from the openb node list if one is named."""
    if settings.csv is not None:
        return openb_fleet(settings.csv.read_text(encoding="utf-8"), file=str(settings.csv))
    return regular_fleet(
        nodes=settings.nodes,
        gpus_per_node=settings.gpus_per_node,
        gpu_model=settings.gpu_model,
        cpu_milli=settings.cpu_milli,
        memory_mib=settings.memory_mib,
        rack_size=settings.rack_size,
        racks_per_block=settings.racks_per_block,
        nvlink_size=settings.nvlink_size,
        kubelet_picks=settings.kubelet_picks,
        share_milli=settings.share_milli,
        prefix=settings.prefix,
    )


def behaviour_of(settings: SimulationSettings, work: SimulatedWorkSettings | None = None) -> Behaviour:
    """Return how simulated pods and nodes behave. work: how nodes are checked and worked on."""
    return Behaviour(**dict(settings), work=work or SimulatedWorkSettings())


def groups_of(settings: ScalingSettings) -> Groups:
    """The simulated node groups."""
    return Groups({group.name: group for group in settings.groups}, visible_s=settings.visible_s)
