"""The design's invariants, checked over a cluster's log as it was really written. Pure: facts in, violations out."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from muster.core.fact import Fact
from muster.schemas.facts.job import JobPlaced, JobResized, JobResizeRequested, JobRouted, PodsExited, PodsStarted
from muster.schemas.facts.node import NodeJoined
from muster.schemas.job import Slot

TERMINAL = frozenset({"succeeded", "failed", "cancelled", "timed-out"})


@dataclass
class Ledger:
    """Who holds which device, and where every job stands, fact by fact. By count, where the kubelet picks devices."""

    node_milli: Counter[str] = field(default_factory=Counter)
    offered_milli: dict[str, int] = field(default_factory=dict)
    device_milli: Counter[tuple[str, int]] = field(default_factory=Counter)
    held: dict[str, tuple[Slot, ...]] = field(default_factory=dict)
    sizes: dict[str, tuple[int, int]] = field(default_factory=dict)
    terminal: Counter[str] = field(default_factory=Counter)
    started: Counter[tuple[str, int]] = field(default_factory=Counter)
    exited: Counter[tuple[str, int]] = field(default_factory=Counter)
    set_aside: set[str] = field(default_factory=set)
    violations: list[str] = field(default_factory=list)
    names: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def fold(self, fact: Fact) -> None:
        """One fact further."""
        if isinstance(fact.payload, NodeJoined):
            self.offered_milli[fact.subject_id] = 1000 * len(fact.payload.present)
        if fact.kind != "job":
            return
        self.names[fact.subject_id].append(fact.name)
        match fact.payload:
            case JobRouted(job=job):
                groups = job.spec.task_groups
                self.sizes[job.id] = sum(g.replicas_least for g in groups), sum(g.replicas for g in groups)
            case JobPlaced(slots=slots):
                self._hold(fact, slots)
            case JobResizeRequested(slots=slots):
                self._take(fact, [slot for slot in slots if slot not in self.held.get(fact.subject_id, ())])
            case JobResized(slots=slots):
                self._give(fact.subject_id, [slot for slot in self.held.get(fact.subject_id, ()) if slot not in slots])
            case PodsStarted(attempt=attempt):
                self.started[fact.subject_id, attempt] += 1
            case PodsExited(attempt=attempt):
                self.exited[fact.subject_id, attempt] += 1
            case _ if fact.name in ("queued", "returned") or fact.name in TERMINAL:
                self._release(fact.subject_id)
        self._set_aside(fact)
        if fact.name in TERMINAL:
            self.terminal[fact.subject_id] += 1

    def _set_aside(self, fact: Fact) -> None:
        """Nobody is placed between `held` and `unheld`."""
        if fact.name == "held":
            self.set_aside.add(fact.subject_id)
        elif fact.name == "unheld" or fact.name in TERMINAL:
            self.set_aside.discard(fact.subject_id)
        elif fact.name == "placed" and fact.subject_id in self.set_aside:
            self.violations.append(f"{fact.subject_id} placed at {fact.seq} while it was held")

    def _hold(self, fact: Fact, slots: tuple[Slot, ...]) -> None:
        if fact.subject_id in self.held:
            self.violations.append(f"{fact.subject_id} placed twice, second time at {fact.seq}")
            return
        least, most = self.sizes.get(fact.subject_id, (0, 0))
        if not least <= len(slots) <= most:
            self.violations.append(f"{fact.subject_id} placed with {len(slots)}, needs {least} to {most}")
        self.held[fact.subject_id] = ()
        self._take(fact, slots)

    def _take(self, fact: Fact, slots: Iterable[Slot]) -> None:
        for slot in slots:
            self.held[fact.subject_id] = (*self.held.get(fact.subject_id, ()), slot)
            self.node_milli[slot.node] += slot.gpu_milli_held
            if slot.gpus and self.node_milli[slot.node] > self.offered_milli.get(slot.node, 1 << 60):
                self.violations.append(f"node {slot.node} over-held at {fact.seq}")
            for device in slot.devices:
                self.device_milli[slot.node, device] += slot.gpu_milli
                if self.device_milli[slot.node, device] > 1000:
                    self.violations.append(f"device {slot.node}/{device} over-held at {fact.seq}")

    def _release(self, job_id: str) -> None:
        self._give(job_id, self.held.get(job_id, ()))
        self.held.pop(job_id, None)

    def _give(self, job_id: str, slots: Iterable[Slot]) -> None:
        for slot in tuple(slots):
            self.held[job_id] = tuple(other for other in self.held[job_id] if other != slot)
            self.node_milli[slot.node] -= slot.gpu_milli_held
            for device in slot.devices:
                self.device_milli[slot.node, device] -= slot.gpu_milli

    def finish(self, accepted: Iterable[str], *, all_ended: bool) -> list[str]:
        """Violations, with what is only visible at the end: lost jobs, jobs that ended twice, pods that ran twice."""
        for job_id in accepted:
            if job_id not in self.names:
                self.violations.append(f"{job_id} was accepted and is not in the cluster's log")
            elif all_ended and self.terminal[job_id] != 1:
                self.violations.append(f"{job_id} has {self.terminal[job_id]} terminal facts: {self.names[job_id]}")
        self.violations += [f"{job_id} ended {n} times" for job_id, n in self.terminal.items() if n > 1]
        self.violations += [f"pods of {key} started {n} times" for key, n in self.started.items() if n > 1]
        self.violations += [f"pods of {key} exited {n} times" for key, n in self.exited.items() if n > 1]
        return self.violations


def violations(facts: Iterable[Fact], *, accepted: Iterable[str], all_ended: bool = False) -> list[str]:
    """Every breach of invariants 1 (devices), 2 (gangs) and 3 (jobs), and held jobs that were placed; [] is wanted."""
    ledger = Ledger()
    for fact in facts:
        ledger.fold(fact)
    return ledger.finish(accepted, all_ended=all_ended)
