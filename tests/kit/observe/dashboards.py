"""A dashboard without a screen: snapshot and join as `muster.schemas.live` describes it, for tests to hold to."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from muster.schemas.live import FED_CLUSTER, LiveSlice, Snapshot
from muster.schemas.views import FactView, JobView, NodeView, QueueView, ReservationView

EVERY_AUDIENCE = "*"


@dataclass
class Dashboard:
    """What one sees. gaps: how often a slice was found missing; wants_snapshot: nothing is applied until there is one.

    owed: which part must come next, of how many. facts: by log and sequence; the same fact, from public and from its
    team, with the longer body.
    """

    jobs: dict[str, JobView] = field(default_factory=dict)
    unrouted: dict[str, JobView] = field(default_factory=dict)
    nodes: dict[str, NodeView] = field(default_factory=dict)
    queues: dict[str, QueueView] = field(default_factory=dict)
    reservations: dict[str, ReservationView] = field(default_factory=dict)
    facts: dict[tuple[str, int], FactView] = field(default_factory=dict)
    seqs: dict[tuple[str, str], int] = field(default_factory=dict)
    defaults: dict[str, int] = field(default_factory=dict)
    owed: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    waiting: list[LiveSlice] = field(default_factory=list)
    wants_snapshot: bool = True
    gaps: int = 0

    def begin(self, snapshot: Snapshot) -> None:
        """Forget everything but what waits, and go on from here."""
        self.jobs = {job.id: job for job in snapshot.jobs if job.phase != "submitted" or job.cluster}
        self.unrouted = {job.id: job for job in snapshot.jobs if job.id not in self.jobs}
        self.nodes = {node.name: node for node in snapshot.nodes}
        self.queues = {queue.name: queue for queue in snapshot.queues}
        self.reservations = {one.name: one for one in snapshot.reservations}
        self.seqs = {(cluster, name): seq for cluster, seqs in snapshot.seqs.items() for name, seq in seqs.items()}
        self.defaults = {cluster: seqs.get(EVERY_AUDIENCE, 0) for cluster, seqs in snapshot.seqs.items()}
        self.wants_snapshot = False
        self.owed = {}
        waiting, self.waiting = self.waiting, []
        self.hear_all(waiting)

    def hear_all(self, slices: Iterable[LiveSlice]) -> None:
        """Several, in the order in which they came."""
        for one in slices:
            self.hear(one)

    def hear(self, one: LiveSlice) -> None:
        """A slice came."""
        if self.wants_snapshot:
            self.waiting.append(one)
            return
        who = (one.cluster, one.audience)
        mine = self.seq(*who)
        verdict = judge(one, mine, self.owed.get(who))
        if verdict == "gap":
            self.gaps += 1
            self.wants_snapshot = True
            self.waiting.append(one)
        elif verdict == "apply":
            self._apply(one, mine)
            self.seqs[who] = one.seq
            self.owed.pop(who, None)
            if one.part < one.parts:
                self.owed[who] = (one.part + 1, one.parts)

    def seq(self, cluster: str, audience: str) -> int:
        """Where it stands."""
        return self.seqs.get((cluster, audience), self.defaults.get(cluster, 0))

    def _apply(self, one: LiveSlice, mine: int) -> None:
        rows = self.unrouted if one.cluster == FED_CLUSTER else self.jobs
        for job in one.jobs:
            known = rows.get(job.id)
            if known is None or known.seq <= job.seq:
                rows[job.id] = job
        for job_id in one.gone_jobs:
            rows.pop(job_id, None)
        self.nodes.update({node.name: node for node in one.nodes})
        self.queues.update({queue.name: queue for queue in one.queues})
        self.reservations.update({each.name: each for each in one.reservations})
        for gone, table in (
            (one.gone_nodes, self.nodes),
            (one.gone_queues, self.queues),
            (one.gone_reservations, self.reservations),
        ):
            for name in gone:
                table.pop(name, None)  # type: ignore[attr-defined]
        for fact in one.facts:
            if fact.seq > mine:
                known_fact = self.facts.get((one.cluster, fact.seq))
                if known_fact is None or len(known_fact.body) < len(fact.body):
                    self.facts[one.cluster, fact.seq] = fact


def judge(one: LiveSlice, mine: int, owed: tuple[int, int] | None) -> str:
    """Whether to `apply` a slice, to `drop` it, or that there is a `gap` before it."""
    if one.prev > mine:
        return "gap"
    if one.seq < mine:
        return "drop"
    if owed is not None:
        if (one.part, one.parts) == owed:
            return "apply"
        is_repeated = one.seq == mine and one.parts == owed[1] and one.part < owed[0]
        return "drop" if is_repeated else "gap"
    return "apply" if one.seq > mine else "drop"
