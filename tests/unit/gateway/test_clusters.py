"""What clusters are and can do, over HTTP."""

from kit.http.gateway import FakeHarness
from muster.schemas.apiserver import ClusterView


async def test_a_cluster_is_as_its_scheduler_says() -> None:
    harness = FakeHarness()
    async with harness.client(token="eve") as client:
        answer = await client.get("/v1/clusters")
    (cluster,) = answer.json()["clusters"]
    assert ClusterView.model_validate(cluster) == await harness.scheduler.cluster()


async def test_nobody_is_told_without_a_token() -> None:
    async with FakeHarness().client(token="") as client:
        assert (await client.get("/v1/clusters")).status_code == 401
