"""Which jobs hold what on which node: as much of it as refusals, checks and the choice of victims need."""

from collections.abc import Iterable

from muster.schemas.job import JobSpec, Slot

Amounts = tuple[int, int]
"""Thousandths of a core, and MiB, of one replica."""


class Holdings:
    """Fold of what jobs hold, from `placed` until they are queued again or over."""

    def __init__(self) -> None:
        self._slots: dict[str, tuple[Slot, ...]] = {}
        self._on: dict[str, dict[str, None]] = {}
        self._amounts: dict[str, tuple[Amounts, ...]] = {}
        self._shapes: dict[tuple[Amounts, ...], tuple[Amounts, ...]] = {}

    def describe(self, job_id: str, spec: JobSpec) -> None:
        """What one replica of each group asks."""
        amounts = tuple((group.cpu_milli, group.memory_mib) for group in spec.task_groups)
        self._amounts[job_id] = self._shapes.setdefault(amounts, amounts)

    def take(self, job_id: str, slots: Iterable[Slot]) -> None:
        """It holds these, beside those that it has."""
        known = self._slots.get(job_id, ())
        self._slots[job_id] = (*known, *(slot for slot in slots if slot not in known))
        for slot in self._slots[job_id]:
            self._on.setdefault(slot.node, {})[job_id] = None

    def keep(self, job_id: str, slots: tuple[Slot, ...]) -> None:
        """It holds exactly these."""
        self.drop(job_id)
        self.take(job_id, slots)

    def drop(self, job_id: str) -> None:
        """It holds nothing."""
        for slot in self._slots.pop(job_id, ()):
            jobs = self._on.get(slot.node)
            if jobs is not None:
                jobs.pop(job_id, None)
                if not jobs:
                    del self._on[slot.node]

    def end(self, job_id: str) -> None:
        """It is over."""
        self.drop(job_id)
        self._amounts.pop(job_id, None)

    def of_device(self, node: str, index: int) -> tuple[str, ...]:
        """Jobs that hold something of this device."""
        jobs = self._on.get(node, {})
        return tuple(
            sorted(job for job in jobs if any(slot.node == node and index in slot.kept_at for slot in self._slots[job]))
        )

    def of_node(self, node: str) -> tuple[str, ...]:
        """Jobs that hold something on this node."""
        return tuple(sorted(self._on.get(node, ())))

    def amounts_on(self, node: str) -> Amounts:
        """Thousandths of a core, and MiB, that are held there."""
        cpu_milli = memory_mib = 0
        for job in self._on.get(node, ()):
            groups = self._amounts.get(job, ())
            for slot in self._slots[job]:
                if slot.node == node and slot.group < len(groups):
                    cpu_milli += groups[slot.group][0]
                    memory_mib += groups[slot.group][1]
        return cpu_milli, memory_mib
