"""Which nodes and devices jobs may use, as the scheduler says of what nodes show."""

from kit.log import a_fact
from muster.cluster import Nodes
from muster.composer.core.nodes import Grants
from muster.schemas.base import Payload
from muster.schemas.facts.node import GrantState, NodeJoined, NodeLeft, NodeLost, NodeReturned


class Told:
    """Nodes, and the grants that follow them."""

    def __init__(self) -> None:
        self.nodes = Nodes()
        self.grants = Grants(self.nodes)

    def tell(self, name: str, payload: Payload, node: str = "n1") -> None:
        change = self.nodes.apply(a_fact("agent", "node", node, name, payload))
        assert change is not None
        self.grants.change_node(change)

    def joined(self, *uuids: str, node: str = "n1") -> None:
        self.tell("joined", NodeJoined(cpu_milli=1, memory_mib=1, gpu_uuids=uuids), node)

    def usable(self, *uuids: str) -> list[bool]:
        return [self.grants.is_device_usable(uuid) for uuid in uuids]


def a_released_node(*uuids: str) -> Told:
    told = Told()
    told.joined(*uuids)
    told.grants.release_node("n1")
    return told


def test_a_node_is_released_with_all_that_it_shows() -> None:
    told = Told()
    told.joined("a", "b")
    assert told.usable("a", "b") == [False, False]
    told.grants.release_node("n1")
    assert told.usable("a", "b") == [True, True]
    assert told.usable("elsewhere") == [False]


def test_a_device_that_a_released_node_shows_later_is_released_by_itself() -> None:
    told = a_released_node("a")
    told.joined("a", "b")
    assert told.usable("a", "b") == [True, False]
    told.grants.release_device("b")
    assert told.usable("a", "b") == [True, True]


def test_a_node_that_was_lost_is_released_anew() -> None:
    told = a_released_node("a")
    told.tell("lost", NodeLost())
    assert told.usable("a") == [False]
    told.tell("returned", NodeReturned())
    assert told.usable("a") == [False], "it answers, and is not released yet"
    told.grants.release_node("n1")
    assert told.usable("a") == [True]


def test_nothing_that_was_said_of_a_node_that_left_holds_when_it_comes_again() -> None:
    told = a_released_node("a")
    told.grants.withhold_node("n1")
    told.grants.withhold_device("a")
    told.tell("left", NodeLeft())
    told.joined("a")
    assert not told.grants.nodes["n1"].is_withheld
    assert told.usable("a") == [False], "it is not released"
    told.grants.release_node("n1")
    assert told.usable("a") == [True]


def test_a_withheld_device_that_another_node_shows_stays_withheld() -> None:
    told = a_released_node("a")
    told.joined(node="n2")
    told.grants.release_node("n2")
    told.joined("a", node="n2")
    told.joined(node="n1")
    assert told.usable("a") == [False], "it was shown by a released node, and not released there"


def test_a_node_that_is_withheld_gives_nothing_until_it_is_released() -> None:
    told = a_released_node("a")
    told.grants.withhold_node("n1")
    assert told.usable("a") == [False]
    told.grants.release_node("n1")
    assert told.usable("a") == [True]


def test_a_checkpoint_says_grants_before_or_after_the_nodes() -> None:
    told = Told()
    told.grants.load("node", "n1", GrantState(released=True))
    told.grants.load("device", "b", GrantState(released=False))
    told.nodes.apply(
        a_fact("agent", "node", "n1", "joined", NodeJoined(cpu_milli=1, memory_mib=1, gpu_uuids=("a", "b")))
    )
    assert told.usable("a", "b") == [True, False]
