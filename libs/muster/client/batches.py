"""Many jobs in few requests."""

import asyncio
from collections.abc import Iterator, Sequence

from pydantic import BaseModel

from muster.client.errors import RefusedError, UnavailableError, refusal
from muster.client.http import TOO_MANY, HttpTransport, sent
from muster.schemas.base import BODY_BYTES_MAX
from muster.schemas.job import JobSpec
from muster.schemas.views import JobView, SubmitAnswer

JOBS_PER_REQUEST = 100
"""Large enough that the cost of a request is small, small enough that the first answer comes soon."""


class _Answers(BaseModel):
    answers: list[SubmitAnswer]


async def submit_in_batches(
    transport: HttpTransport, specs: Sequence[JobSpec], *, first: int, headers: dict[str, str]
) -> list[JobView | RefusedError]:
    """Submit jobs in few requests; return the outcome of each, in order.

    first: number of the first job, which the gateway appends to the idempotency key in `headers`.
    """
    outcomes: list[JobView | RefusedError] = []
    for lines in _requests(specs):
        outcomes += await _submit_lines(transport, lines, first=first + len(outcomes), headers=headers)
    return outcomes


async def _submit_lines(
    transport: HttpTransport, lines: Sequence[bytes], *, first: int, headers: dict[str, str]
) -> list[JobView | RefusedError]:
    """Send all lines again while some jobs cannot be stored now; a repeated submission has no further effect."""
    retry, untold = transport.retry, ""
    for attempt in range(1, retry.attempts + 1):
        body = await transport.request(
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
    """Return the lines of each request: a bounded number of jobs, and of bytes unless one job alone has more."""
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
