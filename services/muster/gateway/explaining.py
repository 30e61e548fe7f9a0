"""Why a job waits, with what the scaler does about it. Pure."""

from collections.abc import Sequence

from muster.schemas.job import Phase
from muster.schemas.queries import ScaleChoiceView, WhyAnswer

NOTHING = "nothing-chosen"


def waits(answer: WhyAnswer) -> bool:
    """Whether the job waits for room, so that scaling may be at it."""
    return answer.job is not None and answer.job.phase is Phase.QUEUED and not answer.job.held


def with_scaling(answer: WhyAnswer, choices: Sequence[ScaleChoiceView]) -> WhyAnswer:
    """The scheduler's answer with the newest choice for the job, if it is under way or was that nothing helps.

    choices: newest first.
    """
    job = answer.job
    newest = next((one for one in choices if job is not None and job.id in one.jobs), None)
    if newest is None or (newest.outcome and newest.name != NOTHING):
        return answer
    if newest.name == NOTHING:
        return answer.model_copy(update={"detail": _joined(answer.detail, f"scaling does not help: {newest.reason}")})
    return answer.model_copy(update={"cure": _joined(f"scaling is at it ({newest.id}): {newest.reason}", answer.cure)})


def _joined(first: str, second: str) -> str:
    return "; ".join(part for part in (first, second) if part)
