"""Time as a leader knows it."""

from hypothesis import given
from hypothesis import strategies as st

from kit.clocks import FakeTime
from muster.bus.clock import Clock
from muster.core.instant import NS_PER_S, Instant

SECONDS = st.integers(-100, 100)


@given(st.lists(st.tuples(SECONDS, SECONDS), max_size=20))
def test_now_never_goes_back_and_is_never_before_what_was_folded(steps: list[tuple[int, int]]) -> None:
    source = FakeTime()
    clock = Clock(source)
    newest = latest = source.wall()
    for jump_s, folded_s in steps:
        source.wall_ns += jump_s * NS_PER_S
        newest = Instant(max(newest, source.wall_ns + folded_s * NS_PER_S))
        now = clock.now(newest)
        assert now >= latest
        assert now >= newest
        latest = now


def test_a_clock_far_ahead_of_the_brokers_does_not_make_deadlines_early() -> None:
    source = FakeTime()
    clock = Clock(source)
    true_now = Instant(source.wall_ns)
    source.wall_ns += 60 * NS_PER_S
    sent = source.wall()
    clock.saw_append(sent=sent, answered=Instant(sent + 1000), stamped=true_now)
    assert clock.skew_s == 60
    assert clock.now(true_now) == true_now


def test_clocks_that_agree_within_the_round_trip_show_no_skew() -> None:
    clock = Clock(FakeTime())
    clock.saw_append(sent=Instant(100), answered=Instant(300), stamped=Instant(200))
    assert clock.skew_s == 0
    clock.saw_append(sent=Instant(0), answered=Instant(NS_PER_S), stamped=Instant(3 * NS_PER_S))
    assert clock.skew_s == -2
