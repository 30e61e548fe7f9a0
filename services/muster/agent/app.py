"""Wire the agent: its core over a simulated cluster, Kubernetes or local processes, and the sink of each."""

from muster.agent.core.behaviour import Behaviour
from muster.agent.core.core import AgentCore
from muster.agent.core.fleet import Fleet, Groups, openb_fleet, regular_fleet
from muster.agent.core.local.cluster import LocalCluster
from muster.agent.core.simulated import SimulatedCluster
from muster.agent.declaration import DECLARATION
from muster.agent.emission import Emission
from muster.agent.kubernetes.backend import new_core, new_sink, node_policy
from muster.agent.local.sink import LocalSink
from muster.agent.unheard import Unheard
from muster.bus.clock import SystemTime
from muster.bus.kubernetes_settings import KubernetesSettings
from muster.bus.service import CoreService, Hosted
from muster.bus.settings import FleetSettings, LocalSettings, Settings
from muster.core.settings import ScalingSettings, SimulatedWorkSettings, SimulationSettings
from muster.schemas.registry import StreamRole


def services(settings: Settings) -> tuple[CoreService | Hosted, ...]:
    """Return the agent of the cluster.

    Raises OSError or OpenbFormatError if the node list cannot be read, CpuSetError for invalid reserved CPUs.
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
            acts_without_term=True,  # a restarted agent must run `Unheard` before it has a term
        ),
    )


def _kubernetes_agent(stack: Settings, settings: KubernetesSettings) -> CoreService:
    """Return the agent for an API server. DCGM exporters and `kubectl logs` serve telemetry and output of real pods."""
    operated = next((fabric.name for fabric in stack.fabrics if fabric.driver == "operator"), "")
    node_policy(settings)  # invalid settings stop the start, not the first fold
    return CoreService(
        declaration=DECLARATION,
        role=StreamRole.LOG,
        core=lambda: new_core(stack.cluster, settings, stack.scaling, operated=operated, preflight=stack.preflight),
        sink=lambda: Unheard(new_sink(settings)),
        acts_without_term=True,  # a restarted agent must run `Unheard` before it has a term
    )


def _local_agent(stack: Settings, settings: LocalSettings) -> CoreService:
    """Return the agent for local processes, the worked example of an adapter."""
    fleet = read_fleet(stack.fleet)
    return CoreService(
        declaration=DECLARATION,
        role=StreamRole.LOG,
        core=lambda: AgentCore(LocalCluster(fleet)),
        sink=lambda: Unheard(LocalSink(cluster=stack.cluster, settings=settings, clock=SystemTime())),
        acts_without_term=True,  # a restarted agent must run `Unheard` before it has a term
    )


def read_fleet(settings: FleetSettings) -> Fleet:
    """Return the simulated nodes, from the openb node list if the settings name one."""
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
    """Return the behavior of simulated pods and nodes; `work` is that of checks and actions on nodes."""
    return Behaviour(**dict(settings), work=work or SimulatedWorkSettings())


def groups_of(settings: ScalingSettings) -> Groups:
    """Return the simulated node groups."""
    return Groups({group.name: group for group in settings.groups}, visible_s=settings.visible_s)
