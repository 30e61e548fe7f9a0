"""What each fact changes of the nodes of a cluster."""

import pytest

from kit.log import a_fact
from muster.cluster import Node, NodeChange, Nodes
from muster.schemas.base import Payload
from muster.schemas.facts.node import GrantState, NodeJoined, NodeLeft, NodeLost, NodeReturned, NodeState, Released
from muster.schemas.registry import STATE_NAME


def shows(*uuids: str, absent: tuple[int, ...] = (), group: str = "") -> NodeJoined:
    return NodeJoined(cpu_milli=1, memory_mib=1, gpu_uuids=uuids, absent=absent, group=group)


class Told:
    """Nodes that fold what is told."""

    def __init__(self) -> None:
        self.nodes = Nodes()

    def tell(self, name: str, payload: Payload, *, node: str = "n1", kind: str = "node") -> NodeChange | None:
        return self.nodes.apply(a_fact("agent", kind, node, name, payload))

    def joined(self, *uuids: str, node: str = "n1", absent: tuple[int, ...] = ()) -> NodeChange:
        change = self.tell("joined", shows(*uuids, absent=absent), node=node)
        assert change is not None
        return change


def test_a_node_that_joined_is_part_of_the_cluster_as_described() -> None:
    told, description = Told(), shows("gpu-a", group="a100")
    assert told.tell("joined", description) == NodeChange("n1", None, Node(description))
    assert dict(told.nodes) == {"n1": Node(description)}
    assert told.nodes.description("n1") == description
    assert told.nodes.description("n2") is None


def test_another_description_tells_which_devices_come_and_go() -> None:
    told = Told()
    assert told.joined("gpu-a", "gpu-b").added == ("gpu-a", "gpu-b")
    change = told.joined("gpu-b", "gpu-c")
    assert (change.added, change.gone) == (("gpu-c",), ("gpu-a",))
    assert told.nodes["n1"].shown == {"gpu-b": 0, "gpu-c": 1}
    assert told.nodes.node_of == {"gpu-b": "n1", "gpu-c": "n1"}


def test_a_place_without_a_device_shows_none() -> None:
    told = Told()
    told.joined("gpu-a", "empty", "gpu-c", absent=(1,))
    assert told.nodes["n1"].shown == {"gpu-a": 0, "gpu-c": 2}
    assert "empty" not in told.nodes.node_of


def test_a_lost_node_stays_part_of_the_cluster_until_it_returns() -> None:
    told = Told()
    told.joined("gpu-a")
    change = told.tell("lost", NodeLost())
    assert change is not None
    assert (change.added, change.gone) == ((), ())
    assert told.nodes["n1"].is_lost
    assert told.nodes.node_of == {"gpu-a": "n1"}
    told.tell("returned", NodeReturned())
    assert not told.nodes["n1"].is_lost


def test_a_node_that_joins_answers() -> None:
    told = Told()
    told.joined()
    told.tell("lost", NodeLost())
    change = told.joined()
    assert change.before is not None
    assert change.before.is_lost
    assert not told.nodes["n1"].is_lost


def test_a_node_that_left_is_not_part_of_the_cluster_and_shows_nothing() -> None:
    told = Told()
    told.joined("gpu-a")
    change = told.tell("left", NodeLeft())
    assert change is not None
    assert (change.after, change.gone) == (None, ("gpu-a",))
    assert (len(told.nodes), told.nodes.node_of) == (0, {})


@pytest.mark.parametrize(
    ("name", "payload"), [("lost", NodeLost()), ("returned", NodeReturned()), ("left", NodeLeft())]
)
def test_what_is_told_of_a_node_that_is_not_there_is_counted_and_changes_nothing(name: str, payload: Payload) -> None:
    told = Told()
    assert told.tell(name, payload) is None
    assert (dict(told.nodes), told.nodes.anomalies) == ({}, {name: 1})


def test_a_device_is_of_the_node_that_began_to_show_it_last() -> None:
    """A device is moved: its old node may be described once more before it is seen to lack the device."""
    told = Told()
    told.joined("gpu-a", node="n1")
    told.joined("gpu-a", node="n2")
    told.joined("gpu-a", "gpu-b", node="n1")
    assert told.nodes.node_of["gpu-a"] == "n2"
    told.joined("gpu-b", node="n1")
    assert told.nodes.node_of == {"gpu-a": "n2", "gpu-b": "n1"}


def test_a_device_that_one_of_two_nodes_no_longer_shows_is_of_the_other_from_its_next_description_on() -> None:
    told = Told()
    told.joined("gpu-a", node="n1")
    told.joined("gpu-a", node="n2")
    told.tell("left", NodeLeft(), node="n2")
    told.joined("gpu-a", node="n1")
    assert told.nodes.node_of == {"gpu-a": "n1"}


def test_grants_and_facts_of_other_kinds_change_nothing() -> None:
    told = Told()
    told.joined("gpu-a")
    assert told.tell("released", Released()) is None
    assert told.tell(STATE_NAME, GrantState(released=True)) is None
    assert told.tell("released", Released(), node="gpu-a", kind="device") is None
    assert told.nodes.anomalies == {}


@pytest.mark.parametrize("is_lost", [True, False])
def test_a_checkpoint_says_what_a_node_is_and_whether_it_answers(is_lost: bool) -> None:
    told, description = Told(), shows("gpu-a")
    change = told.tell(STATE_NAME, NodeState(description=description, lost=is_lost))
    assert change == NodeChange("n1", None, Node(description, is_lost))
    assert dict(told.nodes) == {"n1": Node(description, is_lost)}
    assert told.nodes.node_of == {"gpu-a": "n1"}
