"""What each fold of a cluster's log believes of holds, in one form, and where two of them part."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from golden.folding import new_folder, services_of
from golden.logs import LOG
from kit.invariants import Ledger
from muster.cluster import Holds
from muster.cluster.node_records import NodeTable
from muster.core.fact import Fact
from muster.scheduler.core.stores.jobs import HOLDING
from muster.schemas.facts.node import NodeJoined
from muster.schemas.job import Slot

Held = Mapping[str, Mapping[str, int]]
"""Milli-GPUs by job id and node."""
Departure = tuple[str, str]
"""Which fold parts from `Holds`, and in what: the slots of jobs, or the holders of devices."""


def held_by(slots: Iterable[Slot]) -> dict[str, int]:
    """Return milli-GPUs by node."""
    held: dict[str, int] = {}
    for slot in slots:
        held[slot.node] = held.get(slot.node, 0) + slot.gpu_milli_held
    return held


@dataclass
class View:
    """A fold, and how it is asked. device: who holds the device of that UUID and index on a described node."""

    fold: Any
    held: Callable[[], Held]
    device: Callable[[str, str, int, NodeJoined], Iterable[str]] | None = None

    def apply(self, fact: Fact) -> None:
        (self.fold.fold if isinstance(self.fold, Ledger) else self.fold.apply)(fact)


def view_of_holds() -> View:
    """The fold of libs/muster/cluster."""
    holds = Holds()
    return View(
        holds,
        lambda: {job_id: held_by(hold.held) for job_id, hold in holds.jobs.items()},
        lambda node, uuid, _, shown: holds.device_holders(node, uuid, indexes(shown)).all,
    )


def other_views() -> dict[str, View]:
    """The folds of services that keep one of their own; "ledger" is the one by which tests check invariants."""
    services = services_of(LOG)
    cores: dict[str, Any] = {name: new_folder(service).core for name, service in services.items()}
    scheduler, scaler, agent = cores["scheduler"], cores["scaler"], cores["agent"]
    projector, ledger = cores["projector"], Ledger()
    return {
        "scheduler": View(
            scheduler,
            lambda: {one.id: held_by(one.held_slots) for one in _records(scheduler) if one.phase in HOLDING},
            lambda _, uuid, *__: scheduler.state.holders.of("device", uuid),
        ),
        "scaler": View(
            scaler,
            lambda: _placed(scaler.state.cluster.nodes),
        ),
        "agent": View(
            agent,
            lambda: {job_id: held_by(job.pods.touched) for job_id, job in agent.jobs.items() if job.pods is not None},
        ),
        "projector": View(
            projector,
            lambda: {
                job_id: held_by((*job.row.slots, *job.coming))
                for job_id, job in projector._jobs._live.items()
                if job.row.phase in HOLDING
            },
        ),
        "ledger": View(ledger, lambda: {job_id: held_by(slots) for job_id, slots in ledger.held.items() if slots}),
    }


def indexes(description: NodeJoined) -> dict[str, int]:
    """Return the index of each device that a node shows, by UUID."""
    return {uuid: index for index, uuid in description.present.items()}


@dataclass
class Comparison:
    """Folds a log into `Holds` and all others at once. found: where another fold parted from it."""

    mine: View = field(default_factory=view_of_holds)
    others: dict[str, View] = field(default_factory=other_views)
    found: set[Departure] = field(default_factory=set)
    _shown: dict[str, NodeJoined] = field(default_factory=dict)

    def apply(self, facts: Iterable[Fact]) -> "Comparison":
        """Fold these facts; compare after each."""
        for fact in facts:
            self._describe(fact)
            self.mine.apply(fact)
            for view in self.others.values():
                view.apply(fact)
            self.found.update(self._slots_apart())
            self.found.update(self._devices_apart())
        return self

    def _describe(self, fact: Fact) -> None:
        if isinstance(fact.payload, NodeJoined):
            self._shown[fact.subject_id] = fact.payload
        elif (fact.kind, fact.name) == ("node", "left"):
            self._shown.pop(fact.subject_id, None)

    def _slots_apart(self) -> Iterable[Departure]:
        mine = self.mine.held()
        return [(name, "slots") for name, view in self.others.items() if view.held() != mine]

    def _devices_apart(self) -> Iterable[Departure]:
        assert self.mine.device is not None
        for node, shown in self._shown.items():
            whose = "picked" if shown.kubelet_picks else "chosen"
            for index, uuid in shown.present.items():
                mine = set(self.mine.device(node, uuid, index, shown))
                for name, view in self.others.items():
                    held = mine if view.device is None else set(view.device(node, uuid, index, shown))
                    if mine - held:
                        yield name, f"too few of {whose} devices"
                    if held - mine:
                        yield name, f"too many of {whose} devices"


def _placed(nodes: NodeTable) -> Held:
    """Return what jobs hold in the fleet of the placement engine."""
    held: dict[str, dict[str, int]] = {}
    for name, record in nodes.items():
        for job_id, holds in record.jobs.items():
            held.setdefault(job_id, {})[name] = sum(one.slot.gpu_milli * len(one.slot.devices) for one in holds)
    return held


def _records(core: Any) -> Iterable[Any]:
    return core.state.jobs.records.values()
