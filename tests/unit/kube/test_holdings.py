"""Whatever is missed and had anew, the changes that were delivered add up to what is there."""

from hypothesis import given
from hypothesis import strategies as st

from muster.kube.holdings import Change, Happened, Holdings, Key
from muster.kube.objects import JsonObject, integer, truth

NAMES = st.sampled_from(["a", "b", "c"])


def obj(name: str, version: int, *, uid: str = "1", colour: int = 0, wanted: bool = True) -> JsonObject:
    metadata: JsonObject = {"name": name, "namespace": "n", "resourceVersion": str(version), "uid": uid}
    return {"metadata": metadata, "colour": colour, "wanted": wanted}


def colour(of: JsonObject) -> int | None:
    return integer(of, "colour") if truth(of, "wanted") else None


def holding(*objects: JsonObject, version: int = 1) -> Holdings[int]:
    holdings: Holdings[int] = Holdings(colour)
    holdings.begin()
    for one in objects:
        holdings.bring(one)
    holdings.swap(version)
    return holdings


def key(name: str) -> Key:
    return Key("n", name)


def test_a_new_state_is_held_only_when_it_is_whole() -> None:
    holdings = holding(obj("a", 1))
    holdings.begin()
    holdings.bring(obj("b", 2))
    assert dict(holdings.items()) == {key("a"): 0}
    changes = holdings.swap(2)
    assert changes == [Change(Happened.DELETED, key("a"), 0, None), Change(Happened.ADDED, key("b"), None, 0)]


def test_an_event_that_changes_nothing_of_interest_is_no_change() -> None:
    holdings = holding(obj("a", 1, colour=3))
    assert list(holdings.apply(obj("a", 2, colour=3), deleted=False)) == []
    assert list(holdings.apply(obj("a", 3, colour=4), deleted=False)) == [Change(Happened.MODIFIED, key("a"), 3, 4)]


def test_the_last_state_of_a_deleted_object_is_told() -> None:
    holdings = holding(obj("a", 1, colour=3))
    assert list(holdings.apply(obj("a", 2, colour=9), deleted=True)) == [Change(Happened.DELETED, key("a"), 9, None)]


def test_an_object_of_the_same_name_is_another() -> None:
    holdings = holding(obj("a", 1, colour=3))
    gone, new = Change(Happened.DELETED, key("a"), 3, None), Change(Happened.ADDED, key("a"), None, 3)
    assert list(holdings.apply(obj("a", 2, uid="2", colour=3), deleted=False)) == [gone, new]
    holdings.begin()
    holdings.bring(obj("a", 3, uid="3", colour=3))
    assert holdings.swap(3) == [gone, new]


def test_an_object_comes_into_interest_and_leaves_it() -> None:
    holdings = holding(obj("a", 1, wanted=False))
    assert dict(holdings.items()) == {}
    assert list(holdings.apply(obj("a", 2, colour=5), deleted=False)) == [Change(Happened.ADDED, key("a"), None, 5)]
    left = list(holdings.apply(obj("a", 3, wanted=False), deleted=False))
    assert left == [Change(Happened.DELETED, key("a"), 5, None)]
    assert list(holdings.apply(obj("a", 4, wanted=False), deleted=True)) == []


def test_what_is_held_already_is_held_once_while_a_new_state_comes() -> None:
    def labels(of: JsonObject) -> tuple[object, ...]:
        return ("labels", of["colour"])

    holdings: Holdings[tuple[object, ...]] = Holdings(labels)
    for version in (1, 2):
        before = holdings.get(key("a"))
        holdings.begin()
        holdings.bring(obj("a", version, colour=7))
        holdings.swap(version)
    assert holdings.get(key("a")) is before is not None


def test_an_older_state_is_not_taken_for_news() -> None:
    holdings = holding(obj("a", 5, colour=5))
    assert list(holdings.apply(obj("a", 4, colour=4), deleted=False)) == []
    assert holdings.get(key("a")) == 5


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[int, str, str, int]]:
    """(version, name, uid or "" for gone, colour)."""
    steps, uids = [], 0
    there: dict[str, str] = {}
    for version in range(1, draw(st.integers(1, 25)) + 1):
        name = draw(NAMES)
        if name in there and draw(st.booleans()):
            del there[name]
            steps.append((version, name, "", 0))
        else:
            uids += name not in there
            there.setdefault(name, str(uids))
            steps.append((version, name, there[name], draw(st.integers(0, 2))))
    return steps


def state_at(history: list[tuple[int, str, str, int]], version: int) -> dict[Key, JsonObject]:
    state: dict[Key, JsonObject] = {}
    for at, name, uid, shade in history:
        if at <= version and uid:
            state[key(name)] = obj(name, at, uid=uid, colour=shade)
        elif at <= version:
            state.pop(key(name), None)
    return state


class Follower:
    """Applies changes as a consumer does, and insists that they follow from one another."""

    def __init__(self) -> None:
        self.seen: dict[Key, int] = {}

    def take(self, changes: list[Change[int]]) -> None:
        for change in changes:
            if change.happened is Happened.ADDED:
                assert change.key not in self.seen
                assert change.now is not None
                self.seen[change.key] = change.now
            elif change.happened is Happened.MODIFIED:
                assert change.now is not None
                assert self.seen[change.key] == change.before != change.now
                self.seen[change.key] = change.now
            else:
                del self.seen[change.key]


@given(history=histories(), data=st.data())
def test_changes_add_up_whatever_is_lost_between(history: list[tuple[int, str, str, int]], data: st.DataObject) -> None:
    holdings: Holdings[int] = Holdings(colour)
    follower = Follower()
    last: dict[str, JsonObject] = {}
    for version, name, uid, shade in history:
        now = obj(name, version, uid=uid, colour=shade) if uid else {**last[name], "metadata": _at(last[name], version)}
        last[name] = now
        if data.draw(st.booleans(), label="had anew"):
            holdings.begin()
            for one in state_at(history, version).values():
                holdings.bring(one)
            follower.take(holdings.swap(version))
        elif holdings.version == version - 1:
            follower.take(list(holdings.apply(now, deleted=not uid)))
        else:
            continue
        expected = {at: integer(one, "colour") for at, one in state_at(history, version).items()}
        assert follower.seen == dict(holdings.items()) == expected


def _at(one: JsonObject, version: int) -> JsonObject:
    metadata = one["metadata"]
    assert isinstance(metadata, dict)
    return {**metadata, "resourceVersion": str(version)}


@given(history=histories(), data=st.data())
def test_a_comparison_finds_exactly_what_was_lost(
    history: list[tuple[int, str, str, int]], data: st.DataObject
) -> None:
    """Begun at some version, answered as of a later one, judged after the watch has gone on still further."""
    end = len(history)
    begun = data.draw(st.integers(0, end), label="begun")
    asked = data.draw(st.integers(begun, end), label="asked")
    lost = data.draw(st.sets(st.integers(1, end)), label="lost")
    holdings: Holdings[int] = Holdings(colour)
    last: dict[str, JsonObject] = {}
    for version, name, uid, shade in history:
        if version == begun + 1:
            holdings.compare()
        last[name] = (
            obj(name, version, uid=uid, colour=shade) if uid else {**last[name], "metadata": _at(last[name], version)}
        )
        if version in lost:
            holdings.reached(version)
        else:
            holdings.apply(last[name], deleted=not uid)
    if begun == end:
        holdings.compare()
    there = state_at(history, asked)
    listed = {at: int(one["metadata"]["resourceVersion"]) for at, one in there.items()}  # type: ignore[index]
    wrong = set(holdings.differences(listed, asked))
    if not lost:
        assert wrong == set()
        assert holdings.count_at(asked) == len(there)
    if asked == end:
        held = dict(holdings.items())
        assert {at for at in held.keys() | there.keys() if held.get(at) != _colour(there, at)} <= wrong


def _colour(there: dict[Key, JsonObject], at: Key) -> int | None:
    return integer(there[at], "colour") if at in there else None
