"""The read side: the read model, then the scheduler, then what FED says of the submission."""

import asyncio
from dataclasses import dataclass

from muster.bus.clock import TimeSource
from muster.gateway.ports import Known, ReadView, RequestLog, Scheduler, StoredJob, UnreachableError
from muster.gateway.problems import ProblemError, not_found, unavailable
from muster.schemas.views import JobView, job_view

PROJECTION_WAIT_S = 1.0  # how long a job that was just submitted may take to be projected
PROJECTION_POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class Views:
    """Where a job is looked for."""

    view: ReadView
    scheduler: Scheduler
    log: RequestLog
    time: TimeSource

    async def job(self, job_id: str) -> bytes:
        """A job's row, encoded. Raises ProblemError: 404 only for what was never submitted, 410 if it was dropped."""
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
        """The same, decoded."""
        return JobView.model_validate_json(await self.job(job_id))

    async def _submitted(self, stored: StoredJob, known: Known | None) -> bytes:
        """It was submitted, and the read model does not show it (yet)."""
        deadline_s = self.time.monotonic_s() + PROJECTION_WAIT_S
        while known is not None and known.fed_seq < stored.seq and self.time.monotonic_s() < deadline_s:
            await asyncio.sleep(PROJECTION_POLL_S)
            known = await self._known(stored.job.id)
            if known is not None and known.row is not None:
                return known.row
        if (view := await self._ask_scheduler(stored.job.id)) is not None:
            return view.encoded()
        if known is not None and known.fed_seq >= stored.seq:
            known = await self._known(stored.job.id)  # it may have come between the two looks
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
    """The job as it stood when it was submitted."""
    return job_view(stored.job, submitted_at=stored.submitted_at)
