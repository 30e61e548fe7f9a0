"""Why a job waits, with what the scaler does about it, or the federation says of it. Pure."""

from collections.abc import Sequence

from muster.schemas.job import Phase
from muster.schemas.members import AssignmentView
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


def without_cluster(answer: WhyAnswer, found: AssignmentView) -> WhyAnswer:
    """The answer for a job that no scheduler knows, with what the federation says of it."""
    if found.waiting:
        cure = _CURES.get(found.waiting, "")
        return answer.model_copy(update={"reason": found.waiting, "detail": found.detail, "cure": cure})
    if found.cluster:
        detail = f"it was sent to cluster {found.cluster}, which has not said that it has it"
        return answer.model_copy(update={"detail": _joined(detail, found.rule)})
    return answer


_CURES = {
    "team-limit": "wait until jobs of the team end, or have its limit over all clusters raised (muster routes set)",
    "overflow": "wait until fewer jobs wait in those clusters, or have the rule lead to another one",
    "no-cluster": "have a cluster resumed (muster cluster resume), or wait until a lost one answers again",
    "leased": "wait: it goes elsewhere once the lost cluster has ended it",
    "unknown-cluster": "have the cluster entered in federation.clusters; or cancel the job, if no cluster has it yet",
    "settling": "wait a minute: it goes on where it was, or elsewhere",
}


def _joined(first: str, second: str) -> str:
    return "; ".join(part for part in (first, second) if part)
