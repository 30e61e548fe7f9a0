"""What the upgrader knows of nodes: what they are, and who keeps jobs from them."""

from dataclasses import dataclass

from muster.schemas.facts.cordons import Cordon
from muster.schemas.facts.node import NodeJoined, WithholdRequested, WithholdWish

MINE = "upgrader"
MILLI = 1000


@dataclass(slots=True)
class Node:
    """One node. description: None while it is not part of the cluster.

    wishes: who asked to withhold it, in the order of the requests. cordon: by a person, while it stands.
    """

    name: str
    description: NodeJoined | None = None
    lost: bool = False
    wishes: tuple[WithholdWish, ...] = ()
    cordon: Cordon | None = None

    @property
    def gpus(self) -> int:
        """Devices that are there."""
        return 0 if self.description is None else len(self.description.present)

    @property
    def is_forgotten(self) -> bool:
        """Whether nothing is known of it."""
        return self.description is None and not self.wishes and self.cordon is None

    def domain(self, level: str) -> str:
        """Its domain of a level, "" without one."""
        domains = self.description.domains if self.description is not None else ()
        return next((name for one, name in domains if one == level), "")

    def version(self, component: str) -> str:
        """Of one of its components, "" if that is not known."""
        versions = self.description.versions if self.description is not None else ()
        return next((version for name, version in versions if name == component), "")

    def taken_by_others(self, now: int) -> str:
        """Which other service keeps jobs from it at this moment; "" if none does."""
        return next((wish.by or "a service" for wish in self.wishes if wish.by != MINE and wish.from_at <= now), "")

    # --- grants, as the scheduler's books keep them ----------------------------------------------------------------

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
