"""When waiting jobs are walked through: a line that nothing could be done for costs nothing until something changed."""

from muster.core import Instant
from muster.scaler.core import limits
from muster.scaler.core.choice import Choice
from muster.scaler.core.jobs import Shape
from muster.scaler.core.pretend import Pretence
from muster.scaler.core.quiet import Quiet, look_again_at
from muster.scaler.core.state import State
from muster.scaler.core.walk import Tried, Walk


class Serving:
    """has_more: the last walk stopped before it was done."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._tried: dict[Shape, Tried] = {}
        self._quiet = Quiet(state)
        self._ground: tuple[int, ...] = ()
        self._depends_on_places = True
        self._answer: list[list[Choice]] = []
        self._wake: Instant | None = None
        self._freed, self._at, self._has_chosen = -1, Instant(0), False
        self.has_more = False

    def choices(self, now: Instant) -> list[list[Choice]]:
        """Choices for waiting jobs; those that stand together in one list. The state must be settled and is left so."""
        state = self._state
        if self._is_to_walk(now):
            with Pretence(state) as pretence:
                walk = Walk(state, self._tried, self._quiet, pretence, now)
                self._answer = walk.run()
                self._has_chosen = walk.has_chosen
            self._depends_on_places = walk.depends_on_places
            self._ground = self._ground_now()
            self._wake, self.has_more = walk.wake, walk.has_more
            self._freed, self._at = state.freed, now
            if len(self._tried) > limits.TRIED_SPARE + 2 * len(state.demand.lines):
                self._tried = {shape: tried for shape, tried in self._tried.items() if shape in state.demand.lines}
        return list(self._answer)

    def _is_to_walk(self, now: Instant) -> bool:
        """Whether anything changed by which the answer could be another one."""
        state = self._state
        if self._has_chosen and now != self._at:
            return True  # what was said then is not in the log: it may be said better now
        if self.has_more or self._ground != self._ground_now() or (self._wake is not None and now >= self._wake):
            return True
        if self._freed == state.freed:
            return False
        if self._depends_on_places:
            return True
        if state.demand.lines:  # all that wait were refused, and are looked at again a moment after places came free
            again = look_again_at(state)
            self._wake = again if self._wake is None else min(self._wake, again)
        return self._wake is not None and now >= self._wake

    def _ground_now(self) -> tuple[int, ...]:
        state = self._state
        places = state.taken + state.grants.changes if self._depends_on_places else 0
        return state.demand.version, state.supply, state.pool.version, state.chosen, len(state.choices.open), places

    def next_look(self) -> Instant | None:
        """When somebody is to be looked at again by time alone."""
        return self._wake
