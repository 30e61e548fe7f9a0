"""Who holds which devices, for telling owners: from what is placed, and what the kubelet picked."""

from collections.abc import Iterator, Sequence

from muster.core import Instant
from muster.health.core.limits import JOBS_MAX
from muster.schemas.facts.health import TOLD_MAX, OwnerToldState
from muster.schemas.facts.node import NodeJoined
from muster.schemas.job import Slot


class Holders:
    """Jobs that hold something, by node. Nothing here is health's own."""

    def __init__(self) -> None:
        self._team: dict[str, str] = {}
        self._slots: dict[str, Sequence[Slot]] = {}
        self._picked: dict[str, Sequence[Sequence[str]]] = {}
        self._on: dict[str, dict[str, None]] = {}
        self._told: dict[str, dict[str, Instant]] = {}

    def tell(self, job: str, code: str, at: Instant) -> None:
        """Its owner was told of an application fault."""
        if job not in self._team:
            return
        told = self._told.setdefault(job, {})
        told.pop(code, None)
        told[code] = at
        while len(told) > TOLD_MAX:
            del told[next(iter(told))]

    def load_told(self, job: str, stored: OwnerToldState) -> None:
        """What a checkpoint says, before or after it says whose job it is."""
        self._told[job] = {code: Instant(at) for code, at in stored.told}

    def stored(self) -> Iterator[tuple[str, OwnerToldState]]:
        """Jobs whose owners were told of something, for a checkpoint."""
        for job, told in self._told.items():
            if told:
                yield job, OwnerToldState(told=tuple(told.items()))

    def forget(self, job: str, code: str) -> None:
        """What its owner was told of this fault was another matter."""
        told = self._told.get(job)
        if told is not None:
            told.pop(code, None)

    def told_at(self, job: str, code: str) -> Instant | None:
        """When its owner was told of this fault last."""
        return self._told.get(job, {}).get(code)

    def describe(self, job: str, team: str) -> None:
        """Whose job it is."""
        self._team[job] = team

    def take(self, job: str, slots: Sequence[Slot]) -> None:
        """It was placed."""
        self.drop(job)
        self._slots[job] = slots
        for slot in slots:
            self._on.setdefault(slot.node, {})[job] = None

    def pick(self, job: str, devices: Sequence[Sequence[str]]) -> None:
        """Devices per slot, as they were observed."""
        if any(devices):
            self._picked[job] = devices

    def drop(self, job: str) -> None:
        """It holds nothing any more."""
        self._picked.pop(job, None)
        for slot in self._slots.pop(job, ()):
            jobs = self._on.get(slot.node)
            if jobs is not None:
                jobs.pop(job, None)
                if not jobs:
                    del self._on[slot.node]

    def end(self, job: str) -> None:
        """It is over."""
        self.drop(job)
        self._team.pop(job, None)
        self._told.pop(job, None)

    def team(self, job: str) -> str:
        """Whose job it is; "" if that is not known."""
        return self._team.get(job, "")

    def is_known(self, job: str) -> bool:
        """Whether it holds something."""
        return job in self._slots

    def on_node(self, node: str) -> tuple[str, ...]:
        """Who holds something there."""
        return tuple(self._on.get(node, ()))

    def of(self, node: str, device: str, description: NodeJoined | None) -> tuple[str, ...]:
        """Who holds the device; of the whole node without one. At most JOBS_MAX."""
        jobs = self._on.get(node, {})
        if not device:
            return tuple(jobs)[:JOBS_MAX]
        places = description.present if description is not None else {}
        index = next((index for index, uuid in places.items() if uuid == device), None)
        holding = (job for job in jobs if self._holds(job, node, device, index))
        return tuple(holding)[:JOBS_MAX]

    def _holds(self, job: str, node: str, device: str, index: int | None) -> bool:
        picked = self._picked.get(job)
        if picked is not None:
            return any(device in one for one in picked)
        return any(slot.node == node and index in slot.devices for slot in self._slots[job])
