"""Recorder of every job fact, and of periodic samples of the fleet. Watches an engine."""

from collections import Counter
from dataclasses import dataclass, field

from muster.core import Fact, Instant
from muster.core.instant import seconds_between
from muster.schemas.facts.job import (
    JobFinished,
    JobPlaced,
    JobQueued,
    JobResized,
    JobRouted,
    QueuedReason,
)
from muster.schemas.facts.queue import QueueChanged
from muster.schemas.job import Job, Slot

NOT_YET = Instant(0)
MILLI_S_PER_GPU_H = 1000 * 3600.0


@dataclass(slots=True)
class JobTrack:
    """One job. Times are 0 while they have not come. ended: how, "" while it has not.

    held_milli: milli-GPUs that it holds now, since held_since. gpu_h: held in all its runs; lost_gpu_h: of that, work
    that was done again, or never finished, because a run ended for others or with its node.
    """

    name: str
    queue: str
    gpu_milli: int
    replicas: int
    submitted_at: Instant
    restart_s: float
    placed_at: Instant = NOT_YET
    ended_at: Instant = NOT_YET
    ended: str = ""
    attempts: int = 0
    preemptions: int = 0
    held_milli: int = 0
    held_since: Instant = NOT_YET
    running_at: Instant = NOT_YET
    kept_at: Instant = NOT_YET
    gpu_h: float = 0.0
    lost_gpu_h: float = 0.0

    def wait_s(self, now: Instant) -> float:
        """Return the time from submission to the first placement, or until now."""
        return seconds_between(self.submitted_at, self.placed_at or now)


@dataclass(frozen=True, slots=True)
class Sample:
    """State at a time. held, waiting: milli-GPUs by queue. capacity: of nodes that are part of the cluster.

    fragmentation: share of idle GPUs that a typical task could not use.
    """

    at: Instant
    held: dict[str, int]
    waiting: dict[str, int]
    capacity: int
    fragmentation: float
    preemptions: int
    lost_gpu_h: float


@dataclass(slots=True)
class Recorder:
    """tracks: by job id, in the order in which jobs came. live: jobs that have not ended. facts: by name.

    parents: of every queue.
    """

    tracks: dict[str, JobTrack] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)
    facts: Counter[str] = field(default_factory=Counter)
    parents: dict[str, str | None] = field(default_factory=dict)
    live: int = 0
    preemptions: int = 0
    node_losses: int = 0
    lost_gpu_h: float = 0.0
    _held: dict[str, int] = field(default_factory=dict)
    _waiting: dict[str, int] = field(default_factory=dict)

    def watch(self, fact: Fact) -> None:
        """Fold one fact."""
        name = fact.name
        self.facts[name] += 1
        if fact.kind != "job":
            if isinstance(fact.payload, QueueChanged):
                self.parents[fact.subject_id] = fact.payload.spec.parent
            return
        if isinstance(fact.payload, JobRouted):
            self._came(fact.payload.job, fact.time)
            return
        track = self.tracks.get(fact.subject_id)
        if track is None:
            return
        match fact.payload:
            case JobPlaced():
                self._placed(track, fact.payload, fact.time)
            case JobQueued():
                self._queued(track, fact.payload, fact.time)
            case JobFinished():
                self._ended(track, name, fact.time)
            case JobResized():
                self._hold(track, _milli(fact.payload.slots), fact.time)
            case _:
                if name == "running":
                    track.running_at = track.kept_at = fact.time
                elif name == "checkpointed":
                    track.kept_at = fact.time

    def sample(self, at: Instant, *, capacity: int, fragmentation: float) -> None:
        """Record a sample of the current state."""
        self.samples.append(
            Sample(
                at, dict(self._held), dict(self._waiting), capacity, fragmentation, self.preemptions, self.lost_gpu_h
            )
        )

    def close(self, now: Instant) -> None:
        """End the recording, and count the holds until now."""
        for track in self.tracks.values():
            self._hold(track, track.held_milli, now)

    def _came(self, job: Job, at: Instant) -> None:
        spec = job.spec
        restart_s = spec.checkpointing.restart_s if spec.checkpointing is not None else 0.0
        replicas = sum(group.replicas for group in spec.task_groups)
        self.tracks[job.id] = track = JobTrack(
            spec.name, spec.queue_name, spec.gpu_milli_total, replicas, at, restart_s
        )
        self.live += 1
        self._wait(track, track.gpu_milli)

    def _placed(self, track: JobTrack, placed: JobPlaced, at: Instant) -> None:
        self._wait(track, -track.gpu_milli)
        track.placed_at = track.placed_at or at
        track.attempts = placed.attempt
        track.running_at = track.kept_at = NOT_YET
        self._hold(track, _milli(placed.slots), at)

    def _queued(self, track: JobTrack, queued: JobQueued, at: Instant) -> None:
        if queued.queue != track.queue and not track.attempts:  # a queue of its user's own was made
            self._wait(track, -track.gpu_milli)
            track.queue = queued.queue
            self._wait(track, track.gpu_milli)
        if not track.attempts or queued.reason is QueuedReason.SUBMITTED:
            return
        is_preemption = queued.reason is QueuedReason.PREEMPTED and not queued.requeued
        self.preemptions += is_preemption
        track.preemptions += is_preemption
        self.node_losses += queued.reason is QueuedReason.NODE_LOST
        self._lose(track, at)
        self._hold(track, 0, at)
        self._wait(track, track.gpu_milli)

    def _ended(self, track: JobTrack, name: str, at: Instant) -> None:
        if not track.held_milli and not track.placed_at:
            self._wait(track, -track.gpu_milli)
        self._hold(track, 0, at)
        track.ended, track.ended_at = name, at
        self.live -= 1

    def _lose(self, track: JobTrack, at: Instant) -> None:
        """Count the work since the newest checkpoint, and the restart, as lost: the run ended before its work did."""
        if not track.running_at:
            return
        again_s = track.restart_s if track.kept_at > track.running_at else 0.0
        lost = track.held_milli * (seconds_between(track.kept_at, at) + again_s) / MILLI_S_PER_GPU_H
        track.lost_gpu_h += lost
        self.lost_gpu_h += lost

    def _hold(self, track: JobTrack, milli: int, at: Instant) -> None:
        if track.held_milli:
            track.gpu_h += track.held_milli * seconds_between(track.held_since, at) / MILLI_S_PER_GPU_H
        self._held[track.queue] = self._held.get(track.queue, 0) + milli - track.held_milli
        track.held_milli, track.held_since = milli, at

    def _wait(self, track: JobTrack, milli: int) -> None:
        self._waiting[track.queue] = self._waiting.get(track.queue, 0) + milli


def _milli(slots: tuple[Slot, ...]) -> int:
    return sum(slot.gpu_milli_held for slot in slots)
