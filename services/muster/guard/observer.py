"""Observe the API servers, flow control, pods and listing clients of one cluster, and write its flow control."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from typing import Final, Self

from muster.core import Instant
from muster.guard.audit import AuditReceiver, Listed, read_tls, read_token
from muster.guard.core.clients import ClientTally, Request
from muster.guard.core.config import GuardConfig
from muster.guard.core.flow import LEVEL, MANAGER, SCHEMA, level_of
from muster.guard.core.flow_plan import FlowPlan, flow_plan, server_seats_of
from muster.guard.core.look import Look, Pods, Replica
from muster.guard.core.pods import PodView, project_pod, tally
from muster.guard.limits import DUMP_ROWS_MAX, DUMP_S, SETTLE_POLL_S, SETTLE_S_MAX, SYNC_POLL_S, SYNC_S_MAX
from muster.guard.replicas import Place, Replicas, ReplicaScraper, find_replicas
from muster.kube.connection import KubeConnection, user_agent_of
from muster.kube.errors import KubeConfigError, KubeError, NotFoundError
from muster.kube.holdings import Change
from muster.kube.objects import JsonObject, mapping, name_of, strings, text
from muster.kube.reflector import Reflector
from muster.kube.resources import FLOW_SCHEMAS, PODS, PRIORITY_LEVELS, Resource
from muster.kube.shapes import Patch, Writing
from muster.kube.sharing import OF_THIS_PROCESS

LACKING_FLOW: Final = "flow control cannot be read: {why}"
LACKING_PODS: Final = "pods cannot be read, so workloads with many secrets are not seen: {why}"


class Watches:
    """Reflectors of flow control and pods on one connection. `on_flow` is called when a flow-control object changed."""

    def __init__(self, connection: KubeConnection, *, on_flow: Callable[[], None], seed: int = 0) -> None:
        self._on_flow = on_flow
        self._levels = Reflector(
            connection, PRIORITY_LEVELS, project=_level, on_changes=self._flow_changed, seed=seed + 1
        )
        self._schemas = Reflector(
            connection, FLOW_SCHEMAS, project=_schema, on_changes=self._flow_changed, seed=seed + 2
        )
        self._pods = Reflector(
            connection,
            PODS,
            project=project_pod,
            on_changes=self._pods_changed,
            seed=seed + 3,
            shared=OF_THIS_PROCESS,  # the agent follows them, too
        )
        self._tallied: Pods | None = None

    def running(self) -> list[Coroutine[None, None, None]]:
        """Return the coroutines to run while the watches are in use."""
        return [self._levels.run(), self._schemas.run(), self._pods.run()]

    async def synced(self) -> None:
        """Wait until each kind has its first state or first error, at most SYNC_S_MAX; looks report what is missing."""
        every = (self._levels, self._schemas, self._pods)
        with suppress(TimeoutError):
            async with asyncio.timeout(SYNC_S_MAX):
                while not all(one.synced or one.figures.failures for one in every):  # noqa: ASYNC110 - no event for both
                    await asyncio.sleep(SYNC_POLL_S)

    def flow_objects(self) -> list[JsonObject] | None:
        """Return every FlowSchema and PriorityLevelConfiguration; None if they are not known."""
        if not (self._levels.synced and self._schemas.synced):
            return None
        return [obj for held in (self._levels, self._schemas) for _, obj in held.items()]

    def pods(self, *, secrets_min: int) -> Pods | None:
        """Return the tally of all pods, or None while they are unknown. Recomputed only after a change."""
        if not self._pods.synced:
            return None
        if self._tallied is None:
            self._tallied = tally((view for _, view in self._pods.items()), secrets_min=secrets_min)
        return self._tallied

    def lacking(self) -> list[str]:
        """Return one sentence for each thing that cannot be read."""
        found = []
        if self.flow_objects() is None:
            why = self._levels.figures.last_error or self._schemas.figures.last_error or "no answer yet"
            found.append(LACKING_FLOW.format(why=why))
        if not self._pods.synced:
            found.append(LACKING_PODS.format(why=self._pods.figures.last_error or "no answer yet"))
        return found

    async def _flow_changed(self, changes: list[Change[JsonObject]]) -> None:  # noqa: ARG002 - the port
        self._on_flow()

    async def _pods_changed(self, changes: list[Change[PodView]]) -> None:  # noqa: ARG002 - the port
        self._tallied = None


def _level(raw: JsonObject) -> JsonObject:
    return _kept(raw, "PriorityLevelConfiguration")


def _schema(raw: JsonObject) -> JsonObject:
    return _kept(raw, "FlowSchema")


def _kept(raw: JsonObject, kind: str) -> JsonObject:
    """Return the fields that flow_plan reads; items of a list lack their kind."""
    labels = dict(strings(raw, "metadata", "labels"))
    return {"kind": kind, "metadata": {"name": name_of(raw), "labels": labels}, "spec": mapping(raw, "spec")}


def resource_of(obj: JsonObject) -> Resource:
    """Return the resource of a FlowSchema or PriorityLevelConfiguration."""
    return FLOW_SCHEMAS if text(obj, "kind") == SCHEMA else PRIORITY_LEVELS


async def write_plan(connection: KubeConnection, plan: FlowPlan, *, dry_run: bool = False) -> None:
    """Apply all writes, then delete. Manual changes by others are overwritten (`force`). Raises KubeError."""
    writing = Writing(field_manager=MANAGER, force=True, dry_run=dry_run, strict=True)
    for obj in plan.writes:
        await connection.patch(resource_of(obj), name_of(obj), obj, kind=Patch.APPLY, writing=writing)
    if dry_run:
        return
    await remove_objects(connection, plan.deletes)


async def remove_objects(connection: KubeConnection, objects: Sequence[JsonObject]) -> None:
    """Delete objects; absent ones are ignored. Raises KubeError."""
    for obj in objects:
        try:
            await connection.delete(resource_of(obj), name_of(obj))
        except NotFoundError:
            continue


_AUDIT, _REQUESTS = "audit", "requests"


class ClusterObserver:
    """An async context manager that observes one cluster for one leader term or one command.

    Looks are stamped with `now`; `on_flow` is called when flow-control objects changed. Entering raises
    KubeConfigError, and AuditPortError if the audit receiver cannot listen.
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
        """Return the error that ended a background task: unreadable credentials or a defect. None if all run."""
        ended = (task for task in self._tasks if task.done() and not task.cancelled())
        return next((error for task in ended if (error := task.exception()) is not None), None)

    async def look(self) -> Look:
        """Look at everything once. What does not answer is reported in `lacking`."""
        look, _ = await self._look()
        return look

    def flow_objects(self) -> list[JsonObject] | None:
        """Return every FlowSchema and PriorityLevelConfiguration; None if they cannot be read."""
        return self._watches.flow_objects()

    async def plan(self) -> tuple[Look, FlowPlan]:
        """Return a look and the writes that flow control needs."""
        return await self._look()

    async def keep(self, *, leads: Callable[[], bool] = lambda: True) -> Look:
        """Look, write flow control where it differs, and look again once the change shows.

        `leads` is asked right before writing. A refused write becomes the reason of the flows.
        """
        look, plan = await self._look()
        if not (plan.writes or plan.deletes) or not leads():
            return look
        try:
            await write_plan(self.connection, plan)
        except (KubeError, KubeConfigError) as error:
            return _refused(look, str(error))
        return _written(await self._settled())

    async def _settled(self) -> Look:
        """Return the first look that shows everything written, or the last one before SETTLE_S_MAX."""
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
                f"user agents of clients are unknown: no audit webhook is set up (guard.audit_port, `muster "
                f"guard audit`); users are known from requests in flight{why}"
            )
        elif not self.audit.events:
            found.append("no API server has sent an audit event yet: see `muster guard audit`")
        return found

    def _listed(self, listed: Listed) -> None:
        self._clients.add(self._now(), agent=listed.agent, user=listed.user, resource=listed.resource)

    async def _watch_requests(self, scraper: ReplicaScraper) -> None:
        """Count each LIST seen in flight once."""
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
        with suppress(asyncio.CancelledError, Exception):  # reported by `failure` while it mattered
            await task
