"""What may happen thousands of times a second is said a few times and counted."""

from muster.bus.sparingly import Sparingly


def test_some_lines_of_a_second_are_said_and_the_rest_is_counted() -> None:
    lines = Sparingly(2)
    assert [lines.may_say(10.0 + 0.1 * index) for index in range(5)] == [True, True, False, False, False]
    assert lines.left_out() == 3
    assert lines.left_out() == 0


def test_the_next_second_begins_anew() -> None:
    lines = Sparingly(1)
    assert lines.may_say(0.0)
    assert not lines.may_say(0.9)
    assert lines.may_say(1.0)
