"""The scaler's core: folds the cluster's log, and decides which devices and nodes are added, moved or removed."""

from collections.abc import Iterator

from muster.core import Draft, Fact, Instant
from muster.core.folding import Folds
from muster.scaler.core import checkpoint, fold_choices, fold_cluster
from muster.scaler.core.autoscaler import NodeDemand, NodeSurplus
from muster.scaler.core.backoff import Backoff
from muster.scaler.core.choices import NOTHING, Choice, Ends, name_of
from muster.scaler.core.cluster import Bookings
from muster.scaler.core.enlarge import Enlarging
from muster.scaler.core.groups import ScalingConfig
from muster.scaler.core.new_nodes import NewNodes
from muster.scaler.core.pending_pass import Admission, PendingJobs
from muster.scaler.core.scale_down import ScaleDown
from muster.scaler.core.scale_up import ScaleUp
from muster.scaler.core.sources import GpuSources
from muster.scaler.core.spare import SpareDevices
from muster.scaler.core.state import State
from muster.scaler.core.what_if import FutureFleet
from muster.schemas.facts.scale import NothingChosen, ScaleChosen
from muster.schemas.registry import STATE_NAME


class Policies:
    """The policies of a decision, in the order in which one builds on the other."""

    def __init__(self, state: State) -> None:
        config, cluster, choices, attachments = state.config, state.cluster, state.choices, state.attachments
        cooldowns, jobs, demand, refused = state.cooldowns, state.jobs, state.demand, state.refused
        new_nodes = NewNodes(cluster, state.capacity)
        self.future = FutureFleet(
            cluster=cluster, choices=choices, attachments=attachments, jobs=jobs, new_nodes=new_nodes
        )
        spares = SpareDevices(cluster=cluster, attachments=attachments, choices=choices, cooldowns=cooldowns)
        self.spares = spares
        sources = GpuSources(
            cluster=cluster, capacity=state.capacity, pool=state.pool, cooldowns=cooldowns, spares=spares
        )
        self.enlarging = Enlarging(cluster, sources)
        self.node_demand = NodeDemand(config=config, signals=state.signals, new_nodes=new_nodes, cooldowns=cooldowns)
        self.node_surplus = NodeSurplus(cluster=cluster, signals=state.signals, jobs=jobs)
        scale_up = ScaleUp(
            config=config, demand=self.node_demand, enlarging=self.enlarging, new_nodes=new_nodes, cooldowns=cooldowns
        )
        self.scale_down = ScaleDown(
            cluster=cluster, spares=spares, surplus=self.node_surplus, demand=demand, refused=refused,
            cooldowns=cooldowns,
        )  # fmt: skip
        backoff = Backoff(demand, refused, changes=state.changes, cooldowns=cooldowns, spares=spares)
        admission = Admission(cluster, state.queues)
        self.pending = PendingJobs(self.future, admission, scale_up=scale_up, backoff=backoff)
        self.ends = Ends(cluster, choices, attachments)


class ScalerCore:
    """The only writer of choices of one cluster.

    Without node groups there is nothing to choose, and only the scaler's own facts are folded.
    """

    def __init__(self, config: ScalingConfig) -> None:
        self.state = State(config)
        self.policies = Policies(self.state)
        self._is_active = bool(config.groups) and config.settings.mode != "off"
        self._now = Instant(0)

    def apply(self, fact: Fact) -> None:
        """Fold one fact; one that fits no state is counted in `state.anomalies`."""
        if self._is_active or fact.kind in _OWN:
            fold(self.state, fact)

    def decide(self, now: Instant) -> list[Draft]:
        """Return ends of choices, then choices for waiting jobs, then removals; the same until a fact is folded."""
        policies = self.policies
        self._now = now
        drafts = [*policies.ends.make(now), *policies.ends.given_back()]
        if not self._is_active:
            return drafts
        policies.future.settle()
        choices = policies.pending.choices(now)
        if not policies.pending.has_more and not any(_is_chosen(choice) for together in choices for choice in together):
            choices += [[choice] for choice in policies.scale_down.choices(now)]
        drafts += self._named(choices)
        return drafts

    def next_wakeup(self) -> Instant | None:
        """Return when a choice is overdue, a job is due, or something has been idle for its time."""
        policies = self.policies
        moments = [policies.ends.next_end()]
        if self._is_active:
            if policies.pending.has_more:
                return self._now
            moments += [policies.pending.next_look(), policies.scale_down.next_wakeup(self._now)]
        return min((moment for moment in moments if moment is not None), default=None)

    def snapshot(self) -> Iterator[Draft]:
        """Yield open choices, and the state that later choices depend on, for a checkpoint."""
        return checkpoint.states(self.state)

    def _named(self, choices: list[list[Choice]]) -> Iterator[Draft]:
        number = self.state.choices.chosen
        for together in choices:
            key = ""
            for choice in together:
                if choice.name == NOTHING:
                    yield from self._nothing(choice)
                    continue
                number += 1
                name = name_of(number)
                key = key or (name if len(together) > 1 else "")
                for draft in choice.drafts(name):
                    yield _together(draft, key) if key else draft

    def _nothing(self, choice: Choice) -> Iterator[Draft]:
        """Report that nothing is chosen for the job or node, unless the same was reported last."""
        payload = choice.payload
        assert isinstance(payload, NothingChosen)
        subject = payload.node or payload.jobs[0]
        if self.state.refused.is_news(subject, payload):
            yield Draft("scale", subject, NOTHING, payload, choice.causes, choice.trace)


def _together(draft: Draft, key: str) -> Draft:
    return Draft(draft.kind, draft.subject_id, draft.name, draft.payload, draft.causes, draft.trace, key)


def _is_chosen(choice: Choice) -> bool:
    return isinstance(choice.payload, ScaleChosen)


FOLDS = Folds[State, None](fold_cluster.FOLDS, fold_choices.FOLDS, checkpoint.FOLDS)
FOLDS.include(Bookings.FOLDS, lambda state: state.cluster.bookings)

_OWN = frozenset({"scale", "scaler"})
"""Kinds of facts that only the scaler writes."""


def fold(state: State, fact: Fact) -> None:
    """Fold one fact. Facts that the scaler does not use cost one look-up."""
    if fact not in FOLDS:
        return
    supply, freed = state.changes.supply, state.changes.freed
    FOLDS.apply(state, fact)
    state.capacity.forget()
    if fact.name != STATE_NAME:
        state.changes.note(supply, freed, at=fact.time)
    cluster = state.cluster
    cluster.grants.pending.clear()
    if cluster.changed:
        for name in cluster.changed:
            cluster.coming.lift(name)
            cluster.idle.look(name, at=fact.time)
            for choice in state.choices.on.get(name, ()):
                state.choices.mark_dirty(choice)
        cluster.changed.clear()
