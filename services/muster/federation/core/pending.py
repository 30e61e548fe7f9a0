"""Jobs that want a cluster and did not get one at once, in lanes: of one team, one rule and one size.

If the first of a lane gets no cluster, none behind it does, so a lane that was judged is left alone until something
changed that may help. Which jobs stand here follows from the rest of the state.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple


class LaneKey(NamedTuple):
    """What the jobs of a lane agree in. rule: by name, "" without rules. to: clusters asked for in place of the rule's.

    avoid: clusters that it may not go to. left: the lost cluster that still has it, "" if none has. ends: nobody wants
    it any more, so it only has to be taken from there. last: where it goes only if no other takes it, "" for nowhere.
    """

    team: str
    rule: str
    milli: int
    to: tuple[str, ...] = ()
    avoid: tuple[str, ...] = ()
    left: str = ""
    ends: bool = False
    last: str = ""


@dataclass(slots=True)
class Lane:
    """jobs: (submitted, id), the oldest first. judged: at which version nothing was found for the first of them."""

    key: LaneKey
    jobs: list[tuple[int, str]] = field(default_factory=list)
    judged: int = -1


class Lanes:
    """All lanes. version: grows when something changed that may help those who wait."""

    def __init__(self) -> None:
        self.lanes: dict[LaneKey, Lane] = {}
        self.version = 0
        self._keys: dict[str, tuple[LaneKey, int]] = {}

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._keys

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, key: LaneKey, *, submitted_at: int, job_id: str) -> None:
        """The job waits here; if it stood elsewhere, not there any more."""
        self.remove(job_id)
        lane = self.lanes.setdefault(key, Lane(key))
        place = submitted_at, job_id
        if not lane.jobs or place < lane.jobs[0]:
            lane.judged = -1
        insort(lane.jobs, place)
        self._keys[job_id] = key, submitted_at

    def remove(self, job_id: str) -> None:
        """The job waits no more; if it did not, nothing changes."""
        found = self._keys.pop(job_id, None)
        if found is None:
            return
        key, submitted_at = found
        lane = self.lanes[key]
        at = bisect_left(lane.jobs, (submitted_at, job_id))
        del lane.jobs[at]
        if not lane.jobs:
            del self.lanes[key]

    def stir(self) -> None:
        """Something changed: lanes that were judged are worth trying again."""
        self.version += 1

    def open(self) -> Iterator[Lane]:
        """Lanes worth trying."""
        return (lane for lane in self.lanes.values() if lane.judged != self.version)

    def of(self, job_id: str) -> Lane | None:
        """Where the job waits."""
        found = self._keys.get(job_id)
        return self.lanes[found[0]] if found is not None else None

    def jobs(self) -> Iterator[str]:
        """All jobs that wait."""
        return iter(self._keys)
