"""The guard as a service, over a real bus and a real API server: what it does becomes facts, and is answered."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp
import pytest

from kit.kube.planes import open_plane
from kit.servers import CLUSTER, DECLARATIONS, NatsServer, running_nats
from kit.stack.hosted import LOG, HostedServices, until_leading
from kit.waiting import until_async
from muster.bus.kubernetes_settings import GuardSettings, KubernetesSettings
from muster.core.fact import Fact
from muster.gateway.leaders import NatsGuard
from muster.guard import app
from muster.guard.core.flow import MANAGED_BY, MANAGER
from muster.schemas.apiserver import ApiServerReport
from muster.schemas.facts.guard import AdviceRaised, FlowApplied
from muster_tools.local_kubernetes.options import PlaneOptions
from muster_tools.local_kubernetes.plane import ControlPlane

LEVELS = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations"
SCHEMAS = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas"
SCRAPE_S = 0.5


@pytest.fixture
def bus() -> Iterator[NatsServer]:
    """A bus that knows the guard."""
    known = [one for one in DECLARATIONS if one.service != "guard"]
    with running_nats(declarations=[*known, app.DECLARATION]) as server:
        yield server


@dataclass
class Guarded:
    """A plane, a bus, and guards over both."""

    plane: ControlPlane
    harness: HostedServices

    async def host(self, *, apply: bool) -> None:
        """One more process with a guard."""
        settings = self.harness.settings.model_copy(
            update={
                "kubernetes": KubernetesSettings(kubeconfig=self.plane.kubeconfig(), api_servers=self.plane.servers),
                "guard": GuardSettings(apply=apply, scrape_s=SCRAPE_S),
            }
        )
        await self.harness.host(*app.services(settings))

    async def report(self) -> ApiServerReport:
        return await NatsGuard(await self.harness.client("gateway-query"), cluster=CLUSTER).report()

    async def said(self, kind: str, name: str, number: int = 1) -> list[Fact]:
        """At least so many facts of that name."""
        found: list[Fact] = []

        async def are_there() -> bool:
            found[:] = [fact for fact in await self.harness.facts(name) if fact.kind == kind]
            return len(found) >= number

        await until_async(are_there)
        return found

    async def managed(self) -> set[str]:
        """Names of the guard's own objects at the API server."""
        names = set()
        async with self.plane.client() as client:
            for path in (LEVELS, SCHEMAS):
                async with client.get(path, params={"labelSelector": f"{MANAGED_BY}={MANAGER}"}) as answer:
                    names |= {item["metadata"]["name"] for item in (await answer.json())["items"]}
        return names


@asynccontextmanager
async def guarded(bus: NatsServer) -> AsyncIterator[Guarded]:
    """Everything, without a guard yet."""
    harness = HostedServices(bus)
    await harness.prepare()
    async with open_plane(PlaneOptions(kwok=False)) as plane:
        yield Guarded(plane, harness)
        await harness.end()


async def post_level(client: aiohttp.ClientSession, name: str, shares: int) -> None:
    spec = {"type": "Limited", "limited": {"nominalConcurrencyShares": shares, "limitResponse": {"type": "Reject"}}}
    async with client.post(LEVELS, json={"metadata": {"name": name}, "spec": spec}) as answer:
        answer.raise_for_status()


async def test_flow_control_is_applied_kept_and_told(bus: NatsServer) -> None:
    async with guarded(bus) as harness, harness.plane.client() as client:
        await harness.host(apply=True)
        (first,) = await harness.said("flow", "applied")
        assert isinstance(first.payload, FlowApplied)
        assert (first.payload.seats, first.payload.shares, first.payload.ballast_shares) == (2, 1, 54)
        assert await harness.managed() == {"muster-list-secrets", "muster-ballast"}

        await post_level(client, "somebodys", 700)
        second = (await harness.said("flow", "applied", 2))[1]
        assert isinstance(second.payload, FlowApplied)
        assert second.payload.total_shares == 947
        assert second.payload.why == "other levels changed, written by the guard"
        assert await harness.managed() == {"muster-list-secrets"}

        report = await harness.report()
        assert (report.cluster, report.guarded, report.applies) == (CLUSTER, True, True)
        assert [(level.seats, level.wanted) for level in report.levels if level.wanted] == [(2, 2)]


async def test_without_apply_it_writes_nothing_and_advises(bus: NatsServer) -> None:
    async with guarded(bus) as harness:
        await harness.host(apply=False)
        (raised,) = await harness.said("advice", "raised")
        assert isinstance(raised.payload, AdviceRaised)
        assert raised.payload.code == "lists-unlimited"
        assert "muster guard apply" in raised.payload.cure
        assert await harness.managed() == set()
        report = await harness.report()
        assert [advice.code for advice in report.advices] == ["lists-unlimited"]
        assert len(report.replicas) == 1


async def test_another_guard_takes_over_and_says_nothing_twice(bus: NatsServer) -> None:
    async with guarded(bus) as harness:
        await harness.host(apply=True)
        await harness.said("flow", "applied")
        await harness.host(apply=True)
        await harness.harness.hostings[0].end()
        second = harness.harness.hostings[1].shells
        await until_leading(second)

        async def sees() -> bool:
            return bool((await harness.report()).replicas)

        await until_async(sees)
        assert len(await harness.said("flow", "applied")) == 1


async def test_a_guard_without_a_cluster_leads_and_reports_that_there_is_none(bus: NatsServer) -> None:
    harness = HostedServices(bus)
    await harness.prepare()
    await harness.host(*app.services(harness.settings))
    await until_leading(harness.hostings[0].shells)
    client = await harness.client("gateway-query")
    assert await NatsGuard(client, cluster=CLUSTER).report() == ApiServerReport(cluster=CLUSTER)
    await harness.end()
    assert LOG.cluster == CLUSTER
