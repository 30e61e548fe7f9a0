"""Drafts that the log refuses: held back so that the others are stored, and tried again at a slow pace.

A core decides the same draft again after every fold, until it has folded it. What is held here is left out of what is
appended, with what must stand together with it, and with what comes after it about the same object: that may rest on
it. Pure: the moment is an argument.
"""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from muster.bus.batches import first_blocks
from muster.bus.ports import Refusal
from muster.core.fact import Draft

FAILURES_MIN = 2
"""Consecutive failed appends before fewer drafts are sent."""


class Key(NamedTuple):
    """Identity of a draft without its body, which may name the time of the decision."""

    kind: str
    subject_id: str
    name: str
    cluster: str


def key_of(draft: Draft) -> Key:
    """Return the key of a draft."""
    return Key(draft.kind, draft.subject_id, draft.name, draft.cluster)


@dataclass(slots=True)
class _Held:
    reason: Refusal
    wait_s: float
    retry_s: float


@dataclass(frozen=True, slots=True)
class Admitted:
    """Drafts that may be appended now. tried: held drafts that are retried, alone; then nothing else is appended."""

    drafts: Sequence[Draft]
    tried: tuple[Key, ...] = ()


class Quarantine:
    """At most `most` drafts; of more those that were refused longest ago are tried again.

    wait_s: first and longest wait before a draft is tried again. pace_s: least time between two tries.
    """

    def __init__(self, *, most: int, wait_s: tuple[float, float], pace_s: float) -> None:
        self._most = most
        self._wait_s = wait_s
        self._pace_s = pace_s
        self._held: OrderedDict[Key, _Held] = OrderedDict()
        self._next_s = 0.0

    def __len__(self) -> int:
        return len(self._held)

    def is_due(self, now_s: float) -> bool:
        """Return whether a draft may be tried again now."""
        return bool(self._held) and now_s >= self._next_s

    def refuse(self, draft: Draft, reason: Refusal, *, now_s: float) -> bool:
        """Hold a draft back; longer each time. Return whether it was not held before."""
        key, (first_s, longest_s) = key_of(draft), self._wait_s
        known = self._held.pop(key, None)
        wait_s = first_s if known is None else min(longest_s, 2 * known.wait_s)
        soonest_s = self._next_s if self._held else now_s + wait_s
        self._held[key] = _Held(reason, wait_s, now_s + wait_s)
        if len(self._held) > self._most:
            self._held.popitem(last=False)
        self._next_s = max(now_s + self._pace_s, min(soonest_s, now_s + wait_s))
        return known is None

    def refuse_again(self, keys: Sequence[Key], *, now_s: float) -> None:
        """Hold back longer what was tried in vain."""
        for key in keys:
            held = self._held.get(key)
            if held is not None:
                held.wait_s = min(self._wait_s[1], 2 * held.wait_s)
                held.retry_s = now_s + held.wait_s
        self._set_next(now_s)

    def stored(self, keys: Sequence[Key], *, now_s: float) -> None:
        """Release the stored drafts, and all drafts that were refused for the same reason: its cause may be gone."""
        reasons = {held.reason for key in keys if (held := self._held.get(key)) is not None}
        self._held = OrderedDict((key, held) for key, held in self._held.items() if held.reason not in reasons)
        self._set_next(now_s)

    def admit(self, drafts: Sequence[Draft], *, now_s: float) -> Admitted:
        """Return what may be appended of one decision: one held draft that is due, or all that nothing holds back."""
        if not self._held:
            return Admitted(drafts)
        keys = [key_of(draft) for draft in drafts]
        held = {index for index, key in enumerate(keys) if key in self._held}
        if self.is_due(now_s):
            due = next((index for index in sorted(held) if self._held[keys[index]].retry_s <= now_s), None)
            if due is not None:
                group = list(_group(drafts, due))
                return Admitted([drafts[index] for index in group], tuple(keys[index] for index in group))
            self._forget_unwanted(frozenset(keys), now_s)
        if not held:
            return Admitted(drafts)
        left_out = _held_back(drafts, held)
        return Admitted([draft for index, draft in enumerate(drafts) if index not in left_out])

    def _forget_unwanted(self, wanted: frozenset[Key], now_s: float) -> None:
        """Forget what is due and no core asks for any more."""
        gone = [key for key, held in self._held.items() if held.retry_s <= now_s and key not in wanted]
        for key in gone:
            del self._held[key]
        self._set_next(now_s)

    def _set_next(self, now_s: float) -> None:
        soonest_s = min((held.retry_s for held in self._held.values()), default=0.0)
        self._next_s = max(soonest_s, now_s + self._pace_s)


def _group(drafts: Sequence[Draft], index: int) -> Iterator[int]:
    """Yield the drafts that must be appended together with one, including itself."""
    together = drafts[index].together
    if not together:
        yield index
        return
    yield from (other for other, draft in enumerate(drafts) if draft.together == together)


def _held_back(drafts: Sequence[Draft], held: set[int]) -> set[int]:
    """Return the held drafts, the drafts that must be appended with them, and later drafts about the same objects."""
    left_out = set(held)
    while True:
        groups = {drafts[index].together for index in left_out} - {""}
        first = dict[tuple[str, str], int]()
        for index in left_out:
            draft = drafts[index]
            about = (draft.kind, draft.subject_id)
            first[about] = min(index, first.get(about, index))
        more = {
            index
            for index, draft in enumerate(drafts)
            if index not in left_out
            and (draft.together in groups or first.get((draft.kind, draft.subject_id), index) < index)
        }
        if not more:
            return left_out
        left_out |= more


class Narrowing:
    """Which draft is to blame where appends fail and nothing says why: fewer and fewer are sent, and then none.

    An append that fails may have nothing to do with its drafts: the broker may be away. So the last one that is left is
    blamed only if appends without any draft are stored before and after it failed.
    is_control: no draft is sent, to see whether the broker stores anything at all.
    """

    def __init__(self) -> None:
        self.is_control = False
        self._failures = 0
        self._most = 0
        self._sent: Sequence[Draft] = ()
        self._suspects: Sequence[Draft] = ()
        self._may_blame = False

    def next(self, drafts: Sequence[Draft]) -> Sequence[Draft]:
        """Return the drafts to send: all of them while nothing fails."""
        if self.is_control:
            self._sent = ()
        else:
            self._sent = first_blocks(drafts, self._most) if self._most else drafts
        return self._sent

    def failed(self) -> None:
        """Record that the append failed."""
        self._failures += 1
        if self.is_control:  # the broker is away: nothing is known of the suspects
            self.is_control, self._may_blame, self._suspects = False, False, ()
            return
        if self._failures < FAILURES_MIN or not self._sent:
            return
        is_single = len(first_blocks(self._sent, 1)) == len(self._sent)
        if is_single:
            self.is_control, self._suspects = True, self._sent
        self._most = max(1, len(self._sent) // 2)

    def stored(self) -> Sequence[Draft]:
        """Record that the append was stored. Return the drafts that caused earlier failures, if they are known now."""
        if self.is_control:
            blamed: Sequence[Draft] = self._suspects if self._may_blame else ()
            self.is_control, self._may_blame, self._suspects = False, not blamed, ()
            return blamed
        self._failures, self._may_blame = 0, False
        self._most *= 2
        if self._most > len(self._sent) * 2:
            self._most = 0
        return ()
