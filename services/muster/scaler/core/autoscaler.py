"""The signals of an autoscaler: Muster's own, or the Cluster Autoscaler as the agent reports it.

Both send the same four signals, one per case of the choice (`scale_up`, `scale_down`). Signals of the Cluster
Autoscaler are facts of kind `autoscaler`, valid until they are replaced or settled (`SignalBook`). Muster's own are
computed on request, as the Cluster Autoscaler would. Scale-up: the placement engine checks whether the gang fits after
virtual nodes of a group's shown spec are added to the fleet. Scale-down: a node that holds nothing is unneeded after
`node_unneeded_s`. A node of which less than half is used could be removed if its jobs could move, but no running job is
ended for a scale-down, so its removal is blocked.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from muster.core import Fact, Instant
from muster.core.settings import GroupSettings
from muster.scaler.core.changes import Cooldowns
from muster.scaler.core.cluster import Cluster
from muster.scaler.core.groups import ScalingConfig, spec_text
from muster.scaler.core.jobs import JobTable, Waiting
from muster.scaler.core.limits import HOLDERS_NAMED_MAX, SIGNALS_MAX
from muster.scaler.core.new_nodes import NewNodes
from muster.schemas.facts.scale import AutoscalerSignal, HeardSignal

WANTED, REFUSED = "node-wanted", "node-refused"
UNNEEDED, BLOCKED, SETTLED = "node-unneeded", "removal-blocked", "settled"


@dataclass(frozen=True, slots=True)
class NodeWanted:
    """Case 1: nodes of this group are wanted for these jobs, and the group may have more nodes."""

    jobs: tuple[str, ...]
    group: str
    nodes: int
    fact: str = ""
    """The fact that reported it."""


@dataclass(frozen=True, slots=True)
class NodeRefused:
    """Case 2: a node would be wanted for these jobs, but none may be added."""

    jobs: tuple[str, ...]
    group: str
    """The group that would fit; "" if none would."""
    reason: str
    fact: str = ""


@dataclass(frozen=True, slots=True)
class NodeUnneeded:
    """Case 3: the node is unneeded since a time."""

    node: str
    since: Instant
    fact: str = ""


@dataclass(frozen=True, slots=True)
class RemovalBlocked:
    """Case 4: the node would be removed since a time, but these jobs hold it."""

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
    """The present signals of the Cluster Autoscaler."""

    heard: dict[tuple[str, str], HeardSignal] = field(default_factory=dict)
    """By subject and name, in the order in which they were first reported."""
    _of_jobs: dict[str, Demanded] | None = field(default=None, compare=False, repr=False)

    def fold(self, fact: Fact, payload: AutoscalerSignal) -> None:
        """Fold one fact of kind `autoscaler`. A group may have a wanted and a refused signal for different jobs."""
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
        """Load the signals of a checkpoint."""
        self._of_jobs = None
        for signal in signals:
            self.heard[signal.subject, signal.name] = signal

    def forget_node(self, node: str) -> None:
        """Remove the signals of a node that left."""
        for word in (UNNEEDED, BLOCKED):
            self.heard.pop((node, word), None)

    def of_job(self, job_id: str) -> Demanded | None:
        """Return the signal for this job; a wanted node takes precedence over a refused one."""
        if self._of_jobs is None:
            self._of_jobs = dict(self._demanded())
        return self._of_jobs.get(job_id)

    def of_nodes(self) -> Iterator[Surplus]:
        """Yield the signals for nodes that could be removed."""
        for (subject, word), signal in self.heard.items():
            said = signal.signal
            if word == UNNEEDED:
                yield NodeUnneeded(said.node or subject, Instant(signal.at), signal.fact)
            elif word == BLOCKED:
                yield RemovalBlocked(said.node or subject, Instant(signal.at), said.reason, said.jobs, signal.fact)

    def _demanded(self) -> Iterator[tuple[str, Demanded]]:
        """Yield the signals by job, refusals first, so that a wanted node replaces a refusal."""
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
        """Remove an older signal that a newer one about the same jobs, or about the same node, replaces."""
        known = self.heard.get((subject, word))
        if known is None or is_same:
            return
        left = tuple(job for job in known.signal.jobs if job not in said.jobs)
        if said.jobs and left and word in (WANTED, REFUSED):
            signal = known.signal.model_copy(update={"jobs": left})
            self.heard[subject, word] = known.model_copy(update={"signal": signal})
        else:
            del self.heard[subject, word]


@dataclass(frozen=True, slots=True)
class _Offer:
    """A number of nodes of a group that would make the gang fit."""

    group: GroupSettings
    nodes: int
    watts: float
    refusal: str
    """Why they cannot be added; "" if they can."""

    @property
    def key(self) -> tuple[bool, float, float, str]:
        """Sort key: available offers first, then least power, then shortest provision time."""
        return bool(self.refusal), self.watts, self.group.provision_s, self.group.name


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class NodeDemand:
    """Cases 1 and 2: which nodes the autoscaler in charge wants to add for a job."""

    config: ScalingConfig
    signals: SignalBook
    new_nodes: NewNodes
    cooldowns: Cooldowns

    def of_job(self, waiting: Waiting, now: Instant) -> Demanded | None:
        """Return what the autoscaler in charge wants for this job; None if it says nothing."""
        if self.config.settings.mode == "cluster-autoscaler":
            return self.signals.of_job(waiting.job_id)
        return self.wants(waiting, now) if self.config.settings.mode == "embedded" else None

    def wants(self, waiting: Waiting, now: Instant) -> Demanded | None:
        """Return nodes of the group that costs least power, or why there can be none; None without any group."""
        groups = list(self.config.groups.values())
        offers = [offer for group in groups if (offer := self._offer(group, waiting, now))]
        if offers:
            best = min(offers, key=lambda offer: offer.key)
            if best.refusal:
                return NodeRefused((waiting.job_id,), best.group.name, best.refusal, waiting.fact)
            return NodeWanted((waiting.job_id,), best.group.name, best.nodes, waiting.fact)
        if not groups:
            return None
        shown = ", ".join(f"{group.name} ({spec_text(group)})" for group in groups[:4])
        return NodeRefused((waiting.job_id,), "", f"it would not fit with more nodes of {shown}", waiting.fact)

    def _offer(self, group: GroupSettings, waiting: Waiting, now: Instant) -> _Offer | None:
        needed, shape = self.new_nodes.needed(group, waiting.ask)
        if not needed or shape is None:
            return None
        model = self.config.model(shape.gpu_model)
        gpus = min(waiting.gpus, needed * shape.gpu_count) if group.composable else needed * shape.gpu_count
        watts = needed * group.idle_w + gpus * model.idle_w
        return _Offer(group, needed, watts, self._refusal(group, needed, now))

    def _refusal(self, group: GroupSettings, needed: int, now: Instant) -> str:
        has = self.new_nodes.members(group.name)
        if has + needed > group.nodes_max:
            return f"group {group.name} has {has} of at most {group.nodes_max} nodes, {needed} more would be needed"
        if now < self.cooldowns.failed_until(group.name):
            return f"a node of group {group.name} could not be added a moment ago"
        return ""


@dataclass(frozen=True, slots=True)
class Giving:
    """Groups that could lose a node now, and groups that could lose idle GPUs, by their limits and the demand."""

    nodes: frozenset[str]
    gpus: frozenset[str]
    has_more: Callable[[str], bool]
    """Whether a node has more GPUs than `gpus_min`, in a group that has more idle GPUs than its warm reserve."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class NodeSurplus:
    """Cases 3 and 4: which nodes the autoscaler in charge would remove."""

    cluster: Cluster
    signals: SignalBook
    jobs: JobTable

    def of_nodes(self, now: Instant, giving: Giving | None = None) -> Iterator[Surplus]:
        """Yield the nodes that the autoscaler in charge would remove, with `giving` only of these groups."""
        if self.cluster.config.settings.mode == "cluster-autoscaler":
            return self.signals.of_nodes()
        return self.unneeded(now, giving) if self.cluster.config.settings.mode == "embedded" else iter(())

    def unneeded(self, now: Instant, giving: Giving | None = None) -> Iterator[Surplus]:
        """Yield nodes that hold nothing, and nodes with idle GPUs that hold little, after `node_unneeded_s`.

        Lost and drained nodes are left to others. With `giving`, only nodes that have something to give.
        """
        records, group_of, idle = self.cluster.nodes, self.cluster.node_groups.group_of, self.cluster.idle
        every = frozenset(self.cluster.config.groups)
        giving = giving or Giving(every, every, bool)
        nodes, gpus, has_more = giving.nodes, giving.gpus, giving.has_more
        for name in idle.nodes.elapsed(now) if nodes or gpus else ():
            group = group_of(name)
            gives = group in nodes or (group in gpus and idle.on.get(name) and has_more(name))
            if gives and records[name].usable:
                yield NodeUnneeded(name, idle.nodes.since[name])
        for name in idle.low.elapsed(now) if gpus else ():
            record = records[name]
            if group_of(name) in gpus and idle.on.get(name) and has_more(name) and record.jobs and record.usable:
                words = self.holders_text(name)
                yield RemovalBlocked(name, idle.low.since[name], words, tuple(sorted(record.jobs)))

    def holders_text(self, node: str) -> str:
        """Return which jobs hold a node, and why they are not moved."""
        record = self.cluster.nodes.get(node)
        names = sorted(record.jobs) if record is not None else []
        shown = []
        for job_id in names[:HOLDERS_NAMED_MAX]:
            job = self.jobs.records.get(job_id)
            holds_gpus = record is not None and any(hold.slot.gpu_milli for hold in record.jobs[job_id])
            words = [] if holds_gpus else ["no GPU"]
            if job is not None and not job.shape.preemptible:
                words.append("not preemptible")
            name = job.name if job is not None else job_id
            shown.append(f"{name} ({', '.join(words)})" if words else name)
        more = f" and {len(names) - HOLDERS_NAMED_MAX} more" if len(names) > HOLDERS_NAMED_MAX else ""
        return f"held by {', '.join(shown)}{more}; no running job is ended for a scale-down"
