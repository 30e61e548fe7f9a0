"""Objects that ask to run, at the API server: what is watched of them, and who writes back to them."""

from collections.abc import Callable, Collection, Sequence

from muster.agent.core.workload_values import WorkloadKind, WorkloadPolicy, WorkloadView
from muster.agent.core.workloads.claim_templates import TemplateProjection, TemplateView
from muster.agent.core.workloads.objects import WorkloadProjection
from muster.agent.core.workloads.workloads import Workloads
from muster.agent.kubernetes.abilities import Abilities
from muster.agent.kubernetes.parts import GrowingPart, KindWatch, Watch
from muster.agent.kubernetes.workload_writer import WorkloadWriter
from muster.bus.kubernetes_settings import KubernetesSettings
from muster.core import Fact, Instant
from muster.kube.connection import KubeConnection
from muster.kube.holdings import Change
from muster.kube.permissions import Feature
from muster.kube.resources import RESOURCE_CLAIM_TEMPLATES
from muster.kube.shapes import EVERYTHING, Selection
from muster.kube.workload_kinds import RESOURCES
from muster.kube.workload_labels import QUEUE

FEATURES = {
    WorkloadKind.MUSTER_JOB: Feature.MUSTERJOBS,
    WorkloadKind.JOB: Feature.WORKLOADS,
    WorkloadKind.JOB_SET: Feature.JOBSETS,
    WorkloadKind.MPI_JOB: Feature.MPIJOBS,
}


class WorkloadsPart(GrowingPart):
    """Implements `muster.agent.kubernetes.parts.Part`. now: the clock by which events are dated. by_claims: devices may
    be had by claims, as the settings say.
    """

    def __init__(self, workloads: Workloads, *, now: Callable[[], Instant], by_claims: bool = True) -> None:
        self._workloads = workloads
        self._by_claims = by_claims
        self._writer = WorkloadWriter(workloads, now=now)

    @property
    def features(self) -> tuple[Feature, ...]:
        """See `Part`."""
        claims = (Feature.CLAIM_TEMPLATES,) if self._by_claims else ()
        return (*dict.fromkeys(FEATURES.values()), *claims, Feature.EVENTS)

    def watches(self, abilities: Abilities) -> Sequence[Watch]:
        """See `Part`. Of kinds that are not ours only what carries the queue's label."""
        kinds = tuple(kind for kind, feature in FEATURES.items() if abilities.has(feature))
        self._workloads.watched = kinds
        self._workloads.takes_pods = abilities.has(Feature.WORKLOADS)
        self._writer.tells_events = abilities.has(Feature.EVENTS)
        reads_templates = self._by_claims and abilities.has(Feature.CLAIM_TEMPLATES)
        self._workloads.templates.may_read = reads_templates
        return (*((self._template_watch(),) if reads_templates else ()), *map(self._watch, kinds))

    @property
    def late_features(self) -> tuple[Feature, ...]:
        """See `GrowingPart`: kinds whose definitions people install."""
        claims = (Feature.CLAIM_TEMPLATES,) if self._by_claims else ()
        return (Feature.MUSTERJOBS, Feature.JOBSETS, Feature.MPIJOBS, *claims)

    def later(self, features: Collection[Feature]) -> Sequence[Watch]:
        """See `GrowingPart`."""
        kinds = tuple(_kinds_of(features) - frozenset(self._workloads.watched))
        self._workloads.watched += kinds
        reads_templates = Feature.CLAIM_TEMPLATES in features and not self._workloads.templates.may_read
        if reads_templates:
            self._workloads.templates.may_read = True
        return (*((self._template_watch(),) if reads_templates else ()), *map(self._watch, kinds))

    def later_synced(self, features: Collection[Feature]) -> None:
        """See `GrowingPart`."""
        for kind in _kinds_of(features):
            self._workloads.read(kind)

    async def run(self, connection: KubeConnection) -> None:
        """See `Part`: write what objects should show."""
        await self._writer.run(connection)

    def after_fold(self, facts: Sequence[Fact], now: Instant) -> None:  # noqa: ARG002 - the port
        """See `Part`."""
        self._writer.look()

    def _watch(self, kind: WorkloadKind) -> KindWatch[WorkloadView]:
        resource = RESOURCES[kind.value]
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
    """The part of a cluster's settings that objects' wishes follow from. cluster: as Muster calls it."""
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
