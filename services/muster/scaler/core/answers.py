"""Answers to questions about choices."""

from itertools import islice

from muster.core import Instant
from muster.core.fact import Core
from muster.scaler.core.core import ScalerCore
from muster.scaler.core.limits import REFUSED_SHOWN, SHOWN_MAX
from muster.scaler.core.views import view_of, view_of_nothing
from muster.schemas.base import Wire
from muster.schemas.queries import ScaleAnswer


def answer_choices(core: Core, _ask: Wire, _now: Instant) -> ScaleAnswer:
    """To `choices`: those under way, those that ended, and what nothing helps now; the newest first, as far as kept."""
    assert isinstance(core, ScalerCore)
    state = core.state
    found = [view_of(choice) for choice in state.choices.in_order()]
    found += [view_of(one.choice, ended_at=one.ended_at, ended=one.ended) for one in state.ended]
    refused = islice(reversed(state.refused.values()), REFUSED_SHOWN)
    found += [view_of_nothing(one, is_node=one.name not in state.jobs.records) for one in refused]
    found.sort(key=lambda view: (view.at, len(view.id), view.id), reverse=True)
    return ScaleAnswer(choices=tuple(found[:SHOWN_MAX]))
