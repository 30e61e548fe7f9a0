"""Folding one log into one core: what is the shell's own business (fences, terms, voidings) never reaches the core."""

from collections.abc import Callable, Iterable, Sequence

from muster.bus.checkpoint import Voidance
from muster.bus.ports import Batch
from muster.core.fact import Core, Draft, Fact
from muster.core.instant import Instant
from muster.schemas.facts.control import CheckpointRequested, Fence, TermStarted

CONTROL_KIND = "log"

TakeSnapshot = Callable[[int, Instant, list[Draft]], None]
"""Called with the sequence, its time and the state after folding exactly that sequence."""


class PoisonedError(Exception):
    """A core raised on a valid fact. Skipping it by itself would let folds diverge, so its service stands still.

    seq: of the fact; `muster log skip SEQ --service S` lets the service skip it. trace: its traceparent.
    """

    def __init__(self, service: str, fact: Fact, error: Exception) -> None:
        super().__init__(
            f"{service} cannot fold {fact.kind} {fact.name} at sequence {fact.seq}: {type(error).__name__}: {error}; "
            f"correct the service, or skip the fact: muster log skip {fact.seq} --service {service}"
        )
        self.service = service
        self.seq = fact.seq
        self.trace = fact.trace


class Folder:
    """One core and how far it has folded. Nothing here awaits, so a query between two folds sees a whole state."""

    def __init__(self, service: str, core: Core, *, voided: Sequence[Voidance], take: TakeSnapshot) -> None:
        self.core = core
        self.last_seq = 0
        self.newest = Instant(0)
        self.term = 0
        """Term of the newest folded fence or `term-started`; `fence_seq`, `fence_time`: its place and time."""
        self.fence_seq = 0
        self.fence_time = Instant(0)
        self.must_recover = False
        """An operator voided a message that this core may have folded: only a fresh recovery skips it."""
        self.takes_snapshots = False
        self._service = service
        self._skipped = frozenset(v.seq for v in voided if v.service == service)
        self._take = take

    def restore(self, facts: Iterable[Fact], *, seq: int, time: Instant) -> None:
        """Fold a checkpoint into the empty core. Raises PoisonedError."""
        for fact in facts:
            self._apply(fact)
        self.last_seq, self.newest = seq, time

    def fold(self, batch: Batch) -> None:
        """Fold a batch in order. Raises PoisonedError: then this core is of no more use."""
        apply, skipped = self.core.apply, self._skipped
        for fact in batch.facts:
            if fact.kind == CONTROL_KIND:
                self._control(fact)
                continue
            if skipped and fact.seq in skipped:
                continue
            try:
                apply(fact)
            except Exception as error:
                raise PoisonedError(self._service, fact, error) from error
        self.last_seq = batch.last_seq
        if batch.time is not None and batch.time > self.newest:
            self.newest = batch.time

    def given(self, batch: Batch) -> list[Fact]:
        """Return the facts of a batch for a sink: those that the core got, without requests for checkpoints."""
        skipped = self._skipped
        return [fact for fact in batch.facts if fact.kind != CONTROL_KIND and fact.seq not in skipped]

    def _control(self, fact: Fact) -> None:
        payload = fact.payload
        if isinstance(payload, Fence | TermStarted):
            if fact.writer == self._service:
                self.term, self.fence_seq, self.fence_time = payload.term, fact.seq, fact.time
        elif isinstance(payload, CheckpointRequested):
            if fact.seq not in self._skipped:
                self._apply(fact)
            if self.takes_snapshots:
                self._take(fact.seq, fact.time, list(self.core.snapshot()))
        else:
            said = Voidance.said_by(fact)
            if said is not None and said.service == self._service and said.seq not in self._skipped:
                self.must_recover = True

    def _apply(self, fact: Fact) -> None:
        try:
            self.core.apply(fact)
        except Exception as error:
            raise PoisonedError(self._service, fact, error) from error
