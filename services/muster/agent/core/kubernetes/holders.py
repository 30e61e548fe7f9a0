"""Which claims hold which devices, as watched.

The API server does not refuse two claims that name one device. So whoever allocates writes first, and looks when its
own write comes back by the watch: events of one kind come in the order in which they were written, so of two who wrote
at the same time the later one sees the earlier, and gives way.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from muster.agent.core.kubernetes.claims import ClaimView
from muster.agent.core.kubernetes.slices import Place

Key = tuple[str, str]
"""Namespace and name of a claim."""


@dataclass(slots=True)
class Holders:
    """All claims of the cluster."""

    claims: dict[Key, ClaimView] = field(default_factory=dict)
    _by_place: dict[Place, dict[Key, None]] = field(default_factory=dict)
    _by_owner: dict[str, dict[Key, None]] = field(default_factory=dict)
    _at: dict[str, int] = field(default_factory=dict)  # claims of ours by node

    def put(self, view: ClaimView) -> None:
        """A claim is so."""
        self.remove(view.key)
        self.claims[view.key] = view
        for place in view.places:
            self._by_place.setdefault(place, {})[view.key] = None
        if view.job and view.places:
            self._at[view.node] = self._at.get(view.node, 0) + 1
        if view.owner:
            self._by_owner.setdefault(view.owner, {})[view.key] = None

    def remove(self, key: Key) -> None:
        """A claim is no more."""
        view = self.claims.pop(key, None)
        if view is None:
            return
        for place in view.places:
            _drop(self._by_place, place, key)
        _drop(self._by_owner, view.owner, key)
        if view.job and view.places:
            left = self._at.pop(view.node) - 1
            if left:
                self._at[view.node] = left

    def clear(self) -> None:
        """Forget all of them: they are to be seen again."""
        self.claims.clear()
        self._by_place.clear()
        self._by_owner.clear()
        self._at.clear()

    def of_pod(self, uid: str) -> list[ClaimView]:
        """Claims that were made for this pod."""
        return [self.claims[key] for key in self._by_owner.get(uid, ())]

    def others(self, places: Iterable[Place], *, than: Key) -> list[ClaimView]:
        """Other claims that hold one of these devices; one of ours that is being deleted holds nothing any more."""
        keys = dict.fromkeys(key for place in places for key in self._by_place.get(place, ()) if key != than)
        found = (self.claims[key] for key in keys)
        return [claim for claim in found if not (claim.job and claim.deleting)]

    def ours(self, place: Place) -> bool:
        """Whether a claim of Muster's holds it."""
        return any(self.claims[key].job for key in self._by_place.get(place, ()))

    def hold_at(self, node: str) -> bool:
        """Whether claims of Muster's hold devices of this node."""
        return self._at.get(node, 0) > 0

    def foreign(self, places: Iterable[Place]) -> list[ClaimView]:
        """Claims of others than Muster that hold one of these devices."""
        return [claim for claim in self.others(places, than=("", "")) if not claim.job]


_Where = TypeVar("_Where", Place, str)


def _drop(index: dict[_Where, dict[Key, None]], where: _Where, key: Key) -> None:
    there = index.get(where)
    if there is not None:
        there.pop(key, None)
        if not there:
            del index[where]
