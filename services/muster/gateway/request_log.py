"""Store requests as facts in FED: single messages; `submitted` is guarded by its own subject."""

import nats.errors
from nats.aio.client import Client

from muster.bus.batches import Writer
from muster.bus.clock import SystemTime, TimeSource
from muster.bus.decode import read_stored
from muster.bus.jsapi import last_on_subject, next_on_subject
from muster.bus.ports import ApiError, FactRefusedError, LogUnavailableError
from muster.bus.requests import Outcome, Single, publish
from muster.bus.tracing import NoTracing, Tracing
from muster.core.fact import Draft, Fact
from muster.core.instant import Instant
from muster.gateway.ports import JobRef, JobRequest, NotStoredError, StoredJob, UnreachableError
from muster.schemas import ids
from muster.schemas.facts.composability import ComposeRequested, DecomposeRequested, DetachRequested
from muster.schemas.facts.job import JobCancelRequested, JobSubmitted
from muster.schemas.facts.queue import QueueChangeRequested
from muster.schemas.facts.reservation import ReserveEndRequested, ReserveRequested
from muster.schemas.facts.workload import JobRefused
from muster.schemas.job import Job
from muster.schemas.subjects import FED_LOG, fact_subject
from muster.schemas.views import JobView

APPEND_TIMEOUT_S = 2.0
LOOKUP_TIMEOUT_S = 2.0
APPENDS_MAX = 3  # attempts of one message, while its outcome is unknown
SUBMITS_MAX = 3  # attempts of one submission, past messages on its subject that are not jobs
SQUATTERS_MAX = 16
"""Maximum number of messages on one subject that are not facts and are skipped in the search for a fact."""

SERVICE = "gateway"
_REQUESTS = (
    QueueChangeRequested, ReserveRequested, ReserveEndRequested, ComposeRequested, DecomposeRequested, DetachRequested
)  # fmt: skip


class NatsRequestLog:
    """Implements `RequestLog` with FED over NATS."""

    def __init__(self, client: Client, *, time: TimeSource | None = None, tracing: Tracing | None = None) -> None:
        self._client = client
        self._time = time or SystemTime()
        self._tracing = tracing or NoTracing()
        self._writer = Writer(FED_LOG, SERVICE)

    async def submit(self, job: Job) -> StoredJob:
        """Store `submitted` unless the job is stored already; return the job as stored.

        The guard (no message yet on this job's subject) makes a retry safe for as long as FED keeps the job, so an
        unknown outcome is resolved by sending the same message again, or by a look-up. A message that is not a
        submitted job does not block the subject: the guard is then that no message follows it.
        """
        draft = Draft("job", job.id, "submitted", JobSubmitted(job=job), trace=job.trace)
        fact_id = ids.request_fact_id("submitted", job.id, job.body_hash)
        result, guard_seq = Single(Outcome.UNAVAILABLE), 0
        for _ in range(SUBMITS_MAX):
            result = await self._append(draft, fact_id, expect_new=not guard_seq, expect_last=guard_seq)
            if result.outcome is Outcome.STORED:
                return StoredJob(job, result.seq, 0, is_new=True)
            if result.outcome is Outcome.FULL:
                raise NotStoredError(f"the federation's log is full: {result.detail}")
            stored, newest_seq = await self._look_up(job.id)
            if stored is not None:
                return stored
            if result.outcome is not Outcome.EXISTS or newest_seq == guard_seq:
                break
            guard_seq = newest_seq
        raise NotStoredError(f"the federation's log did not answer: {result.detail}")

    async def submitted(self, job_id: str) -> StoredJob | None:
        """Return the job as it was submitted; None if it never was."""
        try:
            return (await self._look_up(job_id))[0]
        except NotStoredError as error:
            raise UnreachableError(str(error)) from error

    async def request_cancel(self, job: JobView | JobRef, payload: JobCancelRequested) -> None:
        """Store `cancel-requested`."""
        draft = Draft("job", job.id, "cancel-requested", payload, trace=job.trace)
        await self._store(draft, ids.request_fact_id("cancel-requested", job.id, payload.principal))

    async def refuse(self, job: JobRef, payload: JobRefused) -> None:
        """Store `refused`, once for each request of the object."""
        draft = Draft("job", job.id, "refused", payload, trace=job.trace)
        await self._store(draft, ids.request_fact_id("refused", job.id, payload.wish))

    async def is_refused(self, job_id: str, request: str) -> bool:
        """Return whether the newest `refused` of the job answers the request `wish`."""
        try:
            refused, _ = await self._newest(job_id, "refused")
        except NotStoredError as error:
            raise UnreachableError(str(error)) from error
        return refused is not None and isinstance(refused.payload, JobRefused) and refused.payload.wish == request

    async def request_of_job(self, job: JobView, asked: JobRequest, *, key: str) -> None:
        """Store a request about a job. The same key with another priority is another request."""
        name, payload = f"{asked.ask}-requested", asked.payload
        draft = Draft("job", job.id, name, payload, trace=job.trace)
        await self._store(draft, ids.request_fact_id(name, job.id, payload.principal, key, payload.model_dump_json()))

    async def request(self, asked: Draft, *, key: str) -> None:
        """Store a request. The same key with another specification of devices changes the request."""
        payload = asked.payload
        assert isinstance(payload, _REQUESTS), f"{asked.name} is no request"
        wanted = (payload.spec.model_dump_json(),) if isinstance(payload, ComposeRequested) else ()
        await self._store(asked, ids.request_fact_id(asked.name, asked.subject_id, payload.principal, key, *wanted))

    async def request_operation(self, asked: Draft, *, key: str) -> None:
        """Store an operation. The same key with another body is another request."""
        body = asked.payload.model_dump_json()
        await self._store(asked, ids.request_fact_id(asked.kind, asked.subject_id, asked.name, key, body))

    async def _store(self, draft: Draft, fact_id: str, *, expect_new: bool = False) -> None:
        result = await self._append(draft, fact_id, expect_new=expect_new)
        if result.outcome not in (Outcome.STORED, Outcome.EXISTS):
            raise NotStoredError(f"the federation's log did not take the request: {result.detail}")

    async def _append(self, draft: Draft, fact_id: str, *, expect_new: bool, expect_last: int = 0) -> Single:
        message = self._writer.write(draft, fact_id)
        result = Single(Outcome.UNAVAILABLE)
        started = self._time.wall()
        for _ in range(APPENDS_MAX):
            try:
                result = await publish(
                    self._client, message, expect_new=expect_new, expect_last=expect_last, timeout_s=APPEND_TIMEOUT_S
                )
            except (ApiError, FactRefusedError) as error:
                raise NotStoredError(str(error)) from error
            if result.outcome is not Outcome.UNAVAILABLE or not self._client.is_connected:
                break
        if self._tracing.enabled and result.outcome is Outcome.STORED:
            self._trace(draft, fact_id, seq=result.seq, started=started)
        return result

    def _trace(self, draft: Draft, fact_id: str, *, seq: int, started: Instant) -> None:
        """Record the span of a stored request, which is not folded here: of a submission, the root of the trace."""
        fact = Fact(
            id=fact_id,
            seq=seq,
            time=self._time.wall(),
            cluster="",
            writer=SERVICE,
            kind=draft.kind,
            subject_id=draft.subject_id,
            name=draft.name,
            causes=draft.causes,
            trace=draft.trace,
            payload=draft.payload,
        )
        self._tracing.own_facts((fact,), start_ns=started)

    async def _look_up(self, job_id: str) -> tuple[StoredJob | None, int]:
        """Return the job as submitted, and the sequence of the newest message on its subject, 0 if there is none."""
        fact, newest_seq = await self._newest(job_id, "submitted")
        if fact is None or not isinstance(fact.payload, JobSubmitted):
            return None, newest_seq
        return StoredJob(fact.payload.job, fact.seq, fact.time, is_new=False), newest_seq

    async def _newest(self, job_id: str, name: str) -> tuple[Fact | None, int]:
        """Return the newest fact of this name about the job, and the sequence of the newest message there.

        If the newest message is not a fact, return the first fact before it. Raises NotStoredError while the
        outcome is unknown.
        """
        subject = fact_subject(FED_LOG, writer=SERVICE, kind="job", subject_id=job_id, name=name)
        try:
            newest = await last_on_subject(self._client, FED_LOG.stream, subject, timeout_s=LOOKUP_TIMEOUT_S)
            if newest is None:
                return None, 0
            message, looked_at = newest, 0
            while not isinstance(fact := read_stored(FED_LOG, message), Fact):
                looked_at += 1
                after_seq = 0 if message is newest else message.seq
                found = await next_on_subject(self._client, FED_LOG.stream, subject, after_seq=after_seq)
                if found is None or found.seq >= newest.seq:
                    return None, newest.seq
                if looked_at >= SQUATTERS_MAX:
                    raise NotStoredError(
                        f"{SQUATTERS_MAX} messages on {subject} are not facts; their writer lacks the permission"
                    )
                message = found
        except (LogUnavailableError, ApiError, nats.errors.Error) as error:
            raise NotStoredError(f"the federation's log does not answer: {error}") from error
        return fact, newest.seq
