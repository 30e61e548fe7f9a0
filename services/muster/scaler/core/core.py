"""The scaler's core: folds the cluster's log, decides which devices and nodes move."""

from collections.abc import Callable, Iterator

from muster.core import Draft, Fact, Instant
from muster.scaler.core import limits
from muster.scaler.core.bookings import BOOKING_FACTS
from muster.scaler.core.checkpoint import RESTORED_KINDS, restore, states
from muster.scaler.core.choices import NOTHING, Choice, name_of
from muster.scaler.core.ends import ends, given_back, next_end
from muster.scaler.core.fold_choices import COMPOSER_HANDLERS, SCALE_HANDLERS
from muster.scaler.core.fold_jobs import JOB_HANDLERS
from muster.scaler.core.fold_nodes import NODE_HANDLERS
from muster.scaler.core.groups import ScalingConfig
from muster.scaler.core.pending_pass import PendingJobs
from muster.scaler.core.scale_down import next_wakeup, surplus
from muster.scaler.core.state import State
from muster.scaler.core.what_if import settle
from muster.schemas.facts.scale import NothingChosen, ScaleChosen
from muster.schemas.registry import STATE_NAME


class ScalerCore:
    """The only writer of choices of one cluster.

    Without node groups there is nothing to choose, and nothing is folded but what the scaler said itself.
    """

    def __init__(self, config: ScalingConfig) -> None:
        self.state = State(config)
        self._pending = PendingJobs(self.state)
        self._is_active = bool(config.groups) and config.settings.mode != "off"
        self._now = Instant(0)

    def apply(self, fact: Fact) -> None:
        """Fold one fact; one that fits no state is counted in `state.anomalies`."""
        if self._is_active or fact.kind in _OWN:
            fold(self.state, fact)

    def decide(self, now: Instant) -> list[Draft]:
        """What came to its end, what waiting jobs need, then what nobody needs; the same until something is folded.

        The next choice's name is the number of those that were ever made.
        """
        state = self.state
        state.now = self._now = now
        drafts = [*ends(state, now), *given_back(state)]
        if not self._is_active:
            return drafts
        settle(state)
        choices = self._pending.choices(now)
        if not self._pending.has_more and not any(_is_chosen(choice) for together in choices for choice in together):
            choices += [[choice] for choice in surplus(state, now)]
        drafts += self._named(choices)
        return drafts

    def next_wakeup(self) -> Instant | None:
        """When a choice is overdue, somebody is to be looked at again, or something was idle for its time."""
        state = self.state
        moments = [next_end(state)]
        if self._is_active:
            if self._pending.has_more:
                return self._now
            moments += [self._pending.next_look(), next_wakeup(state, self._now)]
        return min((moment for moment in moments if moment is not None), default=None)

    def snapshot(self) -> Iterator[Draft]:
        """Choices that are not ended, and what the next ones depend on."""
        return states(self.state)

    def _named(self, choices: list[list[Choice]]) -> Iterator[Draft]:
        number = self.state.chosen
        for together in choices:
            key = ""
            for choice in together:
                if choice.name == NOTHING:
                    yield from _nothing(self.state, choice)
                    continue
                number += 1
                name = name_of(number)
                key = key or (name if len(together) > 1 else "")
                for draft in choice.drafts(name):
                    yield _together(draft, key) if key else draft


def _together(draft: Draft, key: str) -> Draft:
    return Draft(draft.kind, draft.subject_id, draft.name, draft.payload, draft.causes, draft.trace, key)


def _is_chosen(choice: Choice) -> bool:
    """Whether something is to move."""
    return isinstance(choice.payload, ScaleChosen)


def _nothing(state: State, choice: Choice) -> Iterator[Draft]:
    """Said of the job or node, unless the same was said last."""
    payload = choice.payload
    assert isinstance(payload, NothingChosen)
    subject = payload.node or payload.jobs[0]
    known = state.refused.get(subject)
    if known is None and len(state.refused) >= limits.REFUSED_KEPT:
        return  # to remember that it was said, another one would have to be forgotten, and be told again
    if known is None or (known.case, known.code) != (payload.case, payload.code):
        yield Draft("scale", subject, NOTHING, payload, choice.causes, choice.trace)


_OWN = frozenset({"scale", "scaler"})
"""Kinds that the scaler alone writes."""


def fold(state: State, fact: Fact) -> None:
    """One fact further. Facts that the scaler has no use for cost one look-up."""
    handler = _HANDLERS.get((fact.kind, fact.name))
    if handler is None:
        return
    supply, freed = state.supply + state.pool.version, state.freed
    handler(state, fact)
    state.moves += 1
    state.capacity.forget()
    if fact.name != STATE_NAME:
        if state.supply + state.pool.version != supply:
            state.supplied_at = fact.time
        if state.freed != freed:
            state.freed_at = fact.time
    state.grants.pending.clear()
    if state.changed.names:
        for name in state.changed.names:
            state.coming.lift(name)
            state.idle.look(name, at=fact.time)
            for choice in state.choices.on.get(name, ()):
                state.choices.mark_dirty(choice)
        state.changed.names.clear()


def _fold_booking(state: State, fact: Fact) -> None:
    state.bookings.apply(fact)


_HANDLERS: dict[tuple[str, str], Callable[[State, Fact], None]] = {
    **JOB_HANDLERS,
    **NODE_HANDLERS,
    **COMPOSER_HANDLERS,
    **SCALE_HANDLERS,
    **{(kind, STATE_NAME): restore for kind in RESTORED_KINDS},
    **{("reservation", name): _fold_booking for name in BOOKING_FACTS},
}
