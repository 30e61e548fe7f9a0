"""What may happen thousands of times a second is said a few times and counted."""

from muster.bus.logs import LineLimiter


def test_some_lines_of_a_second_are_said_and_the_rest_is_counted() -> None:
    lines = LineLimiter(2)
    assert [lines.allows(10.0 + 0.1 * index) for index in range(5)] == [True, True, False, False, False]
    assert lines.left_out() == 3
    assert lines.left_out() == 0


def test_the_next_second_begins_anew() -> None:
    lines = LineLimiter(1)
    assert lines.allows(0.0)
    assert not lines.allows(0.9)
    assert lines.allows(1.0)
