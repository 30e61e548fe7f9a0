"""What objects are told: one thing at a time each, and in the end the newest.

Two patches of one object side by side could be carried out in either order; and what is wished while another patch is
under way has to wait for its outcome.
"""

from dataclasses import dataclass, field

from muster.agent.core.cluster import CreatePods
from muster.agent.core.kubernetes.calls import Merge, Outcome, Refused
from muster.agent.core.kubernetes.worklist import Purpose, Worklist


@dataclass(frozen=True, slots=True, eq=False)
class Wish:
    """What an object is to be told."""

    call: Merge
    order: CreatePods
    """The attempt for which it is told."""
    lets_go: bool = False
    """That it may make its pods."""


@dataclass(frozen=True, slots=True)
class TellObject(Purpose):
    """An object of this uid is to be told something."""

    uid: str
    wish: Wish | None = field(default=None, compare=False, repr=False)


class ObjectWishes:
    """worklist: where they are carried out; whoever owns this serves `TellObject` there.

    Holds what is not answered yet, one wish an object.
    """

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
            self._worklist.cancel(TellObject(uid))

    def answered(self, purpose: TellObject, outcome: Outcome) -> Wish | None:
        """What came of a call that was asked here: the wish, if it is the newest and was refused."""
        uid, wish = purpose.uid, purpose.wish
        if wish is None or self._newest.get(uid) is not wish:
            self._send(uid)
            return None
        del self._newest[uid]
        return wish if isinstance(outcome, Refused) else None

    def clear(self) -> None:
        """Another leads: the worklist forgets, too."""
        self._newest.clear()

    def _send(self, uid: str) -> None:
        self._worklist.cancel(TellObject(uid))  # what waits is out of date; what is under way is not repeated
        wish = self._newest.get(uid)
        if wish is not None:  # turned away while another is under way, whose outcome brings it here again
            self._worklist.ask(TellObject(uid, wish), wish.call)
