"""The composer's core: folds the cluster's log, decides which device goes where by which call."""

from collections.abc import Iterator

from muster.composer.core import strays
from muster.composer.core.breaker import breakers
from muster.composer.core.config import ComposerConfig
from muster.composer.core.dispatch import dispatch
from muster.composer.core.fabrics import Fabrics, Look, Surveyed, SurveyWentWrong
from muster.composer.core.fold import fold
from muster.composer.core.fold_states import state_drafts
from muster.composer.core.looks import Looks
from muster.composer.core.outcomes import settle
from muster.composer.core.requests import requests
from muster.composer.core.state import State
from muster.composer.core.steps import Steps
from muster.composer.core.surveying import ask_surveys
from muster.composer.core.turn import Turn
from muster.core import Draft, Fact, Instant


class ComposerCore:
    """Implements `ObservingCore[Look]`: the only writer of requests, attachments and fabrics of one cluster.

    state: as folded, for reading. looks: what this instance saw of fabrics; another instance looks anew.
    """

    def __init__(self, fabrics: Fabrics, config: ComposerConfig) -> None:
        self.state = State(fabrics, config)
        self.looks = Looks(self.state)
        self._steps = Steps(self.state, self.looks)
        self._now = Instant(0)
        self._has_more = False

    def apply(self, fact: Fact) -> None:
        """See `Core`; what fits no state is counted in `state.anomalies`."""
        fold(self.state, fact)

    def decide(self, now: Instant) -> list[Draft]:
        """See `Core`. About DRAFTS_MAX drafts at most: what is left over follows at once."""
        state, turn = self.state, Turn(now)
        self._now = now
        state.marks.advance(now)
        for seen in state.calls.observe(now):
            if isinstance(seen, Surveyed | SurveyWentWrong):
                self.observe(seen, now)
            else:
                settle(state, seen, turn)
        strays.strays(state, self.looks, turn)
        self._steps.make(turn)
        requests(state, turn)
        breakers(state, self.looks, turn)
        dispatch(state, turn)
        ask_surveys(state, self.looks, now)
        self._has_more = turn.is_full
        return turn.drafts

    def observe(self, observation: Look, now: Instant) -> bool:  # noqa: ARG002 - a look says when it began
        """See `ObservingCore`: a fabric was looked at, or could not be. Late ones are left out."""
        return self.looks.take(observation)

    def next_wakeup(self) -> Instant | None:
        """See `Core`."""
        if self._has_more:
            return self._now
        moments = [self.state.marks.next_at(), self.state.calls.next_change(), strays.next_at(self.state)]
        moments += [fabric.retry_at for fabric in self.state.fabrics.values() if fabric.retry_at > self._now]
        return min((moment for moment in moments if moment is not None), default=None)

    def snapshot(self) -> Iterator[Draft]:
        """See `Core`. Nodes come with the agent's part, grants and what jobs hold with the scheduler's."""
        yield from state_drafts(self.state)
