"""The simulated cluster keeps the contract of all clusters."""

from contract.cluster.checked import CheckedContract
from contract.cluster.composable import ComposableContract
from contract.cluster.simulated_fleet import FLEET
from contract.cluster.suite import moment
from contract.cluster.worked_on import WorkedOnContract
from muster.agent.core.behaviour import Behaviour
from muster.agent.core.cluster import Cluster, NodeLostSeen
from muster.agent.core.fleet import Groups
from muster.agent.core.simulated import SimulatedCluster
from muster.core.settings import GroupSettings, SimulatedWorkSettings

BEHAVIOUR = Behaviour(seed=1, node_repair_s=120.0)
WORKERS = GroupSettings(name="workers", composable=True, nodes=1, provision_s=50.0, deprovision_s=20.0)


FAILING = Behaviour(seed=1, work=SimulatedWorkSettings(bad_nodes={"gpu-0001": "gpu-health"}))


class TestSimulatedCluster(ComposableContract, CheckedContract, WorkedOnContract):
    def new_cluster(self) -> Cluster:
        return SimulatedCluster(FLEET, BEHAVIOUR)

    def composable_cluster(self) -> Cluster:
        return SimulatedCluster(FLEET, BEHAVIOUR, Groups({"workers": WORKERS}, visible_s=10.0))

    def failing_cluster(self) -> Cluster:
        return SimulatedCluster(FLEET, FAILING)

    def lose_node(self, cluster: Cluster, node: str, *, at_s: float) -> None:
        """A simulated node fails by rate only; what another agent has told counts as well."""
        cluster.acknowledge(NodeLostSeen(node), moment(at_s))
