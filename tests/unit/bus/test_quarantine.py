"""Drafts that the log refuses are held back; all others go on, in their order, and whole groups stay whole."""

from hypothesis import given
from hypothesis import strategies as st

from muster.bus.ports import Refusal
from muster.bus.quarantine import Narrowing, Quarantine
from muster.core.fact import Draft
from muster.schemas.facts.node import Released

WAIT_S = (10.0, 40.0)


def draft(node: str, *, name: str = "released", together: str = "") -> Draft:
    return Draft("node", node, name, Released(), together=together)


def quarantine(*, most: int = 100) -> Quarantine:
    return Quarantine(most=most, wait_s=WAIT_S, pace_s=1.0)


def nodes(drafts: object) -> list[str]:
    return [one.subject_id for one in drafts]  # type: ignore[attr-defined]


@given(
    groups=st.lists(st.sampled_from(["", "", "", "a", "b", "c"]), max_size=30),
    refused=st.sets(st.integers(0, 29), max_size=30),
)
def test_whatever_is_refused_exactly_the_others_go_on_in_their_order(groups: list[str], refused: set[int]) -> None:
    drafts = [draft(f"n{index}", together=group) for index, group in enumerate(groups)]
    held = quarantine()
    for index in sorted(refused):
        if index < len(drafts):
            held.refuse(drafts[index], Refusal.PERMISSION, now_s=0)
    hit = {drafts[index].together for index in refused if index < len(drafts)} - {""}
    others = [
        one for index, one in enumerate(drafts) if index not in refused and not (one.together and one.together in hit)
    ]
    assert list(held.admit(drafts, now_s=5).drafts) == others


def test_what_comes_later_about_the_same_object_waits_and_what_came_before_does_not() -> None:
    held = quarantine()
    first, bad, later, other = draft("n1"), draft("n1", name="held"), draft("n1", name="withheld"), draft("n2")
    held.refuse(bad, Refusal.INVALID, now_s=0)
    assert list(held.admit([first, bad, later, other], now_s=1).drafts) == [first, other]


def test_a_group_that_waits_for_an_object_waits_whole() -> None:
    held = quarantine()
    held.refuse(draft("n1"), Refusal.INVALID, now_s=0)
    pair = [draft("n0", together="p"), draft("n1", name="withheld", together="p")]
    assert nodes(held.admit([draft("n1"), *pair, draft("n2")], now_s=1).drafts) == ["n2"]
    assert nodes(held.admit([pair[0], draft("n1"), pair[1], draft("n2")], now_s=1).drafts) == ["n2"]


def test_a_held_draft_is_tried_alone_with_its_group_and_ever_less_often() -> None:
    held = quarantine()
    bad, mate, good = draft("n1", together="g"), draft("n2", together="g"), draft("n3")
    assert held.refuse(bad, Refusal.PERMISSION, now_s=0)
    assert not held.is_due(9.9)
    assert held.is_due(10)
    tried = held.admit([good, bad, mate], now_s=10)
    assert nodes(tried.drafts) == ["n1", "n2"]
    assert not held.refuse(bad, Refusal.PERMISSION, now_s=10)
    assert nodes(held.admit([good, bad, mate], now_s=20).drafts) == ["n3"]
    assert held.admit([good, bad, mate], now_s=30).tried
    held.refuse_again(tried.tried, now_s=30)
    assert not held.is_due(69)
    assert held.is_due(70)


def test_one_that_is_stored_lets_all_go_that_were_refused_for_the_same_reason() -> None:
    held = quarantine()
    for node in ("n1", "n2"):
        held.refuse(draft(node), Refusal.PERMISSION, now_s=0)
    held.refuse(draft("n3"), Refusal.INVALID, now_s=0)
    drafts = [draft("n1"), draft("n2"), draft("n3")]
    held.stored(held.admit(drafts, now_s=10).tried, now_s=10)
    assert len(held) == 1
    assert nodes(held.admit(drafts, now_s=10.5).drafts) == ["n1", "n2"]


def test_what_no_core_asks_for_any_more_is_forgotten() -> None:
    held = quarantine()
    held.refuse(draft("n1"), Refusal.PERMISSION, now_s=0)
    assert list(held.admit([draft("n2")], now_s=10).drafts) == [draft("n2")]
    assert len(held) == 0
    assert not held.is_due(1000)


def test_it_holds_no_more_than_it_may() -> None:
    held = quarantine(most=3)
    for number in range(10):
        held.refuse(draft(f"n{number}"), Refusal.PERMISSION, now_s=number)
    assert len(held) == 3
    assert nodes(held.admit([draft("n0"), draft("n9")], now_s=10).drafts) == ["n0"]


def find_by_sending(drafts: list[Draft], bad: set[str], *, rounds: int) -> list[str]:
    """Send as a leader does to a broker that refuses whatever holds one of `bad`; who is blamed."""
    narrowing, blamed = Narrowing(), list[str]()
    waiting = list(drafts)
    for _ in range(rounds):
        waiting = [one for one in waiting if one.subject_id not in blamed]
        if not waiting:
            break
        sent = narrowing.next(waiting)
        if any(one.subject_id in bad for one in sent):
            narrowing.failed()
            continue
        blamed += nodes(narrowing.stored())
        waiting = [one for one in waiting if one not in sent]
    assert not [one for one in waiting if one.subject_id not in blamed], "not all others were stored"
    return blamed


@given(st.integers(1, 300), st.sets(st.integers(0, 299), max_size=3))
def test_drafts_that_are_refused_without_a_word_are_found(count: int, bad: set[int]) -> None:
    drafts = [draft(f"n{number}") for number in range(count)]
    names = {f"n{number}" for number in bad if number < count}
    assert set(find_by_sending(drafts, names, rounds=120)) == names


def test_nobody_is_blamed_while_the_broker_is_away() -> None:
    narrowing, drafts = Narrowing(), [draft("n1"), draft("n2")]
    for _ in range(50):
        narrowing.next(drafts)
        narrowing.failed()
    for _ in range(10):  # it is back: everything is stored
        narrowing.next(drafts)
        assert list(narrowing.stored()) == []
    assert list(narrowing.next(drafts)) == drafts
