"""Answers the query `choices`, which `muster scale` shows."""

from itertools import islice

from muster.core import Instant
from muster.core.fact import Core
from muster.scaler.core.choices import NOTHING, OpenChoice
from muster.scaler.core.core import ScalerCore
from muster.scaler.core.limits import REFUSED_SHOWN, SHOWN_MAX
from muster.schemas.base import Wire
from muster.schemas.facts.scale import Refused, ScaleEnded
from muster.schemas.queries import ScaleAnswer, ScaleChoiceView


def view_of(choice: OpenChoice, *, ended_at: int = 0, ended: ScaleEnded | None = None) -> ScaleChoiceView:
    """Return the view of one choice; `ended` is its outcome if it ended."""
    chosen = choice.chosen
    outcome = "" if ended is None else "failed" if ended.failed else "done"
    return ScaleChoiceView(
        id=choice.id,
        name=choice.name,
        case=chosen.case,
        group=chosen.group,
        node=chosen.node,
        device_model=chosen.device_model,
        count=chosen.count,
        jobs=chosen.jobs,
        devices=chosen.devices,
        reason=chosen.reason,
        alternatives=chosen.alternatives,
        watts=chosen.watts,
        ready_s=chosen.ready_s,
        at=choice.chosen_at,
        ended_at=ended_at,
        outcome=outcome,
        detail=ended.reason if ended is not None else "",
    )


def view_of_nothing(refused: Refused, *, is_node: bool) -> ScaleChoiceView:
    """Return the view of the last reported reason why nothing was chosen for a job or node."""
    return ScaleChoiceView(
        id="",
        name=NOTHING,
        case=refused.case,
        node=refused.name if is_node else "",
        jobs=() if is_node else (refused.name,),
        reason=refused.reason or refused.code,
        at=refused.at,
        detail=refused.code,
    )


def answer_choices(core: Core, _ask: Wire, _now: Instant) -> ScaleAnswer:
    """Answer `choices`: open and ended choices, and reasons why nothing was chosen, newest first, as far as kept."""
    assert isinstance(core, ScalerCore)
    state = core.state
    found = [view_of(choice) for choice in state.choices.in_order()]
    found += [view_of(one.choice, ended_at=one.ended_at, ended=one.ended) for one in state.choices.ended]
    refused = islice(reversed(state.refused.values()), REFUSED_SHOWN)
    found += [view_of_nothing(one, is_node=one.name not in state.jobs.records) for one in refused]
    found.sort(key=lambda view: (view.at, len(view.id), view.id), reverse=True)
    return ScaleAnswer(choices=tuple(found[:SHOWN_MAX]))
