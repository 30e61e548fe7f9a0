"""Whose jobs there are, and of what their owners were told."""

from collections.abc import Iterator

from muster.core import Instant
from muster.schemas.facts.health import TOLD_MAX, OwnerToldState


class Owners:
    """Owners of jobs that are not over. Only what they were told is health's own."""

    def __init__(self) -> None:
        self._team: dict[str, str] = {}
        self._told: dict[str, dict[str, Instant]] = {}

    def describe(self, job: str, team: str) -> None:
        """Whose job it is."""
        self._team[job] = team

    def end(self, job: str) -> None:
        """It is over."""
        self._team.pop(job, None)
        self._told.pop(job, None)

    def team(self, job: str) -> str:
        """Whose job it is; "" if that is not known."""
        return self._team.get(job, "")

    def tell(self, job: str, code: str, at: Instant) -> None:
        """Its owner was told of an application fault."""
        if job not in self._team:
            return
        told = self._told.setdefault(job, {})
        told.pop(code, None)
        told[code] = at
        while len(told) > TOLD_MAX:
            del told[next(iter(told))]

    def forget(self, job: str, code: str) -> None:
        """What its owner was told of this fault was another matter."""
        told = self._told.get(job)
        if told is not None:
            told.pop(code, None)

    def told_at(self, job: str, code: str) -> Instant | None:
        """When its owner was told of this fault last."""
        return self._told.get(job, {}).get(code)

    def load_told(self, job: str, stored: OwnerToldState) -> None:
        """What a checkpoint says, before or after it says whose job it is."""
        self._told[job] = {code: Instant(at) for code, at in stored.told}

    def stored(self) -> Iterator[tuple[str, OwnerToldState]]:
        """Jobs whose owners were told of something, for a checkpoint."""
        for job, told in self._told.items():
            if told:
                yield job, OwnerToldState(told=tuple(told.items()))
