"""Which nodes are Muster's alone, as drivers come and go."""

from muster.agent.core.kubernetes.chosen import SILENCE_S, ChosenDevices, DevicePolicy
from muster.agent.core.kubernetes.claims import ClaimView
from muster.agent.core.kubernetes.describing import NodePolicy
from muster.agent.core.kubernetes.machines import NoMachines
from muster.agent.core.kubernetes.nodes import Nodes
from muster.agent.core.kubernetes.orders import PodOrders
from muster.agent.core.kubernetes.ports import AdoptedPods
from muster.agent.core.kubernetes.slices import Device, SliceView
from muster.agent.core.kubernetes.views import NodeView, Requests
from muster.agent.core.kubernetes.worklist import Worklist
from muster.core import Instant, after
from unit.agent.pods.allocating import DRIVER, NODE, place
from unit.agent.pods.orders import POLICY

NOW = Instant(1_000_000_000)
SLICE = SliceView("one", DRIVER, NODE, 1, 1, NODE, (Device(place(0), "GPU-0", "H100", "gpu", 0, "a"),))


class Watched:
    """One node, as an agent sees it."""

    def __init__(self) -> None:
        self.work = Worklist()
        self.chosen = ChosenDevices(DevicePolicy(), self.work, PodOrders(POLICY), AdoptedPods())
        self.nodes = Nodes(NodePolicy(), self.chosen, NoMachines(), lost_s=40.0)
        self.chosen.belongs_to(self.nodes)
        self.nodes.seen(NodeView(NODE, "uid", Requests(1000, 1000), 1000, ready=True), NOW)
        self.nodes.synced()

    def owns(self, at: Instant) -> bool:
        """Whether the node is Muster's alone at this moment."""
        self.nodes.settle(at)
        self.chosen.settle(at)
        assert self.chosen.own_nodes is not None
        return NODE in self.chosen.own_nodes.wanted


def test_a_node_is_ours_once_its_driver_speaks() -> None:
    watched = Watched()
    assert not watched.owns(NOW)
    watched.chosen.slice_seen(SLICE)
    assert watched.owns(NOW)


def test_it_stays_ours_while_its_driver_starts_anew() -> None:
    watched = Watched()
    watched.chosen.slice_seen(SLICE)
    assert watched.owns(NOW)
    watched.chosen.slice_gone("one")
    assert watched.owns(NOW)
    assert watched.owns(after(NOW, SILENCE_S - 1))
    assert not watched.owns(after(NOW, SILENCE_S))


def test_it_stays_ours_as_long_as_pods_of_ours_hold_devices() -> None:
    watched = Watched()
    watched.chosen.slice_seen(SLICE)
    claim = ClaimView("jobs", "ours", "u", job="job", node=NODE, places=(place(0),))
    watched.chosen.claim_seen(claim, NOW)
    assert watched.owns(NOW)
    watched.chosen.slice_gone("one")
    assert watched.owns(NOW)
    assert watched.owns(after(NOW, 2 * SILENCE_S))
    watched.chosen.claim_gone(claim.key, NOW)
    assert not watched.owns(after(NOW, 2 * SILENCE_S))


def test_a_node_that_is_gone_is_nobodys() -> None:
    watched = Watched()
    watched.chosen.slice_seen(SLICE)
    assert watched.owns(NOW)
    watched.nodes.gone(NODE)
    watched.chosen.slice_gone("one")
    assert not watched.owns(NOW)
