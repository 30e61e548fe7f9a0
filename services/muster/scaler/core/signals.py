"""What an autoscaler wants, whichever it is: Muster's own, or the Cluster Autoscaler as the agent reports it.

Both send the same four signals, one per case of the choice (`scale_up`, `scale_down`). The Cluster Autoscaler's are
facts of kind `autoscaler` and stand until they are replaced or settled; Muster's own are found when asked for
(`autoscaler.py`).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from muster.core import Fact, Instant
from muster.scaler.core.limits import SIGNALS_MAX
from muster.schemas.facts.scale import AutoscalerSignal, HeardSignal

WANTED, REFUSED = "node-wanted", "node-refused"
UNNEEDED, BLOCKED, SETTLED = "node-unneeded", "removal-blocked", "settled"


@dataclass(frozen=True, slots=True)
class NodeWanted:
    """Case 1: nodes of this group are wanted for these jobs, and the group has room for them. fact: who said so."""

    jobs: tuple[str, ...]
    group: str
    nodes: int
    fact: str = ""


@dataclass(frozen=True, slots=True)
class NodeRefused:
    """Case 2: a node would be wanted for these jobs, and none may be had. group: "" if none would do."""

    jobs: tuple[str, ...]
    group: str
    reason: str
    fact: str = ""


@dataclass(frozen=True, slots=True)
class NodeUnneeded:
    """Case 3: nobody needs this node, since then."""

    node: str
    since: Instant
    fact: str = ""


@dataclass(frozen=True, slots=True)
class RemovalBlocked:
    """Case 4: the node would be removed, since then, but for these holders."""

    node: str
    since: Instant
    reason: str
    holders: tuple[str, ...]
    fact: str = ""


Demanded = NodeWanted | NodeRefused
Surplus = NodeUnneeded | RemovalBlocked
Signal = Demanded | Surplus

_REPLACES = {
    WANTED: (WANTED, REFUSED),
    REFUSED: (WANTED, REFUSED),
    UNNEEDED: (UNNEEDED, BLOCKED),
    BLOCKED: (UNNEEDED, BLOCKED),
    SETTLED: (WANTED, REFUSED, UNNEEDED, BLOCKED),
}


@dataclass(slots=True)
class SignalBook:
    """What the Cluster Autoscaler wants now. heard: (subject, word) in the order in which they were first said."""

    heard: dict[tuple[str, str], HeardSignal] = field(default_factory=dict)
    _of_jobs: dict[str, Demanded] | None = field(default=None, compare=False, repr=False)

    def fold(self, fact: Fact) -> None:
        """One fact of kind `autoscaler`. Of the same group, wanted and refused stand side by side for other jobs."""
        payload = fact.payload
        assert isinstance(payload, AutoscalerSignal)
        self._of_jobs = None
        for word in _REPLACES[fact.name]:
            self._withdraw(fact.subject_id, word, payload, is_same=word == fact.name)
        if fact.name == SETTLED:
            return
        signal = HeardSignal(subject=fact.subject_id, name=fact.name, at=fact.time, fact=fact.id, signal=payload)
        known = self.heard.get((fact.subject_id, fact.name))
        if known is not None:
            signal = signal.model_copy(update={"at": known.at})
        self.heard[fact.subject_id, fact.name] = signal
        if len(self.heard) > SIGNALS_MAX:
            del self.heard[next(iter(self.heard))]

    def load(self, signals: Iterable[HeardSignal]) -> None:
        """As a checkpoint says."""
        self._of_jobs = None
        for signal in signals:
            self.heard[signal.subject, signal.name] = signal

    def forget_node(self, node: str) -> None:
        """The node is gone, and what was wanted of it with it."""
        for word in (UNNEEDED, BLOCKED):
            self.heard.pop((node, word), None)

    def of_job(self, job_id: str) -> Demanded | None:
        """What was last said for this job: a node that is wanted comes before one that was refused."""
        if self._of_jobs is None:
            self._of_jobs = dict(self._demanded())
        return self._of_jobs.get(job_id)

    def of_nodes(self) -> Iterator[Surplus]:
        """What was said of nodes that could go."""
        for (subject, word), signal in self.heard.items():
            said = signal.signal
            if word == UNNEEDED:
                yield NodeUnneeded(said.node or subject, Instant(signal.at), signal.fact)
            elif word == BLOCKED:
                yield RemovalBlocked(said.node or subject, Instant(signal.at), said.reason, said.jobs, signal.fact)

    def _demanded(self) -> Iterator[tuple[str, Demanded]]:
        """By job, refusals first, so that a wish that may be met takes their place."""
        for wanted in (False, True):
            for (subject, word), signal in self.heard.items():
                said = signal.signal
                group = said.group or subject
                for job in said.jobs if word == (WANTED if wanted else REFUSED) else ():
                    if wanted:
                        yield job, NodeWanted(said.jobs, group, 1, signal.fact)
                    else:
                        yield job, NodeRefused(said.jobs, group, said.reason, signal.fact)

    def _withdraw(self, subject: str, word: str, said: AutoscalerSignal, *, is_same: bool) -> None:
        """A newer word about the same jobs, or about a node, takes the place of an older one."""
        known = self.heard.get((subject, word))
        if known is None or is_same:
            return
        left = tuple(job for job in known.signal.jobs if job not in said.jobs)
        if said.jobs and left and word in (WANTED, REFUSED):
            signal = known.signal.model_copy(update={"jobs": left})
            self.heard[subject, word] = known.model_copy(update={"signal": signal})
        else:
            del self.heard[subject, word]
