"""Who keeps jobs from a node, as the scheduler's books keep it."""

from dataclasses import dataclass

from muster.schemas.facts.node import Cordon, WithholdRequested, WithholdWish

MINE = "upgrader"


@dataclass(slots=True)
class Grant:
    """The grant of one node."""

    wishes: tuple[WithholdWish, ...] = ()
    """Who asked to withhold it, in the order of the requests."""
    cordon: Cordon | None = None
    """By a person, while it stands."""

    @property
    def is_empty(self) -> bool:
        """Whether nobody keeps jobs from the node, and nobody asked to."""
        return not self.wishes and self.cordon is None

    def taken_by_others(self, now: int) -> str:
        """Which other service keeps jobs from it at this moment; "" if none does."""
        return next((wish.by or "a service" for wish in self.wishes if wish.by != MINE and wish.from_at <= now), "")

    def ask(self, asked: WithholdRequested, *, fact: str, by: str) -> None:
        """A request, or the same once more, with another moment or treatment."""
        known = self.wish(asked.request_id)
        if known is not None and known.answered:
            return
        wish = WithholdWish(
            request_id=asked.request_id,
            fact=fact,
            by=by,
            running=asked.running,
            from_at=asked.from_at,
            reason=asked.reason,
        )
        self.wishes = (*(one for one in self.wishes if one is not known), wish)

    def answer(self, request_id: str, *, fact: str) -> None:
        """`withheld` was said: the answer stands, also of a request that was withdrawn meanwhile."""
        known = self.wish(request_id) or WithholdWish(request_id=request_id, fact=fact, by=MINE)
        answered = known.model_copy(update={"answered": True})
        self.wishes = (*(one for one in self.wishes if one.request_id != request_id), answered)

    def withdraw(self, request_id: str, *, after_withheld: bool) -> bool:
        """Nobody asks for it any more; False if the answer stands."""
        known = self.wish(request_id)
        if known is None or (known.answered and not after_withheld):
            return False
        self.wishes = tuple(one for one in self.wishes if one is not known)
        return True

    def drop_answered(self) -> None:
        """It was released, or left: requests that were answered are settled."""
        self.wishes = tuple(one for one in self.wishes if not one.answered)

    def wish(self, request_id: str) -> WithholdWish | None:
        """The request of this id that stands."""
        return next((one for one in self.wishes if one.request_id == request_id), None)
