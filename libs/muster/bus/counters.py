"""What a log counts of itself; the metrics export it."""

from dataclasses import dataclass


@dataclass(slots=True)
class LogCounters:
    """Whole numbers since the process started.

    decoded: messages that became facts. skipped: unknown names. dead: messages that no reader can use;
    dead_unwritten: of these, without an entry because the stream of dead letters is full. gaps: holes found in what
    the broker delivered. recreated: consumers made anew, for whatever reason. appended: facts stored, fence records
    included; batches: in so many commits. stale, full, unavailable: refusals by kind. resolved: commits whose reply was
    lost and that were found stored.
    """

    decoded: int = 0
    skipped: int = 0
    dead: int = 0
    dead_unwritten: int = 0
    gaps: int = 0
    recreated: int = 0
    appended: int = 0
    batches: int = 0
    stale: int = 0
    full: int = 0
    unavailable: int = 0
    resolved: int = 0
