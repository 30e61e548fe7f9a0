"""kube-scheduler as a contender, and the common part of contenders whose pods the benchmark creates itself."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from muster_tools.bench.kubernetes.manifests import claim_template, claiming_pod, pod, pod_name
from muster_tools.bench.kubernetes.observing import Pod, Seen, name_of
from muster_tools.bench.kubernetes.plan import Contender, Plan
from muster_tools.bench.kubernetes.result import Crowd
from muster_tools.bench.kubernetes.stage import Running, Stage
from muster_tools.local_kubernetes.child import Usage
from muster_tools.local_kubernetes.fleet import create_all
from muster_tools.local_kubernetes.nodes import Devices, Manifest, NodeShape
from muster_tools.local_kubernetes.options import CONTROLLERS, PlaneOptions, Profile, Scheduler

MakePod = Callable[[int, int], tuple[str, Manifest]]
"""Returns path and object of the n-th workload with this many GPUs."""


class OwnPods:
    """Creates one pod per workload and leaves the rest to the scheduler."""

    def __init__(self, stage: Stage, make: MakePod, *, notes: tuple[str, ...] = ()) -> None:
        self._stage = stage
        self._make = make
        self.notes = notes

    def key_of(self, pod: Pod) -> str:
        """Return the pod's name."""
        return name_of(pod)

    def usage(self) -> Mapping[str, Usage]:
        """Return nothing: all processes belong to the control plane."""
        return {}

    async def submit(self, seen: Seen) -> None:
        """Create the pods as fast as the connections allow."""
        plan = self._stage.plan
        pods = (self._make(number, gpus) for number, gpus in enumerate(plan.gpus))
        await create_all(
            self._stage.client,
            pods,
            parallel=plan.connections,
            begun=lambda number: seen.created(pod_name(number)),
        )

    async def afterwards(self) -> tuple[Crowd, ...]:
        """Measure nothing further."""
        return ()


SCHEDULER = "default-scheduler"


@dataclass(frozen=True, slots=True)
class KubeScheduler:
    """Scenario of kube-scheduler. claims: pods claim devices that nodes publish; else GPUs are a number per node."""

    contender: Contender
    profile: Profile
    claims: bool = False

    def options(self, plan: Plan) -> PlaneOptions:
        """Return options with one scheduler, started after the nodes exist."""
        del plan
        scheduler = Scheduler(profile=self.profile, scheduler_name=SCHEDULER, at_once=False)
        return PlaneOptions(controllers=CONTROLLERS, node_lease_s=0, more_schedulers=(scheduler,))

    def shape(self, plan: Plan) -> NodeShape:
        """Return nodes with a device plugin, or with devices."""
        del plan
        return NodeShape(devices=Devices.DRA if self.claims else Devices.PLUGIN)

    @asynccontextmanager
    async def opened(self, stage: Stage) -> AsyncIterator[Running]:
        """Start the scheduler."""
        if self.claims:
            await create_all(stage.client, map(claim_template, sorted(set(stage.plan.gpus))))
        await stage.plane.start("kube-scheduler")
        make = claiming_pod if self.claims else pod
        yield OwnPods(stage, lambda number, gpus: make(number, gpus, scheduler=SCHEDULER))
