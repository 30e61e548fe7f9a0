"""kube-scheduler alone: with GPUs as numbers, in two profiles, and with claims."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from muster_tools.bench.kubernetes.manifests import claim_template, claiming_pod, pod
from muster_tools.bench.kubernetes.plan import Contender, Plan
from muster_tools.bench.kubernetes.scenarios.own_pods import OwnPods
from muster_tools.bench.kubernetes.stage import Running, Stage
from muster_tools.local_kubernetes.fleet import create_all
from muster_tools.local_kubernetes.nodes import Devices, NodeShape
from muster_tools.local_kubernetes.options import CONTROLLERS, PlaneOptions, Profile, Scheduler

SCHEDULER = "default-scheduler"


@dataclass(frozen=True, slots=True)
class KubeScheduler:
    """The scenario. claims: the pods claim devices, and the nodes publish theirs; else both name numbers."""

    contender: Contender
    profile: Profile
    claims: bool = False

    def options(self, plan: Plan) -> PlaneOptions:
        """One scheduler, started once the fleet is there."""
        del plan
        scheduler = Scheduler(profile=self.profile, scheduler_name=SCHEDULER, at_once=False)
        return PlaneOptions(controllers=CONTROLLERS, node_lease_s=0, more_schedulers=(scheduler,))

    def shape(self, plan: Plan) -> NodeShape:
        """With a device plugin, or with devices."""
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
