"""A lane: jobs of one queue that ask for the same, in the order in which they come; and lanes in that order."""

from bisect import bisect_left, insort
from typing import TYPE_CHECKING

from muster.scheduler.core.jobs import JobRecord, Kind
from muster.scheduler.core.reasons import Blocked

if TYPE_CHECKING:
    from muster.scheduler.core.caps import Cap
    from muster.scheduler.core.shorts import Short

Place = tuple[int, int]
"""A job's place in line: its rank, and when it came."""

Entry = tuple[Place, str]
"""A job that waits: its place in line, and its id."""


def entry_of(record: JobRecord) -> Entry:
    """Where the job stands in its lane."""
    return (record.rank, record.routed_seq), record.id


class Lane:
    """jobs: ascending, by rank and then by when they came. short, cap: why its first job cannot run; neither while that
    is not known. filed: the place in line of its first job under which it is kept while it is blocked.

    untold: jobs that were never told why they wait. held_up: it was blocked since it was last empty.
    word: what was said last about why it waits, found when the line's `epoch` was `word_epoch`.
    """

    __slots__ = (
        "cap", "due", "filed", "held_up", "jobs", "kind", "number", "queue", "short", "untold", "word", "word_epoch",
    )  # fmt: skip

    def __init__(self, queue: str, kind: Kind, *, number: int) -> None:
        self.queue = queue
        self.kind = kind
        self.number = number
        self.jobs: list[Entry] = []
        self.untold: dict[str, None] = {}
        self.held_up = False
        self.short: Short | None = None
        self.cap: Cap | None = None
        self.filed: Place = (0, 0)
        self.word: Blocked | None = None
        self.word_epoch = -1
        self.due = 0

    @property
    def is_blocked(self) -> bool:
        """Whether it was judged, and its first job could not run."""
        return self.short is not None or self.cap is not None

    def stands(self, entry: Entry) -> bool:
        """Whether this job waits here."""
        at = bisect_left(self.jobs, entry)
        return at < len(self.jobs) and self.jobs[at] == entry


class InLine:
    """Lanes by the place in line of their first job. A lane is kept in one of these at a time."""

    __slots__ = ("_lanes",)

    def __init__(self) -> None:
        self._lanes: list[tuple[Place, int, Lane]] = []

    def __bool__(self) -> bool:
        return bool(self._lanes)

    def lanes(self) -> list[tuple[Place, int, Lane]]:
        """The first in line first, each behind the place of its first job and its own number; not to be changed."""
        return self._lanes

    def add(self, lane: Lane) -> None:
        """Keep a lane that is not empty."""
        lane.filed = lane.jobs[0][0]
        insort(self._lanes, (lane.filed, lane.number, lane))

    def remove(self, lane: Lane) -> None:
        """Keep it no more."""
        at = bisect_left(self._lanes, (lane.filed, lane.number))
        assert self._lanes[at][2] is lane
        del self._lanes[at]

    def refile(self, lane: Lane) -> None:
        """Another job may be the first of the lane."""
        if lane.filed != lane.jobs[0][0]:
            self.remove(lane)
            self.add(lane)
