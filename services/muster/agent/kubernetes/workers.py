"""Workers that make calls while their service leads, a bounded number at a time.

Calls become requests, and answers outcomes. Each call is sent once: its owner decides whether to repeat it.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Protocol

from muster.agent.core.kubernetes.calls import (
    Bind,
    Call,
    Create,
    Delete,
    Done,
    Evict,
    Kind,
    Merge,
    Outcome,
    Read,
    Refused,
    Replace,
    Unanswered,
)
from muster.agent.core.kubernetes.worklist import Purpose, Task
from muster.core import Instant
from muster.kube import resources
from muster.kube.connection import KubeConnection
from muster.kube.errors import KubeConfigError, KubeError, TooManyRequestsError, UnauthorizedError, UnavailableError
from muster.kube.objects import JsonObject
from muster.kube.resources import PODS, Resource
from muster.kube.shapes import Patch

UNAUTHORIZED_S = 5.0
"""Before a call with refused credentials is repeated: they may be renewed in their file."""
_KNOWN = {value.title: value for value in vars(resources).values() if isinstance(value, Resource)}


def resource_of(kind: Kind) -> Resource:
    """Return the resource of a kind. Raises KeyError for one that `muster.kube.resources` lacks."""
    return _KNOWN[kind.value]


async def perform(connection: KubeConnection, call: Call) -> Outcome:
    """Send a call once and return its outcome. Errors of the API server become outcomes."""
    try:
        return Done(await _sent(connection, call))
    except TooManyRequestsError as error:
        if error.by_budget:
            return Refused(error.code, error.reason, str(error))
        return Unanswered(str(error), error.retry_after_s, reached=True)
    except UnavailableError as error:
        return Unanswered(str(error), error.retry_after_s, reached=bool(error.code))
    except UnauthorizedError as error:
        return Unanswered(str(error), UNAUTHORIZED_S, reached=True)
    except KubeConfigError as error:
        return Unanswered(str(error), UNAUTHORIZED_S)
    except KubeError as error:
        return Refused(error.code or HTTPStatus.BAD_REQUEST, error.reason, str(error))


async def _sent(connection: KubeConnection, call: Call) -> JsonObject:
    match call:
        case Create():
            return await connection.create(
                resource_of(call.kind), call.body, namespace=call.namespace, metadata_only=call.brief
            )
        case Bind():
            body = _binding(call)
            return await connection.create_subresource(PODS, call.name, "binding", body, namespace=call.namespace)
        case Delete():
            return await connection.delete(
                resource_of(call.kind), call.name, namespace=call.namespace, uid=call.uid, grace_s=call.grace_s
            )
        case Evict():
            body = _eviction(call)
            return await connection.create_subresource(PODS, call.name, "eviction", body, namespace=call.namespace)
        case Replace():
            return await connection.replace(
                resource_of(call.kind), call.name, call.body, namespace=call.namespace, subresource=call.subresource
            )
        case Merge():
            return await connection.patch(
                resource_of(call.kind),
                call.name,
                call.body,
                kind=Patch.MERGE,
                namespace=call.namespace,
                subresource=call.subresource,
            )
        case Read():
            return await connection.get(resource_of(call.kind), call.name, namespace=call.namespace)


def _binding(call: Bind) -> JsonObject:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": call.name, "namespace": call.namespace, "uid": call.uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": call.node},
    }


def _eviction(call: Evict) -> JsonObject:
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": call.name, "namespace": call.namespace},
        "deleteOptions": {"gracePeriodSeconds": call.grace_s, "preconditions": {"uid": call.uid}},
    }


_logger = logging.getLogger(__name__)

REST_S_MIN, REST_S_MAX = 0.5, 5.0
"""Pause before the next call while the API server does not answer: the first, and the longest."""
IN_A_ROW = 8
"""Consecutive server errors without a good answer that count as an outage."""


class Work(Protocol):
    """The source of calls."""

    def take(self, now: Instant) -> Task | None:
        """Return the next call to make."""
        ...

    def finished(self, task: Task, outcome: Outcome, now: Instant) -> None:
        """Take the outcome of a call."""
        ...

    def outage(self, now: Instant) -> None:
        """Handle that the API server does not answer."""
        ...


class Workers:
    """Runs at most `most` calls at a time while `may_write` returns True; `after` is called after each call."""

    def __init__(
        self,
        work: Work,
        perform: Callable[[Call], Awaitable[Outcome]],
        *,
        most: int,
        may_write: Callable[[], bool],
        now: Callable[[], Instant],
        after: Callable[[], None],
    ) -> None:
        self.unanswered = 0
        """Calls without an answer."""
        self.under_way = 0
        """Calls in progress."""
        self.made = 0
        """All calls made."""
        self._work = work
        self._perform = perform
        self._most = most
        self._may_write = may_write
        self._now = now
        self._after = after
        self._idle: deque[asyncio.Future[Task]] = deque()
        self._in_a_row: set[Purpose] = set()
        self._rest_s = 0.0
        self._rests_until_s = 0.0

    async def run(self) -> None:
        """Run until cancelled. Raises an ExceptionGroup of errors of the work."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(self._most):
                tasks.create_task(self._one())

    def feed(self) -> None:
        """Give waiting calls to idle workers."""
        while self._idle and self._is_open():
            task = self._work.take(self._now())
            if task is None:
                return
            self._idle.popleft().set_result(task)

    def _is_open(self) -> bool:
        return asyncio.get_running_loop().time() >= self._rests_until_s and self._may_write()

    async def _one(self) -> None:
        while True:
            task = await self._next()
            if self._may_write():  # checked again: the process may have been paused since the call was taken
                self.under_way += 1
                try:
                    outcome = await self._perform(task.call)
                finally:
                    self.under_way -= 1
                self.made += 1
                self._rest(task.purpose, outcome)
            else:
                outcome = Unanswered("another leads")
            self._work.finished(task, outcome, self._now())
            self._after()

    async def _next(self) -> Task:
        if self._is_open():
            task = self._work.take(self._now())
            if task is not None:
                return task
        given: asyncio.Future[Task] = asyncio.get_running_loop().create_future()
        self._idle.append(given)
        return await given

    def _rest(self, purpose: Purpose, outcome: Outcome) -> None:
        """Pause new calls while the API server does not answer, after one round of calls at a time."""
        if not isinstance(outcome, Unanswered):
            if self._rest_s:
                _logger.warning("the API server answers again")
            self._rest_s = 0.0
            self._in_a_row.clear()
            return
        self.unanswered += 1
        self._in_a_row.add(purpose)
        if outcome.reached and len(self._in_a_row) < IN_A_ROW:
            return  # an error of one call delays only that call
        loop_s = asyncio.get_running_loop().time()
        if loop_s < self._rests_until_s:
            return
        if not self._rest_s:
            _logger.warning("the API server does not answer: %s", outcome.message)
        self._rest_s = min(REST_S_MAX, max(REST_S_MIN, 2 * self._rest_s))
        self._rests_until_s = loop_s + self._rest_s
        self._work.outage(self._now())
