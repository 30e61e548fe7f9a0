"""Looks at the API servers of one cluster: metrics of each, flow control, pods, and who lists."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from typing import Self

from muster.core import Instant
from muster.guard.audit import AuditReceiver, Listed, read_tls, read_token
from muster.guard.core.clients import ClientTally
from muster.guard.core.config import GuardConfig
from muster.guard.core.dump import Request
from muster.guard.core.flow import LEVEL, level_of
from muster.guard.core.flow_plan import FlowPlan, flow_plan, server_seats_of
from muster.guard.core.look import Look, Replica
from muster.guard.flow_writing import write
from muster.guard.limits import DUMP_ROWS_MAX, DUMP_S, SETTLE_POLL_S, SETTLE_S_MAX
from muster.guard.replicas import Place, Replicas, find_replicas
from muster.guard.scraping import ReplicaScraper
from muster.guard.watches import Watches
from muster.kube.connection import KubeConnection, user_agent_of
from muster.kube.errors import KubeConfigError, KubeError
from muster.kube.objects import JsonObject, text

_AUDIT, _REQUESTS = "audit", "requests"


class Lookout:
    """Opened for one term, or for one command. now: the moment of a look and of what is counted.

    on_flow: called when flow-control objects changed. As a context manager; entering raises KubeConfigError, and
    AuditPortError where it cannot listen for the audit webhook.
    """

    def __init__(
        self,
        place: Place,
        config: GuardConfig,
        *,
        version: str,
        now: Callable[[], Instant],
        on_flow: Callable[[], None] = lambda: None,
    ) -> None:
        self._place, self._config, self._version = place, config, version
        self._now, self._on_flow = now, on_flow
        self._stack = AsyncExitStack()
        self._clients = ClientTally()
        self._seen: dict[tuple[str, str], None] = {}
        self._requests_error = ""
        self._tasks: list[asyncio.Task[None]] = []
        self.audit: AuditReceiver | None = None

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await self._open(stack)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def _open(self, stack: AsyncExitStack) -> None:
        place, user_agent = self._place, user_agent_of("guard", self._version)
        self.connection = await KubeConnection.open(
            kubeconfig=place.kubeconfig,
            context=place.context,
            user_agent=user_agent,
            connection_age_s_max=place.connection_age_s,
        )
        stack.push_async_callback(self.connection.close)
        self._replicas: Replicas = await find_replicas(self.connection, place, user_agent=user_agent)
        for scraper in self._replicas.scrapers:
            stack.push_async_callback(scraper.close)
        self._watches = Watches(self.connection, on_flow=self._on_flow)
        if place.audit_port:
            token = await asyncio.to_thread(read_token, place.audit_token)
            tls = await asyncio.to_thread(read_tls, place.audit_tls)
            self.audit = AuditReceiver(
                host=place.audit_host, port=place.audit_port, take=self._listed, token=token, tls=tls
            )
            stack.push_async_callback(self.audit.close)
            await self.audit.start()
        running = self._watches.running()
        if self.audit is None:
            running += [self._watch_requests(scraper) for scraper in self._replicas.scrapers]
        self._tasks = [asyncio.create_task(one) for one in running]
        stack.push_async_callback(_end, self._tasks)
        await self._watches.synced()

    def failure(self) -> BaseException | None:
        """What ended one of its tasks, which run for ever: credentials that can no longer be read, or a defect."""
        ended = (task for task in self._tasks if task.done() and not task.cancelled())
        return next((error for task in ended if (error := task.exception()) is not None), None)

    async def look(self) -> Look:
        """One look at everything. What does not answer is said in it."""
        look, _ = await self._look()
        return look

    def flow_objects(self) -> list[JsonObject] | None:
        """Every FlowSchema and PriorityLevelConfiguration; None if they cannot be read."""
        return self._watches.flow_objects()

    async def plan(self) -> tuple[Look, FlowPlan]:
        """A look, and what flow control would have written."""
        return await self._look()

    async def keep(self, *, leads: Callable[[], bool] = lambda: True) -> Look:
        """A look; then flow control is written where it is not as wanted, and looked at again once it shows.

        leads: asked right before writing. A refusal is told as the flows' reason.
        """
        look, plan = await self._look()
        if not (plan.writes or plan.deletes) or not leads():
            return look
        try:
            await write(self.connection, plan)
        except (KubeError, KubeConfigError) as error:
            return _refused(look, str(error))
        return _written(await self._settled())

    async def _settled(self) -> Look:
        """The first look at which everything written shows, or the last one in the time that there is."""
        end_s = asyncio.get_running_loop().time() + SETTLE_S_MAX
        while True:
            await asyncio.sleep(SETTLE_POLL_S)
            look, plan = await self._look()
            shows = not plan.writes and not plan.deletes and all(flow.is_right for flow in look.flows)
            if shows or asyncio.get_running_loop().time() > end_s:
                return look

    async def _look(self) -> tuple[Look, FlowPlan]:
        now = self._now()
        scraped = await asyncio.gather(*(scraper.scrape(now) for scraper in self._replicas.scrapers))
        replicas = tuple(replica for of_one in scraped for replica in of_one)
        found = self._watches.flow_objects()
        levels = None if found is None else tuple(level_of(one) for one in found if text(one, "kind") == LEVEL)
        server = server_seats_of(replicas, levels) if levels else None
        config = self._config
        plan = (
            FlowPlan(())
            if found is None
            else flow_plan(config.kinds, config.subjects, found, replicas=replicas, server=server)
        )
        return (
            Look(
                at=now,
                replicas=replicas,
                levels=levels,
                server=server,
                flows=plan.looks,
                clients=self._clients.rates(now),
                clients_from=_AUDIT if self.audit else "" if self._requests_error else _REQUESTS,
                pods=self._watches.pods(secrets_min=config.secrets_per_workload // 2),
                lacking=tuple(self._lacking(replicas)),
            ),
            plan,
        )

    def _lacking(self, replicas: Sequence[Replica]) -> list[str]:
        found = [self._replicas.lacking] if self._replicas.lacking else []
        found += [f"{one.name}: {one.error}" for one in replicas if one.error]
        found += self._watches.lacking()
        if self.audit is None:
            why = f": {self._requests_error}" if self._requests_error else ""
            found.append(
                f"user agents of clients are not known, since no audit webhook is set up (guard.audit_port, `muster "
                f"guard audit`); users are known from requests that were seen at work{why}"
            )
        elif not self.audit.events:
            found.append("no API server has sent an audit event yet: see `muster guard audit`")
        return found

    def _listed(self, listed: Listed) -> None:
        self._clients.add(self._now(), agent=listed.agent, user=listed.user, resource=listed.resource)

    async def _watch_requests(self, scraper: ReplicaScraper) -> None:
        """Counts each LIST that is seen at work once, however often it is seen."""
        while True:
            try:
                requests = await scraper.requests()
            except (KubeError, KubeConfigError) as error:
                self._requests_error = str(error)
            else:
                self._requests_error = ""
                self._count(requests)
            await asyncio.sleep(DUMP_S)

    def _count(self, requests: Sequence[Request]) -> None:
        for request in requests:
            key = request.arrived, request.user
            if key not in self._seen:
                self._seen[key] = None
                self._clients.add(self._now(), agent="", user=request.user, resource=request.resource)
        while len(self._seen) > 2 * DUMP_ROWS_MAX:
            del self._seen[next(iter(self._seen))]


def _refused(look: Look, reason: str) -> Look:
    return replace(look, flows=tuple(one if one.is_right else replace(one, reason=reason) for one in look.flows))


def _written(look: Look) -> Look:
    return replace(look, flows=tuple(replace(one, written=True) for one in look.flows))


async def _end(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    for task in tasks:
        with suppress(asyncio.CancelledError, Exception):  # told by `failure` while it mattered
            await task
