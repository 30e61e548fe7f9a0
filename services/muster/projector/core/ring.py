"""The newest facts, encoded: what a read model that was lost, or fell behind, is filled with again."""

from collections import deque
from dataclasses import dataclass, field

from muster.projector.core.rows import ShownFact

RING_BYTES_MAX = 8 * 1024 * 1024  # about 15,000 facts of a usual size


@dataclass(slots=True)
class FactRing:
    """Newest facts in log order, bounded in bytes. forgotten_seq: newest that had to leave, 0 if none had."""

    bytes_max: int = RING_BYTES_MAX
    forgotten_seq: int = 0
    _facts: deque[ShownFact] = field(default_factory=deque)
    _bytes: int = 0

    def push(self, fact: ShownFact) -> None:
        """Add the newest; the oldest leave while there are too many bytes (one fact always stays)."""
        self._facts.append(fact)
        self._bytes += len(fact.body)
        while self._bytes > self.bytes_max and len(self._facts) > 1:
            oldest = self._facts.popleft()
            self._bytes -= len(oldest.body)
            self.forgotten_seq = oldest.seq

    def after(self, seq: int) -> list[ShownFact]:
        """Those after `seq`, in log order. Work grows with what is returned."""
        found: list[ShownFact] = []
        for fact in reversed(self._facts):
            if fact.seq <= seq:
                break
            found.append(fact)
        found.reverse()
        return found
