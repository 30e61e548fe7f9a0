"""Choices as `muster scale` shows them."""

from muster.scaler.core.choices import NOTHING, OpenChoice
from muster.schemas.facts.scale import Refused, ScaleEnded
from muster.schemas.queries import ScaleChoiceView


def view_of(choice: OpenChoice, *, ended_at: int = 0, ended: ScaleEnded | None = None) -> ScaleChoiceView:
    """One choice. ended: how, if it is."""
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
    """What stands in the way of a job, or of a node, as it was said last."""
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
