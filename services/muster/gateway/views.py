"""Read a job from the read model, then the scheduler, then FED; and explain why a job waits."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from muster.bus.clock import TimeSource
from muster.gateway.ports import Known, ReadView, RequestLog, Scheduler, StoredJob, UnreachableError
from muster.gateway.problems import ProblemError, not_found, unavailable
from muster.schemas.job import Phase
from muster.schemas.members import AssignmentView
from muster.schemas.queries import ScaleChoiceView, WhyAnswer
from muster.schemas.views import JobView, job_view

PROJECTION_WAIT_S = 1.0  # time to wait for the projection of a just submitted job
PROJECTION_POLL_S = 0.02

NOTHING = "nothing-chosen"


@dataclass(frozen=True, slots=True)
class Views:
    """Looks a job up in all sources."""

    view: ReadView
    scheduler: Scheduler
    log: RequestLog
    time: TimeSource

    async def job(self, job_id: str) -> bytes:
        """Return a job's row, encoded. Raises ProblemError: 404 if it was never submitted, 410 if its row was
        dropped."""
        known = await self._known(job_id)
        if known is not None and known.row is not None:
            return known.row
        try:
            stored = await self.log.submitted(job_id)
        except UnreachableError as error:
            if (view := await self._ask_scheduler(job_id)) is not None:
                return view.encoded()
            raise unavailable(str(error)) from error
        if stored is None:
            if (view := await self._ask_scheduler(job_id)) is not None:
                return view.encoded()
            raise not_found("job", job_id)
        return await self._submitted(stored, known)

    async def job_view(self, job_id: str) -> JobView:
        """Return a job's row, decoded."""
        return JobView.model_validate_json(await self.job(job_id))

    async def _submitted(self, stored: StoredJob, known: Known | None) -> bytes:
        """Return a submitted job that the read model does not show (yet)."""
        deadline_s = self.time.monotonic_s() + PROJECTION_WAIT_S
        while known is not None and known.fed_seq < stored.seq and self.time.monotonic_s() < deadline_s:
            await asyncio.sleep(PROJECTION_POLL_S)
            known = await self._known(stored.job.id)
            if known is not None and known.row is not None:
                return known.row
        if (view := await self._ask_scheduler(stored.job.id)) is not None:
            return view.encoded()
        if known is not None and known.fed_seq >= stored.seq:
            known = await self._known(stored.job.id)  # it may have been projected since the last read
            if known is not None and known.row is not None:
                return known.row
            raise ProblemError(
                410,
                "Gone",
                detail=f"job {stored.job.id} ended, and its row is no longer kept",
                field="job",
                cure="Its facts are in the log's archive.",
            )
        return as_submitted(stored).encoded()

    async def _known(self, job_id: str) -> Known | None:
        try:
            return await self.view.job(job_id)
        except UnreachableError:
            return None

    async def _ask_scheduler(self, job_id: str) -> JobView | None:
        try:
            return await self.scheduler.job(job_id)
        except UnreachableError:
            return None


def as_submitted(stored: StoredJob) -> JobView:
    """Return the view of a job as it was when it was submitted."""
    return job_view(stored.job, submitted_at=stored.submitted_at)


def waits(answer: WhyAnswer) -> bool:
    """Return whether the job waits for capacity, so that scaling may help."""
    return answer.job is not None and answer.job.phase is Phase.QUEUED and not answer.job.held


def with_scaling(answer: WhyAnswer, choices: Sequence[ScaleChoiceView]) -> WhyAnswer:
    """Return the scheduler's answer with the newest scaling decision for the job, if under way or without effect.

    choices: newest first.
    """
    job = answer.job
    newest = next((one for one in choices if job is not None and job.id in one.jobs), None)
    if newest is None or (newest.outcome and newest.name != NOTHING):
        return answer
    if newest.name == NOTHING:
        return answer.model_copy(update={"detail": _joined(answer.detail, f"scaling does not help: {newest.reason}")})
    return answer.model_copy(
        update={"cure": _joined(f"scaling is under way ({newest.id}): {newest.reason}", answer.cure)}
    )


def without_cluster(answer: WhyAnswer, found: AssignmentView) -> WhyAnswer:
    """Return the answer for a job that no scheduler knows, with the federation's reason."""
    if found.waiting:
        cure = _CURES.get(found.waiting, "")
        return answer.model_copy(update={"reason": found.waiting, "detail": found.detail, "cure": cure})
    if found.cluster:
        detail = f"it was assigned to cluster {found.cluster}, which has not confirmed it yet"
        return answer.model_copy(update={"detail": _joined(detail, found.rule)})
    return answer


_CURES = {
    "team-limit": "wait until jobs of the team end, or raise its limit over all clusters (muster routes set)",
    "overflow": "wait until fewer jobs wait in those clusters, or add another cluster to the rule",
    "no-cluster": "resume a cluster (muster cluster resume), or wait until a lost cluster is connected again",
    "leased": "wait: the job is rerouted once its lease in the lost cluster has ended",
    "unknown-cluster": "add the cluster to federation.clusters; or cancel the job, if no cluster has it yet",
    "settling": "wait a minute: the job continues where it was, or is rerouted",
}


def _joined(first: str, second: str) -> str:
    return "; ".join(part for part in (first, second) if part)
