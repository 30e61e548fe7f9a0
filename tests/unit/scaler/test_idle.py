"""Since when devices and nodes hold nothing."""

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.cluster import Holds
from muster.cluster.grants import Grants
from muster.cluster.ledger import Ledger, LedgerListener
from muster.cluster.node_records import NodeTable
from muster.core import NS_PER_S, Fact, Instant
from muster.core.settings import GroupSettings, ScalingSettings
from muster.placement import Fleet, GangRequest, GroupRequest, TaskShape
from muster.scaler.core.groups import ScalingConfig
from muster.scaler.core.idle import IdleClock, Stopwatch, used_share
from muster.schemas.facts.job import JobFinished, JobPlaced
from muster.schemas.facts.node import NodeJoined
from muster.schemas.job import Slot

GROUP = GroupSettings(
    name="cdi", composable=True, nodes_max=9, gpus_max=4, gpu_models=("A100",), fabric="rack",
    cpu_milli=10_000, provision_s=100.0, deprovision_s=20.0,
)  # fmt: skip
CONFIG = ScalingConfig(ScalingSettings(groups=(GROUP,), gpu_idle_s=60.0, node_unneeded_s=30.0), frozenset({"rack"}))


def at(seconds: float) -> Instant:
    return Instant(round(seconds * NS_PER_S))


def _nothing(_node: str) -> None:
    """Keep nothing in the fleet."""


class Node:
    """One node of the group with its clock: jobs come and go at the seconds that are named."""

    def __init__(self, gpus: int = 2, *, group: str = "cdi", absent: tuple[int, ...] = ()) -> None:
        self.nodes, self.fleet, self.holds = NodeTable(), Fleet(), Holds()
        listener = LedgerListener(_nothing, _nothing, _nothing)
        self.ledger = Ledger(self.nodes, self.fleet, Grants(self.nodes, self.fleet), listener)
        self.clock = self.new_clock()
        self.join(0, gpus, group=group, absent=absent)

    def new_clock(self) -> IdleClock:
        return IdleClock(CONFIG, self.nodes, self.fleet, self.holds)

    def join(self, when: float, gpus: int, *, group: str = "cdi", absent: tuple[int, ...] = ()) -> None:
        uuids = tuple(f"g{index}" for index in range(gpus))
        joined = NodeJoined(
            cpu_milli=10_000, memory_mib=1_000, gpu_model="A100", gpu_uuids=uuids, absent=absent, group=group
        )
        self.ledger.join("n", joined, fact=f"f{when}")
        self.clock.look("n", at=at(when))

    def take(self, when: float, job: str, *devices: int, cpu: int = 1_000, milli: int = 1_000) -> None:
        shape = TaskShape(cpu, 1, gpus=len(devices)) if milli == 1_000 else TaskShape(cpu, 1, gpu_milli=milli)
        self.slots = (Slot(group=0, replica=0, node="n", devices=devices, gpu_milli=milli if devices else 0),)
        self._tell(when, job, "placed", JobPlaced(attempt=1, slots=self.slots))
        self.ledger.take(job, self.slots, GangRequest((GroupRequest(shape, 1),)))
        self.clock.look("n", at=at(when))

    def free(self, when: float, job: str) -> None:
        self._tell(when, job, "succeeded", JobFinished())
        self.ledger.free(job, self.slots, fact=f"e{when}", seq=1)
        self.clock.look("n", at=at(when))

    def _tell(self, when: float, job: str, name: str, payload: JobPlaced | JobFinished) -> None:
        self.holds.apply(Fact(f"{job}-{name}", 1, at(when), "a", "scheduler", "job", job, name, (), "", payload))

    def elapsed(self, when: float) -> set[str]:
        return set(self.clock.devices.elapsed(at(when)))


def test_a_device_has_been_idle_since_it_came_or_since_its_last_holder_went() -> None:
    node = Node()
    node.take(10, "A", 0)
    assert node.elapsed(59) == set()
    assert node.elapsed(60) == {"g1"}
    node.free(70, "A")
    assert node.elapsed(129) == {"g1"}
    assert node.elapsed(130) == {"g0", "g1"}


def test_a_device_that_is_held_again_is_not_idle_any_more() -> None:
    node = Node()
    assert node.elapsed(60) == {"g0", "g1"}
    node.take(61, "A", 1)
    assert node.elapsed(200) == {"g0"}


def test_a_share_of_a_device_holds_it() -> None:
    node = Node(gpus=1)
    node.take(1, "A", 0, milli=100)
    assert node.elapsed(500) == set()


def test_a_place_without_a_device_is_never_idle() -> None:
    node = Node(gpus=3, absent=(1,))
    assert node.elapsed(60) == {"g0", "g2"}


def test_a_device_that_went_and_comes_again_starts_anew() -> None:
    node = Node()
    node.clock.load(devices=node.clock.stored_devices(), nodes=(), low=())
    node.join(30, 1)
    node.join(50, 2)
    assert node.elapsed(60) == {"g0"}
    assert node.elapsed(110) == {"g0", "g1"}


def test_an_empty_node_is_unneeded_after_its_time_and_spent_once_a_new_one_would_be_there() -> None:
    node = Node()
    clock = node.clock
    assert not clock.nodes.elapsed(at(29))
    assert "n" in clock.nodes.elapsed(at(30))
    assert not clock.spent.elapsed(at(119))
    assert "n" in clock.spent.elapsed(at(120))


def test_a_node_that_is_hardly_used_is_low_but_not_empty() -> None:
    node = Node(gpus=4)
    node.take(10, "A", 0)
    assert used_share(node.fleet, "n") == 0.25
    assert "n" in node.clock.low.elapsed(at(30))
    assert "n" not in node.clock.nodes.since
    node.free(40, "A")
    assert node.clock.nodes.since["n"] == at(40)


def test_only_gpus_count_on_a_node_that_has_some_and_cpu_or_memory_on_one_without() -> None:
    node = Node(gpus=1)
    node.take(0, "A", cpu=9_000)
    assert used_share(node.fleet, "n") == 0.0
    bare = Node(gpus=0)
    bare.take(0, "A", cpu=9_000)
    assert used_share(bare.fleet, "n") == 0.9
    assert "n" not in bare.clock.low.since


def test_nodes_of_no_group_have_no_clock() -> None:
    node = Node(group="elsewhere")
    assert not node.elapsed(1_000)
    assert node.clock.next_due(at(0)) is None


def test_the_next_moment_is_that_of_the_first_thing_to_become_ripe() -> None:
    clock = Node().clock
    assert [clock.next_due(at(second)) for second in (0, 30, 60, 120)] == [at(30), at(60), at(120), None]


def test_clocks_go_on_after_a_checkpoint_whatever_is_folded_first() -> None:
    node = Node()
    node.take(10, "A", 0)
    stored = node.clock.stored_devices(), node.clock.stored_nodes(), node.clock.stored_low()
    for is_first in (True, False):
        again = node.new_clock()
        if is_first:
            again.load(devices=stored[0], nodes=stored[1], low=stored[2])
        again.look("n", at=at(50))
        if not is_first:
            again.load(devices=stored[0], nodes=stored[1], low=stored[2])
        assert again.devices.since == node.clock.devices.since == {"g1": at(0)}
        assert again.nodes.since == node.clock.nodes.since == {}
        assert again.next_due(at(50)) == node.clock.next_due(at(50))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans(), st.integers(0, 5)), max_size=60))
def test_a_stopwatch_says_of_each_name_what_looking_at_all_of_them_would(
    steps: list[tuple[str, bool, int]],
) -> None:
    watch, now, since = Stopwatch(lambda _, start: Instant(start + 7)), 0, dict[str, int]()
    for name, runs, passes in steps:
        now += passes
        if runs:
            watch.start(name, Instant(now))
            since.setdefault(name, now)
        else:
            watch.stop(name)
            since.pop(name, None)
        assert set(watch.elapsed(Instant(now))) == {name for name, start in since.items() if start + 7 <= now}
        later = [start + 7 for start in since.values() if start + 7 > now]
        assert watch.next_due() == min(later, default=None)
