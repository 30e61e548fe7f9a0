"""The simulated cluster keeps the contract of all clusters."""

from contract.cluster.suite import ClusterContract, moment
from muster.agent.core.behaviour import Behaviour
from muster.agent.core.cluster import Cluster, NodeLostSeen
from muster.agent.core.fleet import regular_fleet
from muster.agent.core.simulated import SimulatedCluster


class TestSimulatedCluster(ClusterContract):
    def new_cluster(self) -> Cluster:
        fleet = regular_fleet(
            nodes=2, gpus_per_node=8, gpu_model="H100", cpu_milli=1000, memory_mib=1000, rack_size=8, racks_per_block=8
        )
        return SimulatedCluster(fleet, Behaviour(seed=1, node_repair_s=120.0))

    def lose_node(self, cluster: Cluster, node: str, *, at_s: float) -> None:
        """A simulated node fails by rate only; what another agent has told counts as well."""
        cluster.acknowledge(NodeLostSeen(node), moment(at_s))
