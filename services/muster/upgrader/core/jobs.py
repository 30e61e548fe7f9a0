"""What the upgrader knows of jobs: where they stand, and until when at the most."""

from dataclasses import dataclass

from muster.core import Instant, after
from muster.schemas.job import JobKind, JobSpec


@dataclass(slots=True)
class Job:
    """One live job. ran_s: over its ended runs; exited_s: of the run that ended and is not answered for yet.

    total_s: over all runs, slice_s: of each at the least, as its queue allows. running_at: 0 before its run begins.
    """

    id: str
    spec: JobSpec
    total_s: float
    ran_s: float = 0.0
    exited_s: float = 0.0
    running_at: int = 0
    slice_s: float = 0.0

    @property
    def can_move(self) -> bool:
        """Whether it allows to be stopped after a checkpoint and queued again."""
        spec = self.spec
        return spec.checkpointing is not None and spec.preemptible and spec.kind is not JobKind.INFERENCE

    def ends_by(self, now: Instant) -> Instant:
        """When its run is over at the latest: then it is ended as timed-out."""
        began = self.running_at or now
        return max(now, after(Instant(began), max(0.0, self.total_s - self.ran_s)))

    def slice_ends(self, now: Instant) -> Instant:
        """Until when it is not to be stopped."""
        began = self.running_at or now
        return max(now, after(Instant(began), self.slice_s))

    def leaves_by(self, now: Instant, *, moving: bool) -> Instant:
        """When its nodes are free of it: at the end of its run, or of its slice if it may be moved."""
        end = self.ends_by(now)
        return min(end, self.slice_ends(now)) if moving and self.can_move else end
