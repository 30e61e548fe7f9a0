"""What attaching many GPUs is compared with."""

from hypothesis import given
from hypothesis import strategies as st

from muster.core import NS_PER_S, Instant
from muster_tools.bench.attach import (
    Moments,
    Plan,
    Switch,
    list_schedule_s,
    lower_bound_s,
    most_at_once,
    report_of,
)

times = st.lists(st.floats(min_value=0.01, max_value=100), min_size=1, max_size=30)


def s(seconds: float) -> int:
    return round(seconds * NS_PER_S)


def switch(device: str, begun_s: float, due_s: float) -> Switch:
    return Switch(begun=s(begun_s), due=s(due_s), device={"device_id": device})


def test_a_list_schedule_takes_the_first_free_lane() -> None:
    assert list_schedule_s([4, 1, 2, 2], lanes=2) == 5
    assert list_schedule_s([1, 2, 2, 4], lanes=2) == 6


def test_on_one_lane_all_come_one_by_one() -> None:
    assert list_schedule_s([1, 2, 3], lanes=1) == lower_bound_s([1, 2, 3], lanes=1) == 6


@given(times, st.integers(min_value=1, max_value=8))
def test_no_schedule_is_below_the_lower_bound_nor_is_the_list_twice_it(takes_s: list[float], lanes: int) -> None:
    bound_s, listed_s = lower_bound_s(takes_s, lanes), list_schedule_s(takes_s, lanes)
    assert bound_s <= listed_s * (1 + 1e-9)
    assert listed_s <= 2 * bound_s * (1 + 1e-9)


def test_switches_that_follow_each_other_are_not_at_once() -> None:
    assert most_at_once([switch("a", 0, 2), switch("b", 2, 3), switch("c", 1, 2)]) == 2


def test_the_report_counts_from_accepted_to_the_last_outcome() -> None:
    switches = [switch("a", 1, 5), switch("b", 1, 3), switch("c", 3, 5)]
    moments = Moments(
        accepted=Instant(s(0.5)),
        attachments=(
            (Instant(s(0.9)), Instant(s(5.1)), "a"),
            (Instant(s(0.9)), Instant(s(3.2)), "b"),
            (Instant(s(2.9)), Instant(s(5.5)), "c"),
        ),
    )
    report = report_of(Plan(gpus=3, limit=2, switch_s=2), switches, moments, accepted_s=0.1)
    assert report.wall_s == 5.0
    assert (report.serial_s, report.longest_s) == (8.0, 4.0)
    assert (report.lower_bound_s, report.list_schedule_s) == (4.0, 4.0)
    assert (report.wall_to_lower_bound, report.serial_to_wall) == (1.25, 1.6)
    assert report.call_overhead_s_median == 0.3
    assert report.most_at_once == 2


def test_the_stack_has_room_for_every_gpu_and_nobody_scales() -> None:
    settings = Plan(gpus=20, limit=4, switch_s=2).settings()
    assert settings["scaling"]["groups"][0]["nodes"] == 3  # type: ignore[index]
    assert settings["scaling"]["mode"] == "off"  # type: ignore[index]
