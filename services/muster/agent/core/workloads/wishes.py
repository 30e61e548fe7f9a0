"""What objects are told: one thing at a time each, and in the end the newest.

Two patches of one object side by side could be carried out in either order; and what is wished while another patch is
under way has to wait for its outcome.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from muster.agent.core.kubernetes.calls import Merge, Outcome, Refused
from muster.agent.core.kubernetes.worklist import Worklist
from muster.core import Instant


@dataclass(frozen=True, slots=True, eq=False)
class Wish:
    """What an object is to be told. lets_go: that it may make its pods. refused: told if the API server will not."""

    call: Merge
    refused: Callable[[Refused, Instant], None]
    lets_go: bool = False


class ObjectWishes:
    """worklist: where they are carried out. Holds what is not answered yet, one wish an object."""

    def __init__(self, worklist: Worklist) -> None:
        self._worklist = worklist
        self._newest: dict[str, Wish] = {}

    def tell(self, uid: str, wish: Wish) -> None:
        """Tell the object of this uid, instead of what it was not told yet."""
        self._newest[uid] = wish
        self._send(uid)

    def withdraw_letting_go(self, uid: str) -> None:
        """An object that was not let go yet is not."""
        wish = self._newest.get(uid)
        if wish is not None and wish.lets_go:
            del self._newest[uid]
            self._worklist.cancel(_key(uid))

    def clear(self) -> None:
        """Another leads: the worklist forgets, too."""
        self._newest.clear()

    def _send(self, uid: str) -> None:
        self._worklist.cancel(_key(uid))  # what waits is out of date; what is under way is not repeated
        wish = self._newest.get(uid)
        if wish is not None:  # turned away while another is under way, whose outcome brings it here again
            self._worklist.ask(_key(uid), wish.call, partial(self._told, uid, wish))

    def _told(self, uid: str, wish: Wish, outcome: Outcome, now: Instant) -> None:
        if self._newest.get(uid) is not wish:
            self._send(uid)
            return
        del self._newest[uid]
        if isinstance(outcome, Refused):
            wish.refused(outcome, now)


def _key(uid: str) -> tuple[str, str]:
    return "object", uid
