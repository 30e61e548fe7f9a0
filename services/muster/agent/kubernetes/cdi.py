"""Composable machines at the API server: their watches, and their configuration from the settings."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from typing_extensions import override

from muster.agent.core.core import AgentCore
from muster.agent.core.kubernetes.calls import Kind
from muster.agent.core.kubernetes.cdi.composable import ComposableMachines
from muster.agent.core.kubernetes.cdi.hot_plug import BESIDE, COUNTS, HotPlug
from muster.agent.core.kubernetes.cdi.machine_sets import (
    SPEC,
    MachinePolicy,
    MachineSets,
    project_machine,
    project_machine_set,
)
from muster.agent.core.kubernetes.cdi.operator import (
    MANAGED_BY,
    OWN,
    Operator,
    project_own_request,
    project_resource,
)
from muster.agent.core.kubernetes.cdi.pool import Pool, PoolPolicy
from muster.agent.core.kubernetes.cdi.request_book import RequestBook
from muster.agent.core.kubernetes.cdi.requests import Requests, project_request
from muster.agent.core.kubernetes.cdi.signals import REASONS, EventView, Signals, backoffs_in, project_event
from muster.agent.core.kubernetes.machines import NoMachines
from muster.agent.core.kubernetes.worklist import Worklist
from muster.agent.kubernetes.abilities import Abilities
from muster.agent.kubernetes.parts import KindWatch, Part, Watch, feeding
from muster.bus.kubernetes_settings import KubernetesSettings
from muster.core import Instant
from muster.core.settings import GroupSettings, ScalingSettings
from muster.kube import resources
from muster.kube.connection import KubeConnection
from muster.kube.errors import KubeError, NotFoundError
from muster.kube.holdings import Change
from muster.kube.objects import text
from muster.kube.permissions import Feature
from muster.kube.shapes import Selection

_logger = logging.getLogger(__name__)

STATUS_NAMESPACE, STATUS_NAME = "kube-system", "cluster-autoscaler-status"
STATUS_S = 10.0
"""Between two reads of the Cluster Autoscaler's status: it scans as often."""
OPENSHIFT = "machine.openshift.io/v1beta1"
CAPACITY = "capacity.cluster-autoscaler.kubernetes.io/"
"""Prefix of annotations that describe a MachineSet's nodes to the Cluster Autoscaler, even while it has none."""


def machines_of(
    settings: KubernetesSettings, scaling: ScalingSettings, worklist: Worklist, *, operated: str = ""
) -> ComposableMachines:
    """Return the configuration of nodes and devices that come and go; `operated` is the operator's fabric."""
    names, book = settings.scaling.names, RequestBook()
    return ComposableMachines(
        MachineSets(machine_policy(settings, scaling), worklist) if names else NoMachines(),
        HotPlug(worklist, may_restart=bool(settings.plugin_pods) and any(group.composable for group in scaling.groups)),
        book,
        signals=Signals(names) if settings.scaling.autoscaler else None,
        requests=Requests(worklist, book) if settings.requests == "muster" else None,
        operator=Operator(operated, worklist) if operated and settings.requests == "operator" else None,
        pool=Pool(pool_policy(settings, scaling), worklist, book) if settings.pool.names else None,
        group_label=settings.group_label,
    )


def machine_policy(settings: KubernetesSettings, scaling: ScalingSettings) -> MachinePolicy:
    """Return the MachineSets by group. Composable groups show one fixed spec with the maximum number of GPUs."""
    is_openshift = settings.scaling.api == OPENSHIFT
    fixed = {group.name: fixed_spec(group, settings.resource) for group in scaling.groups if group.composable}
    return MachinePolicy(
        namespace=settings.scaling.namespace,
        sets=settings.scaling.names,
        delete_mark="machine.openshift.io/delete-machine" if is_openshift else "cluster.x-k8s.io/delete-machine",
        fixed={group: spec for group, spec in fixed.items() if group in settings.scaling.names},
        machine_sets=Kind.OPENSHIFT_MACHINE_SETS if is_openshift else Kind.MACHINE_SETS,
        machines=Kind.OPENSHIFT_MACHINES if is_openshift else Kind.MACHINES,
    )


def pool_policy(settings: KubernetesSettings, scaling: ScalingSettings) -> PoolPolicy:
    """Return which pools are published, and for the nodes of which groups."""
    groups: dict[str, list[str]] = {}
    for group in scaling.groups:
        if group.composable:
            groups.setdefault(group.fabric, []).append(group.name)
    return PoolPolicy(settings.driver, settings.pool.names, settings.pool.fabrics, groups, settings.group_label)


def fixed_spec(group: GroupSettings, resource: str) -> Mapping[str, str]:
    """Return the annotations that describe the nodes of a composable group to an external autoscaler."""
    return {
        SPEC: "spec-fixed",
        f"{CAPACITY}cpu": f"{group.cpu_milli}m",
        f"{CAPACITY}memory": f"{group.memory_mib}Mi",
        f"{CAPACITY}gpu-type": resource,
        f"{CAPACITY}gpu-count": str(group.gpus_max),
    }


def plugin_of(settings: KubernetesSettings) -> Callable[[str, Mapping[str, str]], str]:
    """Return a function that classifies plugin pods by namespace and labels; "" for other pods."""
    known = settings.plugin_pods

    def sort(namespace: str, labels: Mapping[str, str]) -> str:
        for one in known:
            if one.namespace == namespace and one.labels.items() <= labels.items():
                return COUNTS if one.counts else BESIDE
        return ""

    return sort


class CdiPart(Part):
    """The part of the sink for composable machines."""

    def __init__(self, settings: KubernetesSettings, machines: ComposableMachines, core: AgentCore) -> None:
        self._settings = settings
        self._machines = machines
        self._reads_status = False
        if machines.signals is not None:
            machines.signals.job_of = partial(job_of, core)

    @override
    @property
    def features(self) -> tuple[Feature, ...]:
        wanted = [self._of_machines] if isinstance(self._machines.sets, MachineSets) else []
        wanted += [Feature.HOT_PLUG] if self._machines.plugs.may_restart else []
        wanted += [Feature.AUTOSCALER] if self._machines.signals is not None else []
        wanted += [Feature.COMPOSABILITY] if self._machines.requests is not None else []
        wanted += [Feature.OPERATOR] if self._machines.operator is not None else []
        wanted += [Feature.DRA, Feature.POOL_SLICES] if self._machines.pool is not None else []
        return tuple(wanted)

    @property
    def _of_machines(self) -> Feature:
        return Feature.OPENSHIFT_MACHINES if self._settings.scaling.api == OPENSHIFT else Feature.MACHINES

    @override
    def watches(self, abilities: Abilities) -> Sequence[Watch]:
        machines, found = self._machines, list[Watch]()
        machines.plugs.may_restart = machines.plugs.may_restart and abilities.has(Feature.HOT_PLUG)
        if machines.pool is not None:
            machines.pool.is_permitted = abilities.has(Feature.DRA) and abilities.has(Feature.POOL_SLICES)
        if isinstance(machines.sets, MachineSets):
            machines.sets.is_permitted = abilities.has(self._of_machines)
            found += self._machine_watches(machines.sets) if machines.sets.is_permitted else ()
        if machines.signals is not None and abilities.has(Feature.AUTOSCALER):
            self._reads_status = True
            found += [_event_watch(machines.signals, reason) for reason in REASONS]
        if machines.requests is not None:
            machines.requests.is_permitted = abilities.has(Feature.COMPOSABILITY)
            found += [_request_watch(machines.requests)] if machines.requests.is_permitted else []
        if machines.operator is not None:
            machines.operator.is_permitted = abilities.has(Feature.OPERATOR)
            found += _operator_watches(machines.operator) if machines.operator.is_permitted else ()
        return tuple(found)

    async def run(self, connection: KubeConnection) -> None:
        """Read the autoscaler's status periodically."""
        signals = self._machines.signals
        while self._reads_status and signals is not None:
            try:
                status = await connection.get(resources.CONFIG_MAPS, STATUS_NAME, namespace=STATUS_NAMESPACE)
                signals.backoffs_seen(backoffs_in(text(status, "data", "status")))
            except NotFoundError:
                signals.backoffs_seen({})
            except KubeError as error:
                _logger.info("cannot read the Cluster Autoscaler's status: %s", error)
            await asyncio.sleep(STATUS_S)

    def _machine_watches(self, sets: MachineSets) -> tuple[Watch, Watch]:
        policy = sets.policy
        place = Selection(namespace=policy.namespace)

        version = self._settings.scaling.api.partition("/")[2]
        if policy.machines is Kind.OPENSHIFT_MACHINES:
            of_sets, of_machines = resources.OPENSHIFT_MACHINE_SETS, resources.OPENSHIFT_MACHINES
        else:
            of_sets = replace(resources.MACHINE_SETS, version=version)
            of_machines = replace(resources.MACHINES, version=version)
        return (
            KindWatch(
                of_sets,
                partial(project_machine_set, kept=policy.annotations),
                feeding(sets.set_seen, sets.set_gone),
                select=place,
            ),
            KindWatch(
                of_machines,
                partial(project_machine, delete_mark=policy.delete_mark),
                feeding(sets.machine_seen, sets.machine_gone),
                select=place,
            ),
        )


def _event_watch(signals: Signals, reason: str) -> Watch:
    """Watch only events with this reason: the others are many and unused."""

    def feed(change: Change[EventView], _: Instant) -> None:
        if change.now is not None:
            signals.event_seen(change.now)

    return KindWatch(resources.EVENTS, project_event, feed, select=Selection(fields=f"reason={reason}"))


def _request_watch(requests: Requests) -> Watch:
    feed = feeding(requests.object_seen, requests.object_gone)
    return KindWatch(resources.COMPOSABILITY_REQUESTS, project_request, feed)


def _operator_watches(operator: Operator) -> tuple[Watch, Watch]:
    request = feeding(operator.request_seen, operator.request_gone)
    resource = feeding(operator.resource_seen, operator.resource_gone)
    ours = Selection(labels=f"{MANAGED_BY}={OWN}")
    return (
        KindWatch(resources.COMPOSABILITY_REQUESTS, project_own_request, request, select=ours),
        KindWatch(resources.COMPOSABLE_RESOURCES, project_resource, resource),
    )


def job_of(core: AgentCore, namespace: str, pod: str) -> str:
    """Return the job whose object created or is this pod; "" if unknown."""
    for job_id, job in core.jobs.items():
        origin = job.origin
        if origin is None or origin.namespace != namespace:
            continue
        if pod == origin.name or pod in origin.members or pod.startswith(f"{origin.name}-"):
            return job_id
    return ""
