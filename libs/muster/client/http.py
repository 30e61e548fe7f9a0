"""One request to the gateway: bounded retries, and answers or typed errors."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass

import httpx
from pydantic import ValidationError

from muster.client.errors import UnreachableError, refusal
from muster.schemas.views import Problem

ATTEMPTS_MAX = 5
RETRY_S_FIRST = 0.1
RETRY_S_MAX = 2.0
TIMEOUT_S = 10.0
CONNECTIONS_MAX = 64
_TRY_AGAIN = frozenset({502, 503, 504})


@dataclass(frozen=True, slots=True)
class Retry:
    """How often a request is tried, and the wait after the first failure in seconds (doubled each time)."""

    attempts: int = ATTEMPTS_MAX
    first_s: float = RETRY_S_FIRST
    most_s: float = RETRY_S_MAX

    def wait_s(self, failures: int) -> float:
        """Wait after so many failures in a row."""
        return min(self.first_s * 2.0 ** (failures - 1), self.most_s)


class Door:
    """The gateway's HTTP API."""

    def __init__(self, client: httpx.AsyncClient, retry: Retry) -> None:
        self.client = client
        self.retry = retry

    async def ask(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str | int] | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        """The answer's body. Every request here is safe to repeat (reads, or guarded by an idempotency key).

        Raises RefusedError, UnreachableError.
        """
        sent = {"Content-Type": "application/json", **(headers or {})} if body is not None else headers
        problem = ""
        for attempt in range(1, self.retry.attempts + 1):
            try:
                answer = await self.client.request(method, path, params=params, content=body, headers=sent)
            except httpx.TransportError as error:
                problem = f"{self.client.base_url} does not answer: {str(error) or type(error).__name__}"
            else:
                if answer.status_code < 400:
                    return answer.content
                if answer.status_code not in _TRY_AGAIN:
                    raise_for(answer.status_code, answer.content)
                problem = _problem(answer.status_code, answer.content).detail or f"status {answer.status_code}"
            if attempt < self.retry.attempts:
                await asyncio.sleep(self.retry.wait_s(attempt))
        raise UnreachableError(problem)


def raise_for(status: int, body: bytes) -> None:
    """Raises RefusedError for a 4xx, UnreachableError for anything else."""
    problem = _problem(status, body)
    if 400 <= status < 500:
        raise refusal(problem)
    raise UnreachableError(f"{status} {problem.title}: {problem.detail}")


def _problem(status: int, body: bytes) -> Problem:
    try:
        return Problem.model_validate(json.loads(body))
    except (ValueError, ValidationError):  # something between us and the gateway answered
        return Problem(title="Refused", status=status, detail=body[:200].decode(errors="replace"))
