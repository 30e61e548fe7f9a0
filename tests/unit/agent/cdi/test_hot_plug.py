"""After an attach or detach that node's plugins start anew, and then its capacity is believed."""

from muster.agent.core.cluster import PlugDevice, UnplugDevice
from muster.agent.core.kubernetes.calls import Delete, Done, Outcome, Refused, Unanswered
from muster.agent.core.kubernetes.cdi.hot_plug import BESIDE, COUNTS, HotPlug
from muster.agent.core.kubernetes.describing import Devices, NodePolicy, described
from muster.agent.core.kubernetes.projections import NodeProjection
from muster.agent.core.kubernetes.views import PodView
from muster.agent.core.kubernetes.worklist import Worklist
from muster.core import NS_PER_S, Instant

START = Instant(1_700_000_000 * NS_PER_S)


class Rack:
    """One node with a device plugin and an exporter; both are made anew when they are deleted."""

    def __init__(self, *, plugins: bool = True) -> None:
        self.now = START
        self.capacity = 0
        self.made = 0
        self.deleted: list[str] = []
        self.pods: dict[str, PodView] = {}
        self.lead()
        if plugins:
            for sort in (COUNTS, BESIDE):
                self.make(sort)
        self.plugs.synced()
        self.run()

    def lead(self) -> None:
        self.worklist = Worklist()
        self.plugs = HotPlug(self.worklist)
        self.plugs.node_seen("n1")

    def lose(self) -> None:
        """The node's object goes, then what ran there."""
        self.plugs.node_gone("n1")
        for name in list(self.pods):
            self.plugs.pod_gone(self.pods.pop(name))
        self.run()

    def make(self, sort: str, *, ready: bool = True) -> PodView:
        self.made += 1
        name = f"{sort}-{self.made}"
        view = PodView(
            "gpu-operator", name, f"u{self.made}", node="n1", phase="Running" if ready else "Pending", plugin=sort,
            created_at=Instant(self.now // NS_PER_S * NS_PER_S),
        )  # fmt: skip
        self.pods[name] = view
        self.plugs.pod_seen(view)
        return view

    def run(self, *, answer: Outcome | None = None) -> None:
        """Plugins that are deleted come again at once, and are ready."""
        for _ in range(20):
            self.plugs.settle(self.now)
            task = self.worklist.take(self.now)
            if task is None:
                return
            assert isinstance(task.call, Delete)
            if answer is None:
                old = self.pods.pop(task.call.name)
                assert old.uid == task.call.uid
                self.deleted.append(task.call.name)
                self.plugs.pod_gone(old)
                self.make(old.plugin)
            self.worklist.finished(task, answer or Done(), self.now)
        raise AssertionError("plugins are restarted again and again")

    def later(self, seconds: float) -> None:
        self.now = Instant(self.now + round(seconds * NS_PER_S))

    def plug(self, uuid: str) -> None:
        self.later(60)
        self.plugs.carry_out(PlugDevice(f"a-{uuid}", "n1", uuid, self.now, model="A100"))

    def unplug(self, uuid: str) -> None:
        self.later(60)
        self.plugs.carry_out(UnplugDevice("n1", uuid, self.now))

    def shown(self, capacity: int) -> tuple[str, ...]:
        """The devices of the node's description."""
        raw = {
            "metadata": {"name": "n1"},
            "status": {"allocatable": {"cpu": "8", "memory": "8Gi", "nvidia.com/gpu": str(capacity)}},
        }
        node = described(NodeProjection()(raw), policy=NodePolicy(), devices=Devices(), attached=self.plugs.devices_of)
        return node.gpu_uuids

    def tell(self, capacity: int) -> None:
        """The log describes the node as it is shown."""
        self.plugs.described("n1", self.shown(capacity))


def test_every_plugin_of_the_node_starts_anew_once() -> None:
    rack = Rack()
    rack.plug("GPU-a")
    rack.run()
    assert sorted(rack.deleted) == ["beside-2", "counts-1"]
    rack.later(1_000)
    rack.run()
    assert len(rack.deleted) == 2


def test_plugins_of_other_nodes_run_on() -> None:
    rack = Rack()
    other = PodView("gpu-operator", "there", "u", node="n2", phase="Running", plugin=COUNTS, created_at=START)
    rack.plugs.pod_seen(other)
    rack.plug("GPU-a")
    rack.run()
    assert "there" not in rack.deleted


def test_a_device_is_shown_when_a_plugin_that_looked_for_it_counts_it() -> None:
    rack = Rack()
    rack.plug("GPU-a")
    assert rack.shown(1) == ("n1/gpu-0",)  # whatever it is that the node counts already
    rack.run()
    assert rack.shown(0) == ()
    assert rack.shown(1) == ("GPU-a",)


def test_between_the_old_plugin_and_the_new_one_nothing_is_believed() -> None:
    rack = Rack()
    rack.plug("GPU-a")
    old = rack.pods["counts-1"]
    rack.plugs.pod_gone(old)
    assert "GPU-a" not in rack.shown(1)
    rack.make(COUNTS, ready=False)
    assert "GPU-a" not in rack.shown(1)


def test_a_second_device_does_not_hide_the_first() -> None:
    rack = Rack()
    rack.plug("GPU-a")
    rack.run()
    rack.tell(1)
    rack.plug("GPU-b")
    assert rack.shown(1) == ("GPU-a",)
    rack.run()
    assert rack.shown(2) == ("GPU-a", "GPU-b")


def test_a_device_that_went_is_not_counted_whatever_the_capacity_says() -> None:
    rack = Rack()
    for number, uuid in enumerate(("GPU-a", "GPU-b")):
        rack.plug(uuid)
        rack.run()
        rack.tell(1 + number)
    rack.unplug("GPU-a")
    assert rack.shown(2) == ("GPU-b",)
    rack.run()
    assert rack.shown(1) == ("GPU-b",)
    assert len(rack.deleted) == 6


def test_another_leader_restarts_nothing_that_started_since() -> None:
    rack = Rack()
    rack.plug("GPU-a")
    at = rack.now
    rack.later(5)
    rack.run()
    before = len(rack.deleted)
    rack.lead()
    rack.plugs.carry_out(PlugDevice("a-GPU-a", "n1", "GPU-a", at, model="A100"))
    for view in rack.pods.values():
        rack.plugs.pod_seen(view)
    rack.plugs.synced()
    rack.later(5)
    rack.run()
    assert len(rack.deleted) == before
    assert rack.shown(1) == ("GPU-a",)


def test_clocks_that_differ_restart_nothing_for_ever() -> None:
    rack = Rack()
    rack.plug("GPU-a")
    rack.later(-3_600)  # the API server's clock is an hour behind
    rack.run()
    assert len(rack.deleted) == 2
    assert rack.shown(1) == ("GPU-a",)


def test_a_refused_deletion_is_asked_again_later() -> None:
    rack = Rack()
    rack.plug("GPU-a")
    rack.run(answer=Refused(403, "Forbidden"))
    assert rack.deleted == []
    assert rack.plugs.next_change() is not None
    rack.later(31)
    rack.run()
    assert len(rack.deleted) == 2


def test_what_nobody_answered_is_repeated_by_uid() -> None:
    rack = Rack()
    rack.plug("GPU-a")
    rack.run(answer=Unanswered("gone"))
    rack.later(60)
    rack.run()
    assert len(rack.deleted) == 2


def test_without_plugins_the_capacity_alone_is_believed() -> None:
    rack = Rack(plugins=False)
    rack.plug("GPU-a")
    rack.run()
    assert rack.shown(0) == ()
    assert rack.shown(1) == ("GPU-a",)


def test_a_device_that_the_log_shows_stays_shown() -> None:
    rack = Rack()
    rack.plug("GPU-a")
    rack.run()
    rack.plugs.described("n1", ("GPU-a",))
    rack.plugs.reset()
    assert rack.shown(1) == ("GPU-a",)


def test_a_node_that_went_with_all_that_it_had_is_forgotten() -> None:
    rack = Rack()
    assert list(rack.plugs._nodes) == ["n1"]
    rack.lose()
    assert not rack.plugs._nodes


def test_a_node_that_went_is_forgotten_once_its_devices_are_taken_away_too() -> None:
    rack = Rack()
    rack.plug("GPU-a")
    rack.run()
    rack.lose()
    assert list(rack.plugs._nodes) == ["n1"]
    rack.unplug("GPU-a")
    assert not rack.plugs._nodes
    rack.unplug("GPU-a")
    assert not rack.plugs._nodes


def test_a_device_is_still_there_when_its_node_comes_again() -> None:
    rack = Rack()
    rack.plug("GPU-a")
    rack.run()
    rack.lose()
    rack.plugs.node_seen("n1")
    rack.make(COUNTS)
    rack.run()
    assert rack.shown(1) == ("GPU-a",)


def test_what_was_taken_away_before_somebody_led_is_remembered_until_the_node_is_known_to_be_gone() -> None:
    rack = Rack()
    rack.plugs = HotPlug(rack.worklist)
    rack.plug("GPU-a")
    rack.unplug("GPU-a")
    assert list(rack.plugs._nodes) == ["n1"]
    rack.plugs.synced()
    assert not rack.plugs._nodes


def test_between_two_plugins_a_node_that_has_no_device_is_not_forgotten() -> None:
    rack = Rack()
    for view in rack.pods.values():
        rack.plugs.pod_gone(view)
    rack.plug("GPU-a")
    assert "GPU-a" not in rack.shown(1)
