"""Objects that ask to run, at the API server: what is watched of them, and who writes back to them."""

from collections.abc import Callable, Sequence

from muster.agent.core.workloads.asking.views import WorkloadProjection
from muster.agent.core.workloads.policy import WorkloadPolicy
from muster.agent.core.workloads.values import WorkloadKind, WorkloadView
from muster.agent.core.workloads.workloads import Workloads
from muster.agent.kubernetes.abilities import Abilities
from muster.agent.kubernetes.watching import KindWatch, Watch
from muster.agent.kubernetes.workload_writer import WorkloadWriter
from muster.bus.kubernetes_settings import KubernetesSettings
from muster.core import Fact, Instant
from muster.kube.connection import KubeConnection
from muster.kube.holdings import Change
from muster.kube.permissions import Feature
from muster.kube.shapes import EVERYTHING, Selection
from muster.kube.workload_kinds import RESOURCES
from muster.kube.workload_labels import QUEUE

FEATURES = {
    WorkloadKind.MUSTER_JOB: Feature.MUSTERJOBS,
    WorkloadKind.JOB: Feature.WORKLOADS,
    WorkloadKind.JOB_SET: Feature.JOBSETS,
    WorkloadKind.MPI_JOB: Feature.MPIJOBS,
}


class WorkloadsPart:
    """Implements `muster.agent.kubernetes.parts.Part`. now: the clock by which events are dated."""

    def __init__(self, workloads: Workloads, *, now: Callable[[], Instant]) -> None:
        self._workloads = workloads
        self._writer = WorkloadWriter(workloads, now=now)

    @property
    def features(self) -> tuple[Feature, ...]:
        """See `Part`."""
        return (*dict.fromkeys(FEATURES.values()), Feature.EVENTS)

    def watches(self, abilities: Abilities) -> Sequence[Watch]:
        """See `Part`. Of kinds that are not ours only what carries the queue's label."""
        kinds = tuple(kind for kind, feature in FEATURES.items() if abilities.has(feature))
        self._workloads.watched = kinds
        self._workloads.takes_pods = abilities.has(Feature.WORKLOADS)
        self._writer.tells_events = abilities.has(Feature.EVENTS)
        return tuple(map(self._watch, kinds))

    def picks_devices(self) -> bool:
        """See `Part`."""
        return False

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

    def _feed(self, change: Change[WorkloadView], now: Instant) -> None:  # noqa: ARG002 - the port
        before, view = change.before, change.now
        if before is not None and (view is None or view.uid != before.uid):
            self._workloads.lose(before.uid)
        if view is not None:
            self._workloads.see(view)
        self._writer.look()


def workload_policy(cluster: str, settings: KubernetesSettings) -> WorkloadPolicy:
    """The part of a cluster's settings that objects' wishes follow from. cluster: as Muster calls it."""
    return WorkloadPolicy(
        cluster=cluster,
        teams=settings.teams,
        namespaces=frozenset(settings.namespaces),
        resource=settings.resource,
        sharing=settings.sharing.profiles,
        model_label=settings.model_label,
        models=settings.models,
    )
