"""CPU and memory that jobs hold on a node."""

from collections.abc import Mapping, Sequence

from muster.schemas.job import JobSpec, Slot

Amounts = tuple[int, int]
"""CPU in thousandths of a core, and memory in MiB."""


class HostResources:
    """What one replica of each live job asks of its node, by group of tasks."""

    def __init__(self) -> None:
        self._amounts: dict[str, tuple[Amounts, ...]] = {}
        self._shapes: dict[tuple[Amounts, ...], tuple[Amounts, ...]] = {}

    def describe(self, job_id: str, spec: JobSpec) -> None:
        """Remember what the job asks."""
        amounts = tuple((group.cpu_milli, group.memory_mib) for group in spec.task_groups)
        self._amounts[job_id] = self._shapes.setdefault(amounts, amounts)

    def forget(self, job_id: str) -> None:
        """Drop the job, which is over."""
        self._amounts.pop(job_id, None)

    def held_by(self, slots: Mapping[str, Sequence[Slot]]) -> Amounts:
        """Return what slots hold together. slots: by job id."""
        cpu_milli = memory_mib = 0
        for job_id, own in slots.items():
            groups = self._amounts.get(job_id, ())
            for slot in own:
                if slot.group < len(groups):
                    cpu_milli += groups[slot.group][0]
                    memory_mib += groups[slot.group][1]
        return cpu_milli, memory_mib
