"""What every cluster backend keeps whose nodes and devices come and go. Moments as in `suite`."""

from abc import abstractmethod

from contract.cluster.suite import ClusterContract, moment
from muster.agent.core.cluster import (
    AddNode,
    CancelScale,
    Cluster,
    NodeLeftSeen,
    NodeReturnedSeen,
    NodeSeen,
    PlugDevice,
    ProvisionFailedSeen,
    RemoveNode,
    UnplugDevice,
)
from muster.fabric.layout import machine_id
from muster.schemas.facts.node import NodeJoined

ADD = AddNode("s000001", "workers", "workers-0002", moment(0))


def plug(uuid: str, *, at_s: float = 0, node: str = "workers-0001", memory_mib: int = 0) -> PlugDevice:
    kind = "cxlmemory" if memory_mib else "gpu"
    return PlugDevice(f"order-{uuid}", node, uuid, moment(at_s), kind, "A100", memory_mib)


class ComposableContract(ClusterContract):
    """`composable_cluster` has, beside the nodes of `ClusterContract`, workers-0001 of the composable group `workers`,
    without devices. A node of that group comes, and goes, and shows a device, within 60 s.
    """

    @abstractmethod
    def composable_cluster(self) -> Cluster: ...

    def composable(self) -> Cluster:
        cluster = self.composable_cluster()
        self.acknowledge_all(cluster, 0)
        return cluster

    def acknowledge_all(self, cluster: Cluster, at_s: float) -> None:
        for seen in self.settle(cluster, at_s):
            cluster.acknowledge(seen, moment(at_s))

    def node_seen(self, cluster: Cluster, at_s: float) -> NodeJoined:
        """The one node that is another one now; acknowledged."""
        (seen,) = self.settle(cluster, at_s)
        assert isinstance(seen, NodeSeen)
        cluster.acknowledge(seen, moment(at_s))
        return seen.description

    def test_a_node_that_is_added_is_seen_once_it_is_there(self) -> None:
        cluster = self.composable()
        cluster.carry_out(ADD)
        cluster.carry_out(ADD)
        (seen,) = self.settle(cluster, 60)
        assert isinstance(seen, NodeSeen)
        assert (seen.node, seen.description.group, seen.description.scale) == ("workers-0002", "workers", "s000001")
        assert seen.description.machine == machine_id("workers-0002")
        assert seen.description.present == {}
        cluster.acknowledge(seen, moment(60))
        cluster.carry_out(ADD)
        assert self.settle(cluster, 600) == ()

    def test_a_node_that_cannot_come_is_seen_not_to(self) -> None:
        cluster = self.composable()
        cluster.carry_out(AddNode("s000001", "nobody", "nobody-0001", moment(0)))
        (seen,) = self.settle(cluster, 60)
        assert isinstance(seen, ProvisionFailedSeen)
        assert (seen.scale, seen.group, seen.node) == ("s000001", "nobody", "nobody-0001")
        cluster.acknowledge(seen, moment(60))
        assert self.settle(cluster, 600) == ()

    def test_a_name_is_not_given_twice(self) -> None:
        cluster = self.composable()
        cluster.carry_out(AddNode("s000001", "workers", "workers-0001", moment(0)))
        assert [type(seen) for seen in self.settle(cluster, 60)] == [ProvisionFailedSeen]

    def test_what_is_cancelled_before_it_is_done_stays_undone(self) -> None:
        cluster = self.composable()
        cluster.carry_out(ADD)
        cluster.carry_out(RemoveNode("s000002", "workers-0001", moment(0)))
        cluster.carry_out(CancelScale("s000001"))
        cluster.carry_out(CancelScale("s000002"))
        assert self.settle(cluster, 600) == ()

    def test_a_node_that_is_removed_is_seen_to_have_left(self) -> None:
        cluster = self.composable()
        cluster.carry_out(RemoveNode("s000001", "workers-0001", moment(0)))
        cluster.carry_out(RemoveNode("s000001", "workers-0001", moment(1)))
        (seen,) = self.settle(cluster, 60)
        assert isinstance(seen, NodeLeftSeen)
        cluster.acknowledge(seen, moment(60))
        cluster.carry_out(RemoveNode("s000001", "workers-0001", moment(1)))
        assert self.settle(cluster, 600) == ()

    def test_a_node_that_was_removed_may_come_again(self) -> None:
        cluster = self.composable()
        cluster.carry_out(RemoveNode("s000001", "workers-0001", moment(0)))
        self.acknowledge_all(cluster, 60)
        cluster.carry_out(AddNode("s000002", "workers", "workers-0001", moment(60)))
        assert self.node_seen(cluster, 120).scale == "s000002"

    def test_removing_what_is_not_there_does_nothing(self) -> None:
        cluster = self.composable()
        cluster.carry_out(RemoveNode("s000001", "workers-0009", moment(0)))
        assert self.settle(cluster, 600) == ()

    def test_a_node_shows_a_device_some_time_after_it_was_plugged(self) -> None:
        cluster = self.composable()
        cluster.carry_out(plug("GPU-1"))
        cluster.carry_out(plug("GPU-1"))
        shown = self.node_seen(cluster, 60)
        assert (shown.present, shown.gpu_model) == ({0: "GPU-1"}, "A100")
        cluster.carry_out(plug("GPU-1"))
        assert self.settle(cluster, 600) == ()

    def test_a_node_is_seen_without_a_device_as_soon_as_it_is_unplugged(self) -> None:
        cluster = self.composable()
        cluster.carry_out(plug("GPU-1"))
        self.acknowledge_all(cluster, 60)
        for _ in range(2):
            cluster.carry_out(UnplugDevice("workers-0001", "GPU-1", moment(60)))
        left = self.node_seen(cluster, 60)
        assert (left.present, left.gpu_uuids, left.gpu_model) == ({}, (), "")
        assert self.settle(cluster, 600) == ()

    def test_a_device_that_is_unplugged_before_it_was_seen_never_is(self) -> None:
        cluster = self.composable()
        cluster.carry_out(plug("GPU-1"))
        cluster.carry_out(UnplugDevice("workers-0001", "GPU-1", moment(0)))
        assert self.settle(cluster, 600) == ()

    def test_devices_keep_their_places_and_a_new_one_takes_the_lowest_free(self) -> None:
        cluster = self.composable()
        for number in range(3):
            cluster.carry_out(plug(f"GPU-{number}", at_s=number))
        assert self.node_seen(cluster, 60).present == {0: "GPU-0", 1: "GPU-1", 2: "GPU-2"}
        cluster.carry_out(UnplugDevice("workers-0001", "GPU-1", moment(60)))
        holed = self.node_seen(cluster, 60)
        assert (holed.present, holed.absent) == ({0: "GPU-0", 2: "GPU-2"}, (1,))
        cluster.carry_out(plug("GPU-3", at_s=60))
        assert self.node_seen(cluster, 120).present == {0: "GPU-0", 1: "GPU-3", 2: "GPU-2"}
        cluster.carry_out(UnplugDevice("workers-0001", "GPU-2", moment(120)))
        assert self.node_seen(cluster, 120).absent == ()

    def test_a_memory_device_raises_the_memory_while_it_is_there(self) -> None:
        cluster = self.composable_cluster()
        (before,) = (
            seen.description for seen in self.settle(cluster, 0)
            if isinstance(seen, NodeSeen) and seen.node == "workers-0001"
        )  # fmt: skip
        self.acknowledge_all(cluster, 0)
        cluster.carry_out(plug("cxl-1", memory_mib=1024))
        shown = self.node_seen(cluster, 60)
        assert (shown.memory_mib, shown.memory_uuids, shown.present) == (before.memory_mib + 1024, ("cxl-1",), {})
        cluster.carry_out(UnplugDevice("workers-0001", "cxl-1", moment(60), memory_mib=1024))
        assert self.node_seen(cluster, 60) == before

    def test_devices_on_a_machine_are_there_when_its_node_comes_again(self) -> None:
        cluster = self.composable()
        cluster.carry_out(plug("GPU-1"))
        self.acknowledge_all(cluster, 60)
        cluster.carry_out(RemoveNode("s000001", "workers-0001", moment(60)))
        self.acknowledge_all(cluster, 120)
        cluster.carry_out(AddNode("s000002", "workers", "workers-0001", moment(120)))
        assert self.node_seen(cluster, 180).present == {0: "GPU-1"}

    def test_a_description_that_passed_a_change_is_told_again_as_it_is_now(self) -> None:
        cluster = self.composable()
        cluster.carry_out(plug("GPU-1"))
        (seen,) = self.settle(cluster, 60)
        cluster.carry_out(UnplugDevice("workers-0001", "GPU-1", moment(60)))
        cluster.acknowledge(seen, moment(60))
        assert self.node_seen(cluster, 61).present == {}

    def test_a_lost_node_says_what_changed_only_when_it_is_back(self) -> None:
        cluster = self.composable()
        self.lose_node(cluster, "workers-0001", at_s=1)
        cluster.carry_out(plug("GPU-1"))
        for seen in self.settle(cluster, 60):
            cluster.acknowledge(seen, moment(60))
            assert not isinstance(seen, NodeSeen)
        (returned,) = self.settle(cluster, 600)
        assert returned == NodeReturnedSeen("workers-0001")
        cluster.acknowledge(returned, moment(600))
        assert self.node_seen(cluster, 600).present == {0: "GPU-1"}
