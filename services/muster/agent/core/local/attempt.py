"""One attempt as processes, one per slot: which run, how it ends, and what to report next.

Its orders to processes are values, each given out once, in order.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from muster.agent.core.cluster import (
    CheckpointSeen,
    ChecksSeen,
    CreatePods,
    DeletePods,
    PodsExitedSeen,
    PodsObservation,
    PodsResizedSeen,
    PodsStartedSeen,
    ResizePods,
    checks_seen,
)
from muster.core import Instant, seconds_between
from muster.schemas.facts.job import PodsExited, PodsOutcome
from muster.schemas.facts.operations import CheckOutcome, CheckResult
from muster.schemas.job import JobSpec, Slot

Key = tuple[str, int]
"""Job id and attempt."""


@dataclass(frozen=True, slots=True)
class StartProcess:
    """Start the program of one slot. It gets `resumed_s` and `device_uuids`."""

    key: Key
    slot: Slot
    spec: JobSpec
    at: Instant
    resumed_s: float = 0.0
    device_uuids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StopProcess:
    """End the program of one slot: SIGTERM, and SIGKILL `grace_s` later; SIGKILL at once without grace."""

    key: Key
    slot: Slot
    at: Instant
    grace_s: float = 0.0


Order = StartProcess | StopProcess


GONE = "the agent that had started it is gone, and its processes with it"
KILLED = 137  # 128 and SIGKILL, as in shells
NO_CHECKS = "this cluster has no way to check its nodes"


@dataclass(slots=True)
class Attempt:
    """An attempt and its processes."""

    effect: CreatePods
    """As requested, with the slots that it should have."""
    asked: set[Slot] = field(default_factory=set)
    """Slots whose process was started and has not ended."""
    running: set[Slot] = field(default_factory=set)
    begun_at: Instant | None = None
    """When all ran."""
    is_open: bool = True
    """Whether its first step may begin."""
    is_told: bool = False
    """Whether the log has its start."""
    is_checked: bool = False
    """Whether the log has the results of its checks."""
    deletion: DeletePods | None = None
    codes: list[int] = field(default_factory=list)
    """Exit codes of its processes."""
    failed: tuple[int, str, str] | None = None
    """Code, node and message of the first failed process."""
    resize: ResizePods | None = None
    is_saved: bool = False
    """Whether a checkpoint is not in the log yet."""
    ended: PodsExitedSeen | None = None

    @property
    def key(self) -> Key:
        """Return job id and attempt."""
        return self.effect.job_id, self.effect.attempt

    @property
    def is_ending(self) -> bool:
        """Return whether it starts no more processes."""
        return self.deletion is not None or self.failed is not None or self.ended is not None

    def starts(self, at: Instant, uuids: dict[Slot, tuple[str, ...]]) -> Iterator[Order]:
        """Yield orders for the missing processes."""
        if self.is_ending or not self.is_open:
            return
        for slot in self.effect.slots:
            if slot not in self.asked:
                self.asked.add(slot)
                yield StartProcess(self.key, slot, self.effect.spec, at, self.effect.resumed_s, uuids.get(slot, ()))

    def delete(self, effect: DeletePods) -> Iterator[Order]:
        """End every process. The loss of a node overrides a request; a known end stays."""
        if self.ended is not None or (self.deletion is not None and not effect.lost_node):
            return
        self.deletion = effect
        self.is_saved = self.is_saved and not effect.lost_node
        yield from self._stops(effect.at, grace_s=0.0 if effect.lost_node else effect.grace_s)
        self._end_if_over(effect.at)

    def change(self, effect: ResizePods) -> Iterator[Order]:
        """Resize to exactly these slots."""
        if self.is_ending:
            return
        gone = [slot for slot in self.effect.slots if slot not in effect.slots]
        self.effect, self.resize = replace(self.effect, slots=effect.slots), effect
        for slot in gone:
            if slot in self.asked:
                yield StopProcess(self.key, slot, effect.at, effect.grace_s)

    def began(self, slot: Slot, at: Instant) -> None:
        """Record that the process of the slot runs since `at`."""
        if slot in self.asked:
            self.running.add(slot)
        if self.begun_at is None and not self.is_ending and self.running >= set(self.effect.slots):
            self.begun_at = at

    def exited(self, slot: Slot, code: int, at: Instant, words: str) -> Iterator[Order]:
        """Record that the process of the slot ended. The first failure ends the gang."""
        self.asked.discard(slot)
        self.running.discard(slot)
        if slot not in self.effect.slots and self.deletion is None:
            return  # a resize removed it
        self.codes.append(code)
        if code and self.failed is None and self.deletion is None:
            self.failed = code, slot.node, words
            yield from self._stops(at, grace_s=0.0)
        self._end_if_over(at)

    def lost(self, at: Instant) -> None:
        """Record that its processes ended with their agent: a started attempt is over, another may start again."""
        self.asked.clear()
        self.running.clear()
        if self.ended is not None:
            return
        if self.is_ending:
            self.codes.append(KILLED)
            self._end_if_over(at)
        elif self.is_told and (self.is_open or self.begun_at is not None):
            node = self.effect.slots[0].node
            self.ended = self._exited(PodsOutcome.NODE_LOST, at, node=node, words=GONE)

    def observations(self, uuids: dict[Slot, tuple[str, ...]]) -> Iterator[PodsObservation]:
        """Yield what to report next: one thing at a time, and the exit last."""
        if self.is_saved and self.is_told:
            yield CheckpointSeen(*self.key)
        elif self.ended is not None:
            yield self.ended
        elif self.is_ending:
            return
        elif not self.is_told:
            if self.begun_at is not None or not self.is_open:
                yield PodsStartedSeen(*self.key, tuple(uuids.get(slot, ()) for slot in self.effect.slots))
        elif self.effect.preflight is not None and not self.is_checked:
            yield from self._unchecked()
        elif self.resize is not None and self.running == self.asked == set(self.effect.slots):
            yield PodsResizedSeen(*self.key, len(self.effect.slots))

    def _unchecked(self) -> Iterator[ChecksSeen]:
        assert self.effect.preflight is not None, "only what has a plan is to be checked"
        results = [
            CheckResult(node=node, check=one.check, outcome=CheckOutcome.CANNOT_RUN, detail=NO_CHECKS)
            for node in dict.fromkeys(slot.node for slot in self.effect.slots)
            for one in self.effect.preflight.checks
        ]
        yield from checks_seen(*self.key, results)

    def _stops(self, at: Instant, *, grace_s: float) -> Iterator[Order]:
        return (StopProcess(self.key, slot, at, grace_s) for slot in sorted(self.asked, key=_order))

    def _end_if_over(self, at: Instant) -> None:
        if self.ended is not None or self.asked:
            return
        outcome, code, node, words = PodsOutcome.SUCCEEDED, 0, "", ""
        if self.failed is not None:
            outcome, (code, node, words) = PodsOutcome.FAILED, self.failed
        elif self.deletion is not None and self.deletion.lost_node:
            outcome, node = PodsOutcome.NODE_LOST, self.deletion.lost_node
        elif self.deletion is not None and not self._are_done():
            outcome = PodsOutcome.STOPPED
        self.ended = self._exited(outcome, at, code=code, node=node, words=words)

    def _exited(self, outcome: PodsOutcome, at: Instant, *, code: int = 0, node: str, words: str) -> PodsExitedSeen:
        job_id, attempt = self.key
        exited = PodsExited(
            attempt=attempt, outcome=outcome, exit_code=code, ran_s=self._ran_s(at), node=node, reason=words
        )
        return PodsExitedSeen(job_id, exited)

    def _are_done(self) -> bool:
        """Return whether all processes exited with 0 after the request to end: then the job is done."""
        return self.begun_at is not None and bool(self.codes) and not any(self.codes)

    def _ran_s(self, at: Instant) -> float:
        return 0.0 if self.begun_at is None else max(0.0, seconds_between(self.begun_at, at))


def _order(slot: Slot) -> tuple[int, int]:
    return slot.group, slot.replica
