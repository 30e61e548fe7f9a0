"""Answers to questions about choices."""

from muster.core import Instant
from muster.core.fact import Core
from muster.scaler.core.core import ScalerCore
from muster.scaler.core.limits import ENDED_KEPT
from muster.scaler.core.views import view_of
from muster.schemas.base import Wire
from muster.schemas.queries import ScaleAnswer


def answer_choices(core: Core, _ask: Wire, _now: Instant) -> ScaleAnswer:
    """To `choices`: those under way and those that ended, newest first, as many as are kept."""
    assert isinstance(core, ScalerCore)
    state = core.state
    found = [view_of(choice) for choice in state.choices.in_order()]
    found += [view_of(one.choice, ended_at=one.ended_at, ended=one.ended) for one in state.ended]
    found.sort(key=lambda view: (view.at, len(view.id), view.id), reverse=True)
    return ScaleAnswer(choices=tuple(found[:ENDED_KEPT]))
