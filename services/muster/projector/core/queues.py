"""Queue rows: how each is set, and how much waits, runs and is held there."""

from pydantic_core import to_json

from muster.projector.core.rows import QueueRow
from muster.schemas.facts.queue import QueueSpec
from muster.schemas.job import Phase

HOLDING = frozenset({Phase.PLACED, Phase.RUNNING, Phase.STOPPING})


class Queues:
    """Counters are kept also for a queue that nobody declared (yet); only declared ones are shown."""

    def __init__(self) -> None:
        self._rows: dict[str, QueueRow] = {}
        self._declared: set[str] = set()
        self._dirty: dict[str, None] = {}

    def declare(self, spec: QueueSpec, *, cluster: str) -> None:
        """The queue is so from here on."""
        row = self._row(spec.name)
        row.cluster = cluster
        row.parent = spec.parent
        row.gpu_milli_quota = spec.gpu_milli_quota
        row.gpu_milli_limit = spec.gpu_milli_limit
        row.closed = spec.closed
        self._declared.add(spec.name)
        self._dirty[spec.name] = None

    def move(self, queue: str, *, before: Phase | None, after: Phase | None, gpu_milli: int) -> None:
        """A job of so many milli-GPUs went from one phase to another; None: it was not, or is no longer, live."""
        row = self._row(queue)
        row.jobs_queued += (after is Phase.QUEUED) - (before is Phase.QUEUED)
        step = (after in HOLDING) - (before in HOLDING)
        row.jobs_running += step
        row.gpu_milli_held += step * gpu_milli
        self._dirty[queue] = None

    def take(self, changes: dict[str, bytes | None]) -> None:
        """Add what changed, encoded."""
        for name in self._dirty:
            if name in self._declared:
                changes[name] = to_json(self._rows[name])
        self._dirty.clear()

    def touch_all(self) -> None:
        """Everything is to be written again."""
        self._dirty.update(dict.fromkeys(self._declared))

    def _row(self, name: str) -> QueueRow:
        row = self._rows.get(name)
        if row is None:
            row = self._rows[name] = QueueRow(name, "")
        return row
