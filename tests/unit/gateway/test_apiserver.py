"""The guard's report over HTTP and by the client."""

from kit.http.gateway import FakeHarness
from muster.schemas.apiserver import ApiServerReplica, ApiServerReport


async def test_the_report_is_the_guards() -> None:
    harness = FakeHarness()
    harness.guard.told = ApiServerReport(guarded=True, replicas=(ApiServerReplica(name="10.0.0.1:6443"),))
    async with harness.client(token="eve") as client:
        answer = await client.get("/v1/apiserver")
    assert ApiServerReport.model_validate_json(answer.content) == harness.guard.told


async def test_with_the_guard_away_it_is_503() -> None:
    harness = FakeHarness()
    harness.guard.is_down = True
    async with harness.client(token="eve") as client:
        assert (await client.get("/v1/apiserver")).status_code == 503


async def test_nobody_is_told_without_a_token() -> None:
    async with FakeHarness().client(token="") as client:
        assert (await client.get("/v1/apiserver")).status_code == 401
