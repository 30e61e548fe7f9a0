"""The state of the upgrader: campaigns with the turns of their nodes, jobs, and requests to drain nodes.

Folds change it (`fold*.py`), decisions only read it.
"""

from collections import Counter
from dataclasses import dataclass, field

from muster.cluster import Holds, Nodes
from muster.core import Instant, after
from muster.schemas.base import LABEL_CHARS_MAX
from muster.schemas.facts.node import Cordon, DrainRequest, NodeJoined, WithholdRequested
from muster.schemas.facts.upgrade import (
    CampaignSpec,
    CampaignState,
    PendingCampaignChange,
    Step,
    TurnState,
)
from muster.schemas.job import JobKind, JobSpec
from muster.upgrader.core.config import UpgradeConfig

MILLI = 1000


def gpus(described: NodeJoined | None) -> int:
    """Return the number of present devices."""
    return 0 if described is None else len(described.present)


def domain(described: NodeJoined | None, level: str) -> str:
    """Return the node's domain of a level, "" without one."""
    return "" if described is None else dict(described.domains).get(level, "")


def version(described: NodeJoined | None, component: str) -> str:
    """Return the version of a component of the node, "" if unknown."""
    return "" if described is None else dict(described.versions).get(component, "")


@dataclass(slots=True)
class Job:
    """One live job.

    `ran_s`: run time of ended attempts; `exited_s`: of an ended attempt without an answer. `total_s` limits all
    attempts, `slice_s` is the minimum of each, as its queue allows. `running_at` is 0 before the attempt begins.
    """

    id: str
    spec: JobSpec
    total_s: float
    ran_s: float = 0.0
    exited_s: float = 0.0
    running_at: int = 0
    slice_s: float = 0.0

    @property
    def can_move(self) -> bool:
        """Return whether it may be stopped after a checkpoint and queued again."""
        spec = self.spec
        return spec.checkpointing is not None and spec.preemptible and spec.kind is not JobKind.INFERENCE

    def ends_by(self, now: Instant) -> Instant:
        """Return when it ends at the latest, as timed-out."""
        began = self.running_at or now
        return max(now, after(Instant(began), max(0.0, self.total_s - self.ran_s)))

    def slice_ends(self, now: Instant) -> Instant:
        """Return until when it must not be stopped."""
        began = self.running_at or now
        return max(now, after(Instant(began), self.slice_s))

    def leaves_by(self, now: Instant, *, moving: bool) -> Instant:
        """Return when its nodes come free: at the end of its run, or of its slice if it may be moved."""
        end = self.ends_by(now)
        return min(end, self.slice_ends(now)) if moving and self.can_move else end


MINE = "upgrader"


@dataclass(slots=True)
class Grant:
    """The grant of one node."""

    wishes: tuple[DrainRequest, ...] = ()
    """Requests to drain it, in order."""
    cordon: Cordon | None = None
    """Cordon of a person."""

    @property
    def is_empty(self) -> bool:
        """Return whether nothing keeps jobs off the node."""
        return not self.wishes and self.cordon is None

    def taken_by_others(self, now: int) -> str:
        """Return which other service keeps jobs off it now; "" for none."""
        return next(
            (request.by or "a service" for request in self.wishes if request.by != MINE and request.from_at <= now), ""
        )

    def ask(self, asked: WithholdRequested, *, fact: str, by: str) -> None:
        """Record a request, or its repetition with another time or treatment."""
        known = self.wish(asked.request_id)
        if known is not None and known.answered:
            return
        request = DrainRequest(
            request_id=asked.request_id,
            fact=fact,
            by=by,
            running=asked.running,
            from_at=asked.from_at,
            reason=asked.reason,
        )
        self.wishes = (*(one for one in self.wishes if one is not known), request)

    def answer(self, request_id: str, *, fact: str) -> None:
        """Record `withheld`: the answer is valid, even for a request that was withdrawn meanwhile."""
        known = self.wish(request_id) or DrainRequest(request_id=request_id, fact=fact, by=MINE)
        answered = known.model_copy(update={"answered": True})
        self.wishes = (*(one for one in self.wishes if one.request_id != request_id), answered)

    def withdraw(self, request_id: str, *, after_withheld: bool) -> bool:
        """Record a withdrawal; False if the answer is still valid."""
        known = self.wish(request_id)
        if known is None or (known.answered and not after_withheld):
            return False
        self.wishes = tuple(one for one in self.wishes if one is not known)
        return True

    def drop_answered(self) -> None:
        """Record its release or departure: answered requests are settled."""
        self.wishes = tuple(one for one in self.wishes if not one.answered)

    def wish(self, request_id: str) -> DrainRequest | None:
        """Return the open request of this id."""
        return next((one for one in self.wishes if one.request_id == request_id), None)


@dataclass(slots=True, kw_only=True)
class Turn(TurnState):
    """One node in one campaign."""

    node: str

    @property
    def is_open(self) -> bool:
        """Return whether its turn has come and is not over."""
        return self.step is not Step.PLANNED and not self.step.is_end


@dataclass(slots=True, kw_only=True)
class Campaign(CampaignState):
    """One campaign."""

    name: str
    spec: CampaignSpec
    turns: dict[str, Turn] = field(default_factory=dict)
    """Turns by node."""
    open: dict[str, None] = field(default_factory=dict)
    """Nodes whose turn has come and is not over."""

    @property
    def goes_on(self) -> bool:
        """Return whether further nodes may be taken."""
        return self.ended is None and not (self.paused or self.stopped or self.aborted)

    def move(self, turn: Turn, step: Step, at: Instant) -> None:
        """Move the turn to this step."""
        turn.step, turn.since = step, at
        if turn.is_open:
            self.open[turn.node] = None
        else:
            self.open.pop(turn.node, None)

    def put(self, turn: Turn) -> None:
        """Restore a turn from a checkpoint."""
        self.turns[turn.node] = turn
        self.move(turn, turn.step, turn.since)

    def drop(self, node: str) -> None:
        """Remove the node from this campaign."""
        self.turns.pop(node, None)
        self.open.pop(node, None)

    @property
    def request_prefix(self) -> str:
        """Return the prefix of ids of its requests: campaign and number contain no dots."""
        return f"{self.name}.{self.number}."

    def request_id(self, turn: Turn, what: str) -> str:
        """Return the id of a turn's next request, unique for the node, the campaign, the attempt, and the node's
        arrival.

        A node that left and came again has another turn, and the agent still remembers the ids of the first.
        """
        return f"{self.request_prefix}{turn.number}.{turn.attempt}.{turn.asks}.{what}.{turn.node}"[:LABEL_CHARS_MAX]

    def selects(self, node: str, described: NodeJoined) -> bool:
        """Return whether the node belongs to this campaign."""
        select = self.spec.select
        labels = dict(described.labels)
        return (
            (not select.nodes or node in select.nodes)
            and (not select.groups or described.group in select.groups)
            and (not select.models or described.gpu_model in select.models)
            and all(labels.get(name) == value for name, value in select.labels.items())
        )

    def is_at_version(self, described: NodeJoined) -> bool:
        """Return whether nothing is to be done there."""
        return bool(self.spec.version) and version(described, self.spec.component.value) == self.spec.version


@dataclass(slots=True)
class State:
    """The state.

    `wishes`: open requests by their fact. `braked`: why health takes no action, "" if it does. `grants`: drained nodes
    and requests to drain, by name. `early`: restored turns whose campaign is not restored yet. `strays`: nodes that may
    have been granted for a withdrawn request. `anomalies`: facts that fit no state. `moves`: grows with every fact that
    could change a decision; `courses`: with those of campaigns.
    """

    config: UpgradeConfig
    nodes: Nodes = field(default_factory=Nodes)
    grants: dict[str, Grant] = field(default_factory=dict)
    holds: Holds = field(default_factory=Holds)
    jobs: dict[str, Job] = field(default_factory=dict)
    campaigns: dict[str, Campaign] = field(default_factory=dict)
    wishes: dict[str, PendingCampaignChange] = field(default_factory=dict)
    braked: str = ""
    early: dict[str, list[Turn]] = field(default_factory=dict)
    strays: dict[str, None] = field(default_factory=dict)
    anomalies: Counter[str] = field(default_factory=Counter)
    moves: int = 0
    courses: int = 0

    @property
    def live(self) -> list[Campaign]:
        """Return the campaigns that are not over, in the order of their acceptance."""
        return [campaign for campaign in self.campaigns.values() if campaign.ended is None]

    def knows(self, node: str) -> bool:
        """Return whether anything is known of a node: it is present, held or drained."""
        return node in self.nodes or node in self.grants or bool(self.holds.slots_on(node))

    def grant(self, node: str) -> Grant:
        """Return the node's grant, a new one if there is none. For folds."""
        return self.grants.setdefault(node, Grant())

    def drop_empty_grant(self, node: str) -> None:
        """Forget the node's grant if it says nothing."""
        grant = self.grants.get(node)
        if grant is not None and grant.is_empty:
            del self.grants[node]

    def is_lost(self, node: str) -> bool:
        """Return whether a node of the cluster does not answer."""
        known = self.nodes.get(node)
        return known is not None and known.is_lost

    def cordon(self, node: str) -> Cordon | None:
        """Return a person's cordon of a node."""
        grant = self.grants.get(node)
        return None if grant is None else grant.cordon

    def taken_by_others(self, node: str, now: int) -> str:
        """Return which other service keeps jobs off a node now; "" for none."""
        grant = self.grants.get(node)
        return "" if grant is None else grant.taken_by_others(now)

    def turns_on(self, node: str) -> list[Turn]:
        """Return its turns in all kept campaigns."""
        return [campaign.turns[node] for campaign in self.campaigns.values() if node in campaign.turns]

    def turn_asking(self, node: str, request_id: str) -> Turn | None:
        """Return the campaign and turn of a request to drain, if it is the upgrader's."""
        campaign = self.campaigns.get(request_id.partition(".")[0])
        turn = campaign.turns.get(node) if campaign is not None else None
        return turn if turn is not None and turn.request_id == request_id else None

    def jobs_on(self, node: str) -> list[Job]:
        """Return the jobs that hold something on a node."""
        return [self.jobs[name] for name in self.holds.slots_on(node) if name in self.jobs]

    def is_full(self, node: str) -> bool:
        """Return whether no GPU is free; a node without GPUs is full if a job holds it."""
        return bool(self.holds.slots_on(node)) and self._milli_held(node) >= self._milli(node)

    def count_idle(self, node: str, at: int, *, taken_milli: int = 0) -> None:
        """Add the idle time until now to the turn for which the node is kept, before its devices change.

        `taken_milli` is how much more is held from now on; negative if less. A node kept for several campaigns counts
        for the first of them.
        """
        turn = next((turn for turn in self.turns_on(node) if turn.request_id), None)
        if turn is None:
            return
        if turn.counted_at and at > turn.counted_at and not turn.freed:
            idle_milli = max(0, self._milli(node) - self._milli_held(node) + taken_milli)
            turn.lost_gpu_s += idle_milli / MILLI * (at - turn.counted_at) / 1e9
        turn.counted_at = at

    def _milli_held(self, node: str) -> int:
        return sum(slot.gpu_milli_held for slots in self.holds.slots_on(node).values() for slot in slots)

    def _milli(self, node: str) -> int:
        return MILLI * gpus(self.nodes.description(node))
