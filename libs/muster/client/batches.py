"""Many jobs in few requests."""

import asyncio
from collections.abc import Iterator, Sequence

from pydantic import BaseModel

from muster.client.bodies import own_key, sent
from muster.client.errors import RefusedError, UnavailableError, refusal
from muster.client.http import TOO_MANY, Door
from muster.schemas.base import BODY_BYTES_MAX
from muster.schemas.job import JobSpec
from muster.schemas.views import JobView, SubmitAnswer

JOBS_PER_REQUEST = 100
"""Enough that a request's own cost does not count, few enough that nobody waits long for the first answer."""


class _Answers(BaseModel):
    answers: list[SubmitAnswer]


class BatchMethods:
    """What `Muster` can do with many jobs at once."""

    _door: Door

    async def submit_many(
        self, specs: Sequence[JobSpec], *, idempotency_key: str | None = None, first: int = 1
    ) -> list[JobView | RefusedError]:
        """Submit jobs; what became of each, in their order: one that is refused keeps no other from being accepted.

        The n-th has the key `KEY-n`, so that the same list again is the same jobs; first: number of the first, where
        the caller sends a longer list in parts.
        """
        headers = {"Idempotency-Key": idempotency_key} if idempotency_key else own_key()
        outcomes: list[JobView | RefusedError] = []
        for lines in _requests(specs):
            outcomes += await self._submit_lines(lines, first=first + len(outcomes), headers=headers)
        return outcomes

    async def _submit_lines(
        self, lines: Sequence[bytes], *, first: int, headers: dict[str, str]
    ) -> list[JobView | RefusedError]:
        """Sent again as a whole while some cannot be stored now: those that were accepted are so once."""
        retry, untold = self._door.retry, ""
        for attempt in range(1, retry.attempts + 1):
            body = await self._door.ask(
                "POST",
                "/v1/jobs/batch",
                params={"first": first},
                body=b"\n".join(lines),
                headers={**headers, "Content-Type": "application/x-ndjson"},
            )
            answers = _Answers.model_validate_json(body).answers
            untold = next((one.problem.detail for one in answers if one.problem and one.status >= 500), "")
            waits_s = [one.problem.retry_after_s for one in answers if one.problem and one.status == TOO_MANY]
            if not untold and not waits_s:
                return [_outcome(one) for one in answers]
            if attempt < retry.attempts:
                await asyncio.sleep(retry.wait_s(attempt, asked_s=max(waits_s, default=0)))
            elif not untold:
                return [_outcome(one) for one in answers]
        raise UnavailableError(untold)


def _outcome(answer: SubmitAnswer) -> JobView | RefusedError:
    if answer.job is not None:
        return answer.job
    assert answer.problem is not None, "an answer is a job or a problem"
    return refusal(answer.problem)


def _requests(specs: Sequence[JobSpec]) -> Iterator[list[bytes]]:
    """The lines of each request: a bounded number of jobs, and of bytes unless one job alone has more."""
    lines: list[bytes] = []
    size = 0
    for spec in specs:
        line = sent(spec)
        if lines and (len(lines) == JOBS_PER_REQUEST or size + len(line) >= BODY_BYTES_MAX):
            yield lines
            lines, size = [], 0
        lines.append(line)
        size += len(line) + 1
    if lines:
        yield lines
