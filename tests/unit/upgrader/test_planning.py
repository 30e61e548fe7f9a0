"""Plans of turns: limits hold at every moment, gangs go together, windows are kept."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.core import NS_PER_S, Instant
from muster.schemas.facts.upgrade import Window
from muster.upgrader.core import turns
from muster.upgrader.core.outlook import nodes_of
from muster.upgrader.core.planning import Busy, Candidate, Room, _Use, plan

NOW = Instant(1_000 * NS_PER_S)
TAKES_NS = 100 * NS_PER_S
MONDAY = Instant(1_767_571_200 * NS_PER_S)
"""5 January 2026, 00:00 UTC."""
MINUTE_NS, DAY_NS = 60 * NS_PER_S, 86_400 * NS_PER_S


def at_once(moment: Instant) -> Instant:
    """No windows."""
    return moment


def planned(candidates: list[Candidate], room: Room, *busy: Busy) -> dict[str, int]:
    """Seconds from now to each turn."""
    turns = plan(candidates, busy, room, now=NOW, takes_ns=TAKES_NS, opens=at_once)
    return {node: (start - NOW) // NS_PER_S for node, start in turns.items()}


def free(node: str, in_s: float = 0.0, **values: object) -> Candidate:
    """A node that comes free in so many seconds."""
    return Candidate(node, NOW + round(in_s * NS_PER_S), **values)  # type: ignore[arg-type]


def test_nodes_have_their_turns_as_they_come_free() -> None:
    turns = planned([free("a", 500), free("b"), free("c", 50)], Room(1))
    assert turns == {"b": 0, "c": 100, "a": 500}


def test_a_gang_that_fits_waits_for_room_for_all_of_it() -> None:
    gang = [free(name, 10, gang="g") for name in ("a", "b", "c")]
    turns = planned([*gang, free("z", 11)], Room(3), Busy(NOW + 50 * NS_PER_S))
    assert turns == {"a": 50, "b": 50, "c": 50, "z": 150}


def test_a_gang_that_never_fits_goes_in_parts() -> None:
    turns = planned([free(name, gang="g") for name in ("a", "b", "c")], Room(2))
    assert turns == {"a": 0, "b": 0, "c": 100}


def test_who_is_out_of_use_anyhow_takes_no_room() -> None:
    turns = planned([free("a", is_out=True), free("b")], Room(1))
    assert turns == {"a": 0, "b": 0}


def test_turns_that_end_together_with_nodes_that_are_out_of_use_have_an_order() -> None:
    """Of two that end at one moment, one came first: also beside some of which nobody knows when they end."""
    lasting = [Busy(None, is_ours=False) for _ in range(3)]
    busy = [Busy(NOW + TAKES_NS, is_ours=False) for _ in range(3)]
    turns = planned([free(name) for name in "abcd"], Room(8), *lasting, *busy)
    assert turns == {"a": 0, "b": 0, "c": 100, "d": 100}


def test_a_rack_that_is_full_keeps_nobody_looking_at_all_that_wait_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """One at a time in one rack: what is looked at grows with the nodes, not with the moments times the nodes."""
    looks, fits = 0, _Use.fits

    def counted(use: _Use, one: Candidate) -> bool:
        nonlocal looks
        looks += 1
        return fits(use, one)

    monkeypatch.setattr(_Use, "fits", counted)
    turns = planned([free(f"n{number:03d}", number, rack="r0") for number in range(200)], Room(200, per_rack=1))
    assert len(turns) == 200
    assert looks <= 2 * 200


def test_without_room_nobody_has_a_turn() -> None:
    assert not planned([free("a")], Room(1), Busy(None, is_ours=False))


@given(
    st.lists(
        st.tuples(st.integers(0, 500), st.sampled_from(["", "g1", "g2"]), st.sampled_from(["r1", "r2"]), st.booleans()),
        max_size=25,
    ),
    st.integers(1, 4),
    st.integers(0, 3),
    st.integers(0, 2),
    st.integers(0, 2),
)
def test_limits_hold_at_every_moment(
    nodes: list[tuple[int, str, str, bool]], total: int, parallel: int, per_rack: int, already: int
) -> None:
    candidates = [
        free(f"n{number}", in_s, gang=gang, rack=rack, is_out=out)
        for number, (in_s, gang, rack, out) in enumerate(nodes)
    ]
    room = Room(total, parallel, per_rack)
    busy = [Busy(NOW + 70 * NS_PER_S, rack="r1") for _ in range(already)]
    turns = plan(candidates, busy, room, now=NOW, takes_ns=TAKES_NS, opens=at_once)
    assert len(turns) == len(nodes), "everybody has a turn at some time"
    by_name = {one.node: one for one in candidates}
    for moment in turns.values():
        under_way = [by_name[node] for node, start in turns.items() if start <= moment < start + TAKES_NS]
        fresh = [one for one in under_way if not one.is_out]
        others = already if moment < NOW + 70 * NS_PER_S else 0
        assert not fresh or len(fresh) + others <= max(total, others)
        assert not parallel or len(under_way) + others <= max(parallel, others)
        in_rack = sum(one.rack == "r1" for one in fresh)
        assert not per_rack or in_rack + others <= max(per_rack, others)
    assert all(start >= by_name[node].free_at for node, start in turns.items())


def test_a_window_opens_every_week() -> None:
    nights = (Window(days=(4,), from_min=22 * 60, to_min=6 * 60),)
    friday = Instant(MONDAY + 4 * DAY_NS + 22 * 60 * MINUTE_NS)
    assert turns.open_at(nights, MONDAY) == friday
    assert turns.open_at(nights, friday) == friday
    saturday_5 = Instant(friday + 7 * 60 * MINUTE_NS)
    assert turns.open_at(nights, saturday_5) == saturday_5, "it lasts over midnight"
    saturday_6 = Instant(friday + 8 * 60 * MINUTE_NS)
    assert turns.open_at(nights, saturday_6) == friday + 7 * DAY_NS


def test_a_window_over_the_turn_of_the_week() -> None:
    sunday_night = (Window(days=(6,), from_min=23 * 60, to_min=60),)
    assert turns.open_at(sunday_night, MONDAY) == MONDAY


def test_shares_are_rounded_down_but_leave_one() -> None:
    assert [nodes_of("5%", nodes) for nodes in (10, 39, 40, 200)] == [1, 1, 2, 10]
    assert nodes_of("7", 3) == 7
