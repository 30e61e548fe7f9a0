"""Watch objects that ask to run, and write the state of their jobs back to them.

A few writes at a time, and never the same twice. What is shown follows from the log and the object, so a write that is
lost, or that another leader made, does no harm. If only the explanation changes (why it waits), it is written seldom.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass

from typing_extensions import override

from muster.agent.core.workload_values import WorkloadKind, WorkloadPolicy, WorkloadView
from muster.agent.core.workloads.claim_templates import TemplateProjection, TemplateView
from muster.agent.core.workloads.objects import WorkloadProjection
from muster.agent.core.workloads.showing import (
    News,
    Showing,
    event,
    news_of,
    rejection_news,
    rejection_of,
    showing_of,
    waiting_of,
)
from muster.agent.core.workloads.workloads import Workloads
from muster.agent.kubernetes.abilities import Abilities
from muster.agent.kubernetes.parts import GrowingPart, KindWatch, Watch
from muster.bus.kubernetes_settings import KubernetesSettings
from muster.core import Fact, Instant
from muster.kube.connection import KubeConnection
from muster.kube.errors import (
    AlreadyExistsError,
    KubeConfigError,
    KubeError,
    NotFoundError,
    TooManyRequestsError,
    UnauthorizedError,
    UnavailableError,
)
from muster.kube.holdings import Change
from muster.kube.objects import JsonObject, mapping
from muster.kube.permissions import Feature
from muster.kube.resources import EVENTS, RESOURCE_CLAIM_TEMPLATES, WORKLOADS
from muster.kube.shapes import EVERYTHING, Patch, Selection
from muster.kube.workload_labels import QUEUE

WRITES_MAX = 8
"""Concurrent writes to objects; bindings have their own, larger limit."""
WORDS_S = 30.0
"""Between two writes to one object if only the explanation changed."""
AGAIN_S = 2.0
"""Before a write is repeated that failed temporarily."""
REFUSED_AGAIN_S = 300.0
"""Before a refused write is repeated, since permissions and admission rules may be fixed."""
MEMBERS_SHOWN_MAX = 64
"""Pods of one gang that show its job."""
EVENTS_REMEMBERED_MAX = 20_000

_logger = logging.getLogger(__name__)
_PASSING = (UnavailableError, TooManyRequestsError, UnauthorizedError, KubeConfigError)


@dataclass(slots=True)
class _Written:
    """The last write to an object, and its time (of the loop)."""

    said: str
    urgent: str
    at_s: float


class WorkloadWriter:
    """Writes the state of jobs to their objects."""

    def __init__(self, workloads: Workloads, *, now: Callable[[], Instant]) -> None:
        self.writes = 0
        """Patches so far."""
        self.tells_events = True
        """Whether the agent may create events."""
        self._workloads = workloads
        self._now = now
        self._written: dict[str, _Written] = {}
        self._told: dict[str, None] = {}
        self._under_way: set[str] = set()
        self._later: dict[str, asyncio.TimerHandle] = {}
        self._look = asyncio.Event()

    def look(self) -> None:
        """Look for objects whose job changed."""
        if self._workloads.changed:
            self._look.set()

    async def run(self, connection: KubeConnection) -> None:
        """Run until cancelled. Raises an ExceptionGroup of defects."""
        self._written.clear()
        async with asyncio.TaskGroup() as tasks:
            for number in range(WRITES_MAX):
                tasks.create_task(self._work(connection), name=f"workload writer {number}")

    async def _work(self, connection: KubeConnection) -> None:
        while True:
            uid = await self._next()
            self._under_way.add(uid)
            try:
                await self._show(connection, uid)
            except NotFoundError:
                pass  # it was deleted; the watch will report it
            except _PASSING as error:
                _logger.info("cannot write to an object now: %s", error)
                self._again(uid, AGAIN_S)
            except KubeError as error:
                _logger.warning("the API server refused a write to an object: %s", error)
                self._again(uid, REFUSED_AGAIN_S)
            finally:
                self._under_way.discard(uid)

    async def _next(self) -> str:
        """Return the object that changed first; one that is being written waits."""
        changed = self._workloads.changed
        while True:
            for uid in changed:
                if uid not in self._under_way:
                    del changed[uid]
                    return uid
            self._look.clear()
            if changed:  # all are being written
                await asyncio.sleep(0)
                asyncio.get_running_loop().call_later(AGAIN_S / 20, self._look.set)
            await self._look.wait()

    async def _show(self, connection: KubeConnection, uid: str) -> None:
        view = self._workloads.views.get(uid)
        if view is None:
            self._forget(uid)
            return
        wanted = self._wanted(view)
        if wanted is None:
            return
        showing, news = wanted
        last, loop_s = self._written.get(uid), asyncio.get_running_loop().time()
        if showing.said == view.shown.said or (last is not None and last.said == showing.said):
            return  # it is shown already
        if last is not None and last.urgent == showing.urgent and loop_s < last.at_s + WORDS_S:
            self._again(uid, last.at_s + WORDS_S - loop_s)
            return
        await self._write(connection, view, showing)
        self._written[uid] = _Written(showing.said, showing.urgent, loop_s)
        if news is not None and self.tells_events and news.key not in self._told:
            await self._tell(connection, view, news)

    def _wanted(self, view: WorkloadView) -> tuple[Showing, News | None] | None:
        record = self._workloads.records.get(view.uid)
        if record is not None:
            return showing_of(record, view), news_of(record)
        generation, unfit = self._workloads.rejected.get(view.uid, (-1, None))
        if unfit is None or generation < view.generation:
            note = self._workloads.waits_for(view)
            return (waiting_of(view, note), None) if note else None
        return rejection_of(unfit, view), rejection_news(unfit, view)

    async def _write(self, connection: KubeConnection, view: WorkloadView, showing: Showing) -> None:
        self.writes += 1
        is_pod = view.kind is WorkloadKind.POD
        for name, uid in self._targets(view):
            metadata: JsonObject = {
                **mapping(showing.body, "metadata"),
                "uid": uid,
            }  # not of a later object of that name
            await connection.patch(
                WORKLOADS[view.kind.value],
                name,
                {**showing.body, "metadata": metadata},
                kind=Patch.STRATEGIC if is_pod else Patch.MERGE,
                namespace=view.namespace,
                subresource=showing.subresource,
            )

    def _targets(self, view: WorkloadView) -> list[tuple[str, str]]:
        """Return names and uids of the objects that show the job."""
        if view.kind is not WorkloadKind.POD:
            return [(view.name, view.uid)]
        pods = self._workloads.gangs.pods(view.uid)[:MEMBERS_SHOWN_MAX]
        return [(pod.name, pod.uid) for pod in reversed(pods)]  # the first pod last: it marks that all are written

    async def _tell(self, connection: KubeConnection, view: WorkloadView, news: News) -> None:
        name, uid = next(reversed(self._targets(view)), (view.name, view.uid))
        body: JsonObject = event(news, view, now=self._now(), name=name, uid=uid)
        with suppress(AlreadyExistsError):  # created by an earlier leader
            await connection.create(EVENTS, body, namespace=view.namespace)
        self._told[news.key] = None
        while len(self._told) > EVENTS_REMEMBERED_MAX:
            del self._told[next(iter(self._told))]

    def _again(self, uid: str, after_s: float) -> None:
        """Look at the object again after `after_s`, or earlier if that is scheduled."""
        loop, waits = asyncio.get_running_loop(), self._later.get(uid)
        if waits is not None:
            if waits.when() <= loop.time() + after_s:
                return
            waits.cancel()

        def come() -> None:
            del self._later[uid]
            if uid in self._workloads.views:
                self._workloads.changed[uid] = None
                self._look.set()

        self._later[uid] = loop.call_later(after_s, come)

    def _forget(self, uid: str) -> None:
        """Forget an object that is gone."""
        self._written.pop(uid, None)
        waits = self._later.pop(uid, None)
        if waits is not None:
            waits.cancel()


FEATURES = {
    WorkloadKind.MUSTER_JOB: Feature.MUSTERJOBS,
    WorkloadKind.JOB: Feature.WORKLOADS,
    WorkloadKind.JOB_SET: Feature.JOBSETS,
    WorkloadKind.MPI_JOB: Feature.MPIJOBS,
}


class WorkloadsPart(GrowingPart):
    """The part for objects that ask to run. `now` dates events; `by_claims`: devices may be requested by claims."""

    def __init__(self, workloads: Workloads, *, now: Callable[[], Instant], by_claims: bool = True) -> None:
        self._workloads = workloads
        self._by_claims = by_claims
        self._writer = WorkloadWriter(workloads, now=now)

    @override
    @property
    def features(self) -> tuple[Feature, ...]:
        claims = (Feature.CLAIM_TEMPLATES,) if self._by_claims else ()
        return (*dict.fromkeys(FEATURES.values()), *claims, Feature.EVENTS)

    @override
    def watches(self, abilities: Abilities) -> Sequence[Watch]:
        """Watch MusterJobs, and objects of other kinds that carry the queue's label."""
        kinds = tuple(kind for kind, feature in FEATURES.items() if abilities.has(feature))
        self._workloads.watched = kinds
        self._workloads.takes_pods = abilities.has(Feature.WORKLOADS)
        self._writer.tells_events = abilities.has(Feature.EVENTS)
        reads_templates = self._by_claims and abilities.has(Feature.CLAIM_TEMPLATES)
        self._workloads.templates.may_read = reads_templates
        return (*((self._template_watch(),) if reads_templates else ()), *map(self._watch, kinds))

    @property
    def late_features(self) -> tuple[Feature, ...]:
        """Return the kinds whose definitions may be installed later."""
        claims = (Feature.CLAIM_TEMPLATES,) if self._by_claims else ()
        return (Feature.MUSTERJOBS, Feature.JOBSETS, Feature.MPIJOBS, *claims)

    @override
    def later(self, features: Collection[Feature]) -> Sequence[Watch]:
        kinds = tuple(_kinds_of(features) - frozenset(self._workloads.watched))
        self._workloads.watched += kinds
        reads_templates = Feature.CLAIM_TEMPLATES in features and not self._workloads.templates.may_read
        if reads_templates:
            self._workloads.templates.may_read = True
        return (*((self._template_watch(),) if reads_templates else ()), *map(self._watch, kinds))

    @override
    def later_synced(self, features: Collection[Feature]) -> None:
        for kind in _kinds_of(features):
            self._workloads.read(kind)

    async def run(self, connection: KubeConnection) -> None:
        """Write the state of jobs to objects."""
        await self._writer.run(connection)

    @override
    def after_fold(self, facts: Sequence[Fact], now: Instant) -> None:
        self._writer.look()

    def _watch(self, kind: WorkloadKind) -> KindWatch[WorkloadView]:
        resource = WORKLOADS[kind.value]
        return KindWatch(
            resource,
            project=WorkloadProjection(kind, resource.api_version, self._workloads.policy),
            feed=self._feed,
            select=Selection(labels=QUEUE) if kind.makes_pods else EVERYTHING,
        )

    def _template_watch(self) -> KindWatch[TemplateView]:
        def feed(change: Change[TemplateView], now: Instant) -> None:  # noqa: ARG001 - the port
            if change.now is not None:
                self._workloads.see_template(change.now)
            else:
                self._workloads.templates.lose((change.key.namespace, change.key.name))

        project = TemplateProjection(self._workloads.policy)
        return KindWatch(RESOURCE_CLAIM_TEMPLATES, project=project, feed=feed)

    def _feed(self, change: Change[WorkloadView], now: Instant) -> None:  # noqa: ARG002 - the port
        before, view = change.before, change.now
        if before is not None and (view is None or view.uid != before.uid):
            self._workloads.lose(before.uid)
        if view is not None:
            self._workloads.see(view)
        self._writer.look()


def _kinds_of(features: Collection[Feature]) -> frozenset[WorkloadKind]:
    return frozenset(kind for kind, feature in FEATURES.items() if feature in features)


def workload_policy(cluster: str, settings: KubernetesSettings) -> WorkloadPolicy:
    """Return the settings by which objects become jobs."""
    return WorkloadPolicy(
        cluster=cluster,
        teams=settings.teams,
        namespaces=frozenset(settings.namespaces),
        resource=settings.resource,
        sharing=settings.sharing.profiles,
        device_class=settings.device_class,
        model_label=settings.model_label,
        models=settings.models,
    )
