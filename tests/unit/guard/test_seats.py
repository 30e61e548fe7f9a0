"""The arithmetic of priority levels: exactly the wanted seats, or a sentence that says why not."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.guard.core.seats import (
    Impossible,
    Plan,
    ServerSeats,
    Want,
    are_right,
    plan_for,
    seats_of,
    server_seats_from,
)

DEFAULT_LEVELS = (5, 30, 40, 10, 40, 100, 20, 0)
"""Of a new API server: 245 shares."""
DEFAULT = ServerSeats(600, 600)


def as_the_server_does(shares: int, total: int, server_seats: int) -> int:
    """math.Ceil(float64(serverConcurrencyLimit) * float64(shares) / shareSum), as the API server computes it."""
    return math.ceil(float(server_seats) * float(shares) / float(total))


wants_lists = st.lists(st.integers(1, 40), min_size=1, max_size=4).map(
    lambda seats: [Want(f"level-{number}", one) for number, one in enumerate(seats)]
)
level_shares = st.lists(st.integers(0, 300), min_size=1, max_size=12)


@given(wants=wants_lists, others=level_shares, seats=st.integers(1, 5_000), spread=st.integers(0, 60))
def test_any_levels_get_exactly_the_wanted_seats_or_a_sentence(
    wants: list[Want], others: list[int], seats: int, spread: int
) -> None:
    server = ServerSeats(seats, seats + spread)
    found = plan_for(wants, others=sum(others), server=server)
    if isinstance(found, Impossible):
        assert found.reason
        assert _nothing_does_it(wants, server)
        return
    assert found.total == sum(others) + sum(found.shares) + found.ballast
    assert found.ballast >= 0
    for some in range(server.low, server.high + 1):
        for want, shares in zip(wants, found.shares, strict=True):
            assert as_the_server_does(shares, found.total, some) == want.seats


def _nothing_does_it(wants: list[Want], server: ServerSeats) -> bool:
    """By what the API server's formula allows at all: replicas too different, or more seats than there are."""
    too_different = any(want.seats * server.low <= (want.seats - 1) * server.high for want in wants)
    return too_different or sum(want.seats - 1 for want in wants) >= server.low


@given(
    others=st.integers(0, 40),
    seats=st.integers(1, 60),
    wanted=st.integers(1, 6),
)
def test_no_smaller_sum_of_shares_would_do(others: int, seats: int, wanted: int) -> None:
    found = plan_for([Want("one", wanted)], others=others, server=ServerSeats(seats, seats))
    smallest = next(
        (
            total
            for total in range(1, 400)
            for shares in range(1, total - others + 1)
            if as_the_server_does(shares, total, seats) == wanted
        ),
        None,
    )
    assert (found.total if isinstance(found, Plan) else None) == smallest


@given(shares=st.integers(0, 10_000), more=st.integers(0, 100_000), seats=st.integers(1, 100_000))
def test_whole_numbers_give_what_the_servers_floats_give(shares: int, more: int, seats: int) -> None:
    total = max(1, shares + more)
    assert seats_of(shares, total=total, server_seats=seats) == as_the_server_does(shares, total, seats)


def test_one_share_beside_the_default_levels_is_three_seats_and_not_two() -> None:
    assert seats_of(1, total=sum(DEFAULT_LEVELS) + 1, server_seats=600) == 3


def test_the_default_levels_need_ballast_for_two_seats() -> None:
    assert plan_for([Want("secrets", 2)], others=245, server=DEFAULT) == Plan(shares=(1,), ballast=54, total=300)


def test_no_ballast_where_the_levels_have_shares_enough() -> None:
    assert plan_for([Want("secrets", 2)], others=400, server=DEFAULT) == Plan(shares=(1,), ballast=0, total=401)


def test_what_is_right_is_told_from_what_is_not() -> None:
    wants = [Want("secrets", 2)]
    assert are_right([1], wants, total=300, server=DEFAULT)
    assert not are_right([1], wants, total=246, server=DEFAULT)
    assert not are_right([], wants, total=300, server=DEFAULT)


def test_replicas_with_half_the_seats_cannot_all_have_two() -> None:
    found = plan_for([Want("secrets", 2)], others=245, server=ServerSeats(300, 600))
    assert isinstance(found, Impossible)
    assert "same --max-requests-inflight" in found.reason


def test_more_seats_than_there_are_cannot_be() -> None:
    found = plan_for([Want("secrets", 40), Want("pods", 40)], others=10, server=ServerSeats(50, 50))
    assert isinstance(found, Impossible)
    assert "40 seats for secrets and 40 seats for pods" in found.reason


@given(others=level_shares, seats=st.integers(1, 3_000))
def test_a_servers_seats_are_among_those_that_its_levels_allow(others: list[int], seats: int) -> None:
    total = max(1, sum(others))
    shown = [(shares, seats_of(shares, total=total, server_seats=seats)) for shares in others]
    found = server_seats_from(shown, total=total)
    if any(others):
        assert found is not None
        assert found.low <= seats <= found.high


def test_the_default_levels_tell_a_servers_seats_up_to_two() -> None:
    shown = [(shares, seats_of(shares, total=245, server_seats=600)) for shares in DEFAULT_LEVELS]
    assert server_seats_from(shown, total=245) == ServerSeats(598, 600)


def test_seats_that_no_server_can_have_tell_nothing() -> None:
    assert server_seats_from([(100, 10), (100, 20)], total=200) is None


def test_no_seats_cannot_be_wanted() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        plan_for([Want("secrets", 0)], others=245, server=DEFAULT)
