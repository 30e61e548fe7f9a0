"""Workers that make calls while their service leads, a bounded number at a time.

Calls become requests, and answers outcomes. Each is sent once: who asked decides whether to ask again.
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
"""Until a call is sent again whose credentials were refused: they may be renewed in their file."""
_KNOWN = {value.title: value for value in vars(resources).values() if isinstance(value, Resource)}


def resource_of(kind: Kind) -> Resource:
    """Where objects of this kind are. Raises KeyError for one that `muster.kube.resources` does not know."""
    return _KNOWN[kind.value]


async def perform(connection: KubeConnection, call: Call) -> Outcome:
    """Send it once. Raises nothing that an API server can bring about."""
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
"""While the API server does not answer no call is begun for so long: the first time, and at most."""
IN_A_ROW = 8
"""So many calls with errors of the server itself, and not one good answer between them, are an outage as well."""


class Work(Protocol):
    """Where calls come from."""

    def take(self, now: Instant) -> Task | None:
        """The next call to make."""
        ...

    def finished(self, task: Task, outcome: Outcome, now: Instant) -> None:
        """What came of it."""
        ...

    def outage(self, now: Instant) -> None:
        """The API server does not answer."""
        ...


class Workers:
    """most: calls at a time. may_write: whether the service leads, at this very moment. after: called after each call.

    made: calls so far; unanswered: of these, without an answer; under_way: at this moment.
    """

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
        self.under_way = 0
        self.made = 0
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
        """Until it is cancelled. Raises an ExceptionGroup of what the work raised."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(self._most):
                tasks.create_task(self._one())

    def feed(self) -> None:
        """Give calls that wait to workers that do not work."""
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
            if self._may_write():  # asked again: the process may have stood still since the call was given
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
        """While the API server does not answer, no more than a round of calls asks it now and then."""
        if not isinstance(outcome, Unanswered):
            if self._rest_s:
                _logger.warning("the API server answers again")
            self._rest_s = 0.0
            self._in_a_row.clear()
            return
        self.unanswered += 1
        self._in_a_row.add(purpose)
        if outcome.reached and len(self._in_a_row) < IN_A_ROW:
            return  # what concerns one call alone is waited for by that call alone
        loop_s = asyncio.get_running_loop().time()
        if loop_s < self._rests_until_s:
            return
        if not self._rest_s:
            _logger.warning("the API server does not answer: %s", outcome.message)
        self._rest_s = min(REST_S_MAX, max(REST_S_MIN, 2 * self._rest_s))
        self._rests_until_s = loop_s + self._rest_s
        self._work.outage(self._now())
