"""Holds: which jobs hold which slots, nodes and devices of a cluster, folded from its log.

README.md has the table of facts and their effects. Facts of nodes and devices change no hold: what a job holds on a
node that is lost, that left, or that no longer shows a device stays held until the scheduler ends the hold.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain, islice
from types import MappingProxyType

from muster.core import Fact, Instant
from muster.core.folding import Folds
from muster.schemas.base import Payload
from muster.schemas.facts.job import (
    JobPlaced,
    JobResized,
    JobResizeRequested,
    JobState,
    PodsExited,
    PodsStarted,
)
from muster.schemas.job import TERMINAL_PHASES, Phase, Slot
from muster.schemas.registry import STATE_NAME

HOLDING_PHASES = frozenset({Phase.PLACED, Phase.RUNNING, Phase.STOPPING})
"""Phases in which a job holds its slots."""

FREEING_FACTS = ("queued", "returned", *(phase.value for phase in Phase if phase in TERMINAL_PHASES))
"""Names of the job facts after which a job holds nothing."""

Picks = Mapping[str, Mapping[str, int]]
"""Milli-GPUs by node and device UUID."""

_NO_JOBS: Mapping[str, Sequence[Slot]] = MappingProxyType({})


@dataclass(slots=True)
class Hold:
    """Holds of one job. Read-only; only `Holds` changes it."""

    attempt: int
    """Number of the attempt that holds it."""
    slots: tuple[Slot, ...]
    """Slots of the newest `placed` or `resized`; slots that a resize gives up stay here until `resized`."""
    placed_at: Instant
    """When the run was placed; a resize does not change it."""
    incoming: tuple[Slot, ...] = ()
    """Slots that a resize under way adds; they are held too."""
    is_resizing: bool = False
    """True from `resize-requested` to `resized`."""
    has_started: bool = False
    """True once `pods-started` was reported for this run."""
    has_exited: bool = False
    """True once `pods-exited` was reported for this run: its slots stay held, and nothing uses them."""
    picks: Picks | None = None
    """Devices that kubelets picked for the run; None if they picked none, or not all of them are known."""

    @property
    def held(self) -> tuple[Slot, ...]:
        """Every slot that is held."""
        return (*self.slots, *self.incoming) if self.incoming else self.slots


@dataclass(frozen=True, slots=True)
class HoldChange:
    """How one fact changed what a job holds."""

    job_id: str
    taken: tuple[Slot, ...] = ()
    """Slots that it holds from now on."""
    freed: tuple[Slot, ...] = ()
    """Slots that it no longer holds."""


@dataclass(frozen=True, slots=True)
class DeviceHolders:
    """Ids of the jobs that hold a device, sorted."""

    known: tuple[str, ...] = ()
    """Jobs for which the scheduler chose the device, or the kubelet reported it as picked."""
    possible: tuple[str, ...] = ()
    """Jobs for which the kubelet picks on this node, and whose picked devices are unknown."""

    @property
    def all(self) -> tuple[str, ...]:
        """Known and possible holders, sorted."""
        return tuple(sorted((*self.known, *self.possible)))


class Holds:
    """Folds what jobs hold. The work per fact grows with the slots that the fact names.

    A fact that fits no hold is counted in `anomalies` by its name, and changes nothing.
    """

    _FOLDS = Folds["Holds", HoldChange | None]()

    def __init__(self) -> None:
        self.jobs: dict[str, Hold] = {}
        """Jobs that hold something, by id. Read-only."""
        self.anomalies: Counter[str] = Counter()
        self._on: dict[str, dict[str, list[Slot]]] = {}

    def apply(self, fact: Fact) -> HoldChange | None:
        """Fold one fact of the log or of a checkpoint. Return None if what is held is the same as before."""
        return self._FOLDS.apply(self, fact)

    # --- questions -----------------------------------------------------------------------------------------------

    def slots_on(self, node: str) -> Mapping[str, Sequence[Slot]]:
        """Return the slots held on a node, by job id. Read-only, and valid until the next fact."""
        return self._on.get(node, _NO_JOBS)

    def jobs_on(self, node: str) -> tuple[str, ...]:
        """Return the ids of the jobs that hold something on a node, sorted."""
        return tuple(sorted(self._on.get(node, ())))

    def device_holders(self, node: str, uuid: str, shown: Mapping[str, int]) -> DeviceHolders:
        """Return the jobs that hold a device of a node. `shown`: index of each device that the node shows, by UUID.

        If the kubelet picks, every job whose devices on the node are unknown may hold a device: none were reported, or
        the node shows the device under a name that is not its UUID.
        """
        index = shown.get(uuid)
        known, possible = list[str](), list[str]()
        for job_id, slots in sorted(self.slots_on(node).items()):
            if any(index in slot.devices for slot in slots):
                known.append(job_id)
                continue
            if not any(slot.gpus for slot in slots):
                continue
            picks = self.jobs[job_id].picks
            if picks is None:
                possible.append(job_id)
            elif uuid in picks[node]:
                known.append(job_id)
            elif index is not None and not picks[node].keys() <= shown.keys():
                possible.append(job_id)
        return DeviceHolders(tuple(known), tuple(possible))

    def devices_held(self, node: str, shown: Mapping[str, int]) -> Set[str]:
        """Return the UUIDs of a node's devices that have a known or possible holder; `shown` as in `device_holders`."""
        held, uuids = set[str](), {index: uuid for uuid, index in shown.items()}
        for job_id, slots in self.slots_on(node).items():
            held.update(uuids[index] for slot in slots for index in slot.devices if index in uuids)
            if any(slot.gpus for slot in slots):
                picks = self.jobs[job_id].picks
                if picks is None or not picks[node].keys() <= shown.keys():
                    return shown.keys()
                held.update(picks[node])
        return held

    def devices_in_use(self, node: str, present: Mapping[int, str]) -> dict[str, dict[str, int]]:
        """Return the milli-GPUs of the node's devices that pods may use, by UUID and job id, for known holders only.

        `present`: UUID of each present device, by index. Pods that have exited use nothing.
        """
        used: dict[str, dict[str, int]] = {}
        for job_id, slots in sorted(self.slots_on(node).items()):
            hold = self.jobs[job_id]
            if hold.has_exited:
                continue
            for uuid, milli in (hold.picks or {}).get(node, {}).items():
                used.setdefault(uuid, {})[job_id] = milli
            for slot in slots:
                for index in slot.devices:
                    if index in present:
                        jobs = used.setdefault(present[index], {})
                        jobs[job_id] = jobs.get(job_id, 0) + slot.gpu_milli
        return used

    # --- facts ---------------------------------------------------------------------------------------------------

    @_FOLDS.on("job", "placed", JobPlaced)
    def _placed(self, fact: Fact, placed: JobPlaced) -> HoldChange | None:
        if fact.subject_id in self.jobs:
            self.anomalies[fact.name] += 1
            return None
        return self._hold(fact.subject_id, Hold(placed.attempt, placed.slots, fact.time))

    @_FOLDS.on("job", "resize-requested", JobResizeRequested)
    def _resize_requested(self, fact: Fact, wanted: JobResizeRequested) -> HoldChange | None:
        """Hold the new slots in addition to the present ones."""
        hold = self._of_attempt(fact, wanted.attempt)
        if hold is None or hold.is_resizing:
            self.anomalies[fact.name] += 1
            return None
        hold.is_resizing, hold.incoming = True, _beside(hold.slots, wanted.slots)
        if not hold.incoming:
            return None
        hold.picks = None
        self._enter(fact.subject_id, hold.incoming)
        return HoldChange(fact.subject_id, taken=hold.incoming)

    @_FOLDS.on("job", "resized", JobResized)
    def _resized(self, fact: Fact, resized: JobResized) -> HoldChange | None:
        """Hold exactly the slots of the fact. The devices that the kubelet picked or took back are not reported."""
        hold = self._of_attempt(fact, resized.attempt)
        if hold is None:
            self.anomalies[fact.name] += 1
            return None
        taken, freed = _beside(hold.held, resized.slots), _beside(resized.slots, hold.held)
        hold.slots, hold.incoming, hold.is_resizing = resized.slots, (), False
        if not taken and not freed:
            return None
        hold.picks = None
        self._leave(fact.subject_id, freed)
        self._enter(fact.subject_id, taken)
        return HoldChange(fact.subject_id, taken, freed)

    @_FOLDS.on("job", "pods-started", PodsStarted)
    def _pods_started(self, fact: Fact, started: PodsStarted) -> None:
        hold = self._of_attempt(fact, started.attempt)
        if hold is None or hold.has_started:
            self.anomalies[fact.name] += 1
            return
        hold.has_started = True
        hold.picks = _picks(hold.slots, tuple(chain.from_iterable(started.device_uuids)))

    @_FOLDS.on("job", "pods-exited", PodsExited)
    def _pods_exited(self, fact: Fact, exited: PodsExited) -> None:
        hold = self._of_attempt(fact, exited.attempt)
        if hold is None or hold.has_exited:
            self.anomalies[fact.name] += 1
            return
        hold.has_exited = True

    @_FOLDS.on("job", FREEING_FACTS, Payload)
    def _freed(self, fact: Fact, _: Payload) -> HoldChange | None:
        hold = self.jobs.pop(fact.subject_id, None)
        if hold is None:
            return None  # the job was waiting
        held = hold.held
        self._leave_all(fact.subject_id, held)
        return HoldChange(fact.subject_id, freed=held)

    @_FOLDS.on("job", STATE_NAME, JobState)
    def _restored(self, fact: Fact, state: JobState) -> HoldChange | None:
        """Load the holds of the scheduler's part of a checkpoint; the other parts have no further holds."""
        if state.phase not in HOLDING_PHASES:
            return None
        if fact.subject_id in self.jobs:
            self.anomalies[fact.name] += 1
            return None
        hold = Hold(state.attempt, state.slots, Instant(state.placed_at))
        if state.resize is not None:
            hold.is_resizing, hold.incoming = True, _beside(state.slots, state.resize.slots)
        hold.has_started, hold.has_exited = bool(state.started_fact), state.exited is not None
        hold.picks = _picks(state.slots, state.picked)
        return self._hold(fact.subject_id, hold)

    # --- inside --------------------------------------------------------------------------------------------------

    def _of_attempt(self, fact: Fact, attempt: int) -> Hold | None:
        """Return the hold of the job; None if there is none, or if it is of another attempt than the fact."""
        hold = self.jobs.get(fact.subject_id)
        return hold if hold is not None and hold.attempt == attempt else None

    def _hold(self, job_id: str, hold: Hold) -> HoldChange:
        self.jobs[job_id] = hold
        held = hold.held
        self._enter(job_id, held)
        return HoldChange(job_id, taken=held)

    def _enter(self, job_id: str, slots: Iterable[Slot]) -> None:
        for slot in slots:
            self._on.setdefault(slot.node, {}).setdefault(job_id, []).append(slot)

    def _leave(self, job_id: str, slots: Iterable[Slot]) -> None:
        gone = {_identity(slot): slot.node for slot in slots}
        for node in dict.fromkeys(gone.values()):
            kept = [slot for slot in self._on[node][job_id] if _identity(slot) not in gone]
            if kept:
                self._on[node][job_id] = kept
            else:
                self._forget(job_id, node)

    def _leave_all(self, job_id: str, slots: Iterable[Slot]) -> None:
        for node in {slot.node: None for slot in slots}:
            self._forget(job_id, node)

    def _forget(self, job_id: str, node: str) -> None:
        jobs = self._on[node]
        del jobs[job_id]
        if not jobs:
            del self._on[node]


def _identity(slot: Slot) -> tuple[int, int, str, tuple[int, ...], int, int]:
    """Return the identity of a slot; `places` are left out, because the scheduler may change them."""
    return slot.group, slot.replica, slot.node, slot.devices, slot.gpus, slot.gpu_milli


def _beside(slots: Sequence[Slot], others: Sequence[Slot]) -> tuple[Slot, ...]:
    """Return those of `others` that are not among `slots`."""
    known = {_identity(slot) for slot in slots}
    return tuple(slot for slot in others if _identity(slot) not in known)


def _picks(slots: Sequence[Slot], uuids: Sequence[str]) -> Picks | None:
    """Return the devices that kubelets picked. `uuids`: of all devices of all slots, in the order of the slots.

    None if they picked none, or if some are missing: then the slots of the others are unknown.
    """
    if not any(slot.gpus for slot in slots) or len(uuids) != sum(slot.gpu_count for slot in slots):
        return None
    rest, picks = iter(uuids), dict[str, dict[str, int]]()
    for slot in slots:
        own = tuple(islice(rest, slot.gpu_count))
        if slot.gpus:
            picked = picks.setdefault(slot.node, {})
            for uuid in own:
                picked[uuid] = picked.get(uuid, 0) + slot.gpu_milli
    return picks
