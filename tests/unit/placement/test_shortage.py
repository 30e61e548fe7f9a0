"""Why something does not fit, in one code and numbers."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.placement import Fleet, GangRequest, Hold, Shortage, ShortageReason, Slot, TaskShape
from unit.placement.builders import fleet_of, gang, node, one, placed, server, task, within


def used_fleet() -> Fleet:
    """Two nodes of 8 GPUs and 64 CPUs: 6.5 GPUs and 62 CPUs free on one, 7 GPUs and 63 CPUs on the other."""
    fleet = fleet_of([node("a", rack="r0"), node("b", rack="r1")])
    fleet.hold(Hold(1000, 0, Slot(0, 0, "a", (0,), 500)))
    fleet.hold(Hold(1000, 0, Slot(0, 1, "a", (1,), 1000)))
    fleet.hold(Hold(1000, 0, Slot(0, 2, "b", (0,), 1000)))
    return fleet


@pytest.mark.parametrize(
    ("asked", "detail"),
    [
        (one(task(1, models=("B200", "GB300"))), "model: no usable node has B200 or GB300"),
        (gang((task(8), 3)), "gpu: 24 GPUs asked, 13.5 free"),
        (one(task(8)), "fragmented: 13.5 free GPUs but none of 8 on one node"),
        (gang((task(4), 3)), "fragmented: 13.5 free GPUs but room for 2 of 3 replicas"),
        (one(task(1, cpu=65)), "cpu: 65 CPU asked, at most 63 on one node beside 1 free GPUs"),
        (gang((task(cpu=5), 30)), "cpu: 30 x 5 CPU asked, 125 free"),
        (one(TaskShape(0, 600_000)), "memory: 600000 MiB asked, at most 524288 MiB on one node"),
        (gang((TaskShape(0, 600_000), 2)), "memory: 2 x 600000 MiB asked, 1048576 MiB free"),
        (gang((TaskShape(0, 300_000), 3)), "fragmented: room for 2 of 3 replicas"),
        (one(task(2, full=True)), "fragmented: 1 whole nodes with 2 GPUs, 1 CPU and 1024 MiB asked, 0 idle"),
        (gang((task(7), 1), (task(6), 1), (task(1), 1)), "fragmented: each of 3 groups would fit alone, but"),
        (gang((task(4), 2), level="rack"), "topology: the fleet has room, but one rack holds at most 1 of 2 replicas"),
        (gang((task(4), 1), level="row"), "topology: no node declares level 'row', only rack"),
    ],
)
def test_the_first_cause_that_explains_it_is_named(asked: GangRequest, detail: str) -> None:
    answer = used_fleet().place(asked)
    assert isinstance(answer, Shortage)
    assert answer.detail.startswith(detail)
    assert answer.detail.startswith(answer.reason.value)


def test_a_fleet_without_usable_nodes_says_so() -> None:
    fleet = fleet_of([node("a")])
    fleet.set_usable("a", False)
    assert fleet.place(one(task(1))) == Shortage(ShortageReason.NO_NODE, "no-node: none of 1 nodes is usable")


@pytest.mark.parametrize(
    ("asked", "detail"),
    [
        (
            gang((within("socket", 4), 2)),
            "topology: room for 1 of 2 replicas with their devices within one socket, for 2 if they may stand apart",
        ),
        (
            gang((within("socket", 4), 1), (within("pair", 3), 1)),
            "topology: room for 0 of 1 replicas with their devices within one pair, for 1 if they may stand apart",
        ),
        (one(within("socket", 9)), "fragmented: 12 free GPUs but none of 9 on one node"),
    ],
)
def test_devices_that_do_not_stand_together_are_named(asked: GangRequest, detail: str) -> None:
    fleet = fleet_of([server("a"), server("b")])
    for hold in placed(fleet, gang((task(1), 16))):
        if (hold.slot.node, *hold.slot.devices) not in {("a", 0), ("a", 4), ("b", 4), ("b", 5)}:
            fleet.release(hold)
    answer = fleet.place(asked)
    assert isinstance(answer, Shortage)
    assert answer.detail == detail


def test_nodes_and_devices_that_cannot_be_used_are_named_if_the_gang_would_fit_with_them() -> None:
    fleet = fleet_of([node("a"), node("b"), node("c")])
    placed(fleet, one(task(2)))
    fleet.set_usable("a", False)
    fleet.set_device_usable("b", 3, False)
    before = fleet.version, fleet.totals
    answer = fleet.place(gang((task(8), 2)))
    assert answer == Shortage(
        ShortageReason.HEALTH,
        "health: it would fit with 1 nodes with 6 idle GPUs and 1 devices of other nodes that are not usable;"
        " now gpu: 16 GPUs asked, 15 free",
    )
    assert (fleet.version, fleet.totals) == before, "nobody is told that anything came free"
    answer = fleet.place(gang((task(8), 3)))
    assert isinstance(answer, Shortage)
    assert answer.reason is ShortageReason.GPU, "with all of them it would not fit either"
    fleet.set_device_usable("b", 3, True)
    assert not isinstance(fleet.place(gang((task(8), 2))), Shortage)


def test_a_domain_that_only_lacks_a_broken_node_is_a_matter_of_health() -> None:
    fleet = fleet_of([node("a", rack="r0"), node("b", rack="r0"), node("c", rack="r1")])
    fleet.set_usable("b", False)
    answer = fleet.place(gang((task(8), 2), level="rack"))
    assert isinstance(answer, Shortage)
    assert answer.reason is ShortageReason.HEALTH
    assert answer.detail.endswith("now topology: the fleet has room, but one rack holds at most 1 of 2 replicas")


def test_a_broken_node_that_leaves_is_no_matter_of_health_any_more() -> None:
    fleet = fleet_of([node("a"), node("b"), node("c")])
    fleet.set_usable("a", False)
    fleet.set_usable("c", False)
    first, second = fleet.place(gang((task(8), 3))), gang((task(7), 3))
    assert isinstance(first, Shortage)
    assert first.reason is ShortageReason.HEALTH
    fleet.remove_node("a")
    answer = fleet.place(second)
    assert isinstance(answer, Shortage)
    assert answer.reason is ShortageReason.GPU


def test_groups_that_each_fit_in_a_domain_but_not_together_are_a_matter_of_topology() -> None:
    fleet = fleet_of([node("a", rack="r0"), node("b", rack="r1")])
    answer = fleet.place(gang((task(5), 1), (task(4), 1), level="rack"))
    assert answer == Shortage(
        ShortageReason.TOPOLOGY, "topology: the fleet has room, but one rack holds at most 1 of 1 + 1 of 1 replicas"
    )


def test_broken_nodes_that_would_not_help_are_not_blamed() -> None:
    fleet = fleet_of([node("a", rack="r0"), node("b", rack="r1"), node("c", rack="r2")])
    fleet.set_usable("c", False)
    answer = fleet.place(gang((task(8), 2), level="rack"))
    assert isinstance(answer, Shortage)
    assert answer.reason is ShortageReason.TOPOLOGY


def shortage_of(fleet: Fleet, asked: GangRequest) -> Shortage:
    answer = fleet.place(asked)
    assert isinstance(answer, Shortage)
    return answer


@pytest.mark.parametrize(
    "asked", [one(task(9)), gang((task(8), 2)), gang((task(4), 3)), gang((task(4), 2), (task(1), 8)), one(task(cpu=65))]
)
def test_what_merely_comes_or_goes_is_explained_as_if_it_were_not_there(asked: GangRequest) -> None:
    fleet, without = fleet_of([node("a"), node("b")]), fleet_of([node("a", gpus=6)])
    for index in (6, 7):
        fleet.set_device_usable("a", index, False, ill=False)
    fleet.set_usable("b", False, ill=False)
    assert shortage_of(fleet, asked) == shortage_of(without, asked)
    assert not fleet.ledger.ill


def test_what_merely_moves_is_not_counted_on_among_what_is_ill() -> None:
    fleet = fleet_of([node("a"), node("b"), node("c")])
    fleet.set_device_usable("a", 0, False)
    fleet.set_device_usable("a", 1, False, ill=False)
    fleet.set_usable("b", False)
    fleet.set_device_usable("b", 0, False, ill=False)
    fleet.set_usable("c", False, ill=False)
    fleet.set_device_usable("c", 0, False)
    assert shortage_of(fleet, gang((task(1), 15))).reason is ShortageReason.GPU
    assert shortage_of(fleet, gang((task(1), 14))).detail == (
        "health: it would fit with 1 nodes with 7 idle GPUs and 1 devices of other nodes that are not usable;"
        " now gpu: 14 GPUs asked, 6 free"
    )


@pytest.mark.parametrize("is_device", [True, False])
def test_a_refusal_is_explained_anew_once_what_was_ill_merely_moves_and_the_other_way_round(is_device: bool) -> None:
    fleet = fleet_of([node("a"), node("b", gpus=1), node("c", gpus=1)])
    fleet.set_usable("c", False)

    def regard(*, ill: bool) -> None:
        if is_device:
            fleet.set_device_usable("b", 0, False, ill=ill)
        else:
            fleet.set_usable("b", False, ill=ill)

    reasons, asked = list[str](), gang((task(1), 10))
    for ill in (True, False, True):
        regard(ill=ill)
        before = fleet.version
        reasons.append(shortage_of(fleet, asked).reason.value)
        assert fleet.version == before, "nothing came free"
    assert reasons == ["health", "gpu", "health"]


def test_only_what_a_group_may_use_is_named_among_what_is_ill() -> None:
    fleet = fleet_of([node("a", gpus=2), node("b", gpus=2, model="A100"), node("c", gpus=4, model="A100")])
    for name in ("a", "b"):
        fleet.set_device_usable(name, 0, False)
    fleet.set_usable("c", False)
    assert shortage_of(fleet, gang((task(1, models=("H100",)), 2))).detail == (
        "health: it would fit with 1 devices of other nodes that are not usable; now gpu: 2 GPUs asked, 1 free"
    )
    assert shortage_of(fleet, gang((task(cpu=64), 3))).detail == (
        "health: it would fit with 1 nodes with 4 idle GPUs that are not usable; now cpu: 3 x 64 CPU asked, 128 free"
    )


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(-1, 3), st.booleans(), st.booleans()), max_size=12))
@settings(max_examples=100, deadline=None)
def test_whether_something_is_ill_or_moves_changes_nothing_of_where_a_gang_goes(
    history: list[tuple[int, int, bool, bool]],
) -> None:
    shapes = [node(name, gpus=4, rack=f"r{name == 'c'}") for name in "abc"]
    plain, other = fleet_of(shapes), fleet_of(shapes)
    for which, index, usable, ill in history:
        name = shapes[which].name
        for fleet, flag in ((plain, True), (other, ill)):
            if index < 0:
                fleet.set_usable(name, usable, ill=flag)
            else:
                fleet.set_device_usable(name, index, usable, ill=flag)
        assert (other.version, other.totals, other.table().names) == (plain.version, plain.totals, plain.table().names)
    for asked in (gang((task(3), 2)), gang((task(1), 5)), gang((task(4), 2), level="rack")):
        assert other.find(asked) == plain.find(asked)
        refused, elsewhere = other.place(asked), plain.place(asked)
        if isinstance(refused, Shortage) and refused.reason is ShortageReason.HEALTH:
            assert isinstance(elsewhere, Shortage)
            assert elsewhere.reason is ShortageReason.HEALTH, "less is ill, never more"
