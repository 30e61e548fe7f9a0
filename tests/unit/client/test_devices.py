"""The SDK's devices against the real application with a harness in memory."""

import pytest

from kit.client import JOB, known, sdk
from kit.http.gateway import FakeHarness, fact, joined
from muster.client import (
    AttachmentPhase,
    ComposabilitySpec,
    ConflictError,
    DeviceView,
    FabricView,
    NotAllowedError,
    NotFoundError,
    RequestPhase,
    RequestView,
    ScaleChoiceView,
)
from muster.gateway.api import changes
from muster.schemas.queries import DeviceCheckAnswer

SPEC = ComposabilitySpec(model="H100", size=2, target_node="n1")
REQUEST = RequestView(name="r1", cluster="atlas", spec=SPEC, phase=RequestPhase.RUNNING)
DEVICE = DeviceView(
    id="a1", cluster="atlas", model="H100", node="n1", fabric="f1", device_uuid="GPU-1", phase=AttachmentPhase.ONLINE
)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "CHANGE_WAIT_S", 0.0)


async def test_devices_are_attached_looked_at_and_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = FakeHarness()
    async with sdk(harness.app, "olga") as muster:
        assert await muster.compose(SPEC, name="r1") is None, "it is only asked for"
        assert [(name, one.spec) for name, one in harness.log.composed.values()] == [("r1", SPEC)]
        harness.composer.request_rows = [REQUEST]
        harness.composer.device_rows = [DEVICE]
        monkeypatch.setattr(changes, "CHANGE_WAIT_S", 5.0)
        assert await muster.compose(SPEC, name="r1") == REQUEST
        monkeypatch.setattr(changes, "CHANGE_WAIT_S", 0.0)
        assert list(await muster.composability_requests()) == [REQUEST]
        assert await muster.composability_request("r1") == REQUEST
        assert list(await muster.devices()) == [DEVICE]
        assert await muster.detach("GPU-1", force=True, reason="fan") == DEVICE
        assert await muster.decompose("r1", reason="done") == REQUEST
    assert [(uuid, one.force, one.reason) for uuid, one in harness.log.detached] == [("GPU-1", True, "fan")]
    assert [(name, one.force, one.reason) for name, one in harness.log.decomposed] == [("r1", False, "done")]


async def test_muster_names_a_request_that_has_no_name() -> None:
    harness = FakeHarness()
    async with sdk(harness.app, "olga") as muster:
        for _ in range(2):
            await muster.compose(SPEC)
    assert len({name for name, _ in harness.log.composed.values()}) == 2


async def test_refusals_are_typed_and_name_who_stands_in_the_way() -> None:
    harness = FakeHarness()
    harness.composer.device_rows = [DEVICE]
    harness.composer.check = DeviceCheckAnswer(field="force", reason="a job runs there", holder="JOB")
    async with sdk(harness.app, "olga") as muster:
        with pytest.raises(ConflictError, match="JOB") as refusal:
            await muster.detach("GPU-1")
        with pytest.raises(NotFoundError):
            await muster.detach("GPU-2/../x")
        with pytest.raises(NotFoundError):
            await muster.composability_request("r9")
    assert refusal.value.problem.holder == "JOB"
    async with sdk(harness.app, "eve") as muster:
        with pytest.raises(NotAllowedError):
            await muster.compose(SPEC)


async def test_fabrics_and_choices_are_told() -> None:
    harness = FakeHarness()
    harness.composer.fabric_rows = [FabricView(name="f1", cluster="atlas")]
    harness.scaler.choice_rows = [ScaleChoiceView(id="s000001", name="nothing-chosen", case=2)]
    async with sdk(harness.app, "eve") as muster:
        assert list(await muster.fabrics()) == harness.composer.fabric_rows
        assert list(await muster.scale_choices()) == harness.scaler.choice_rows


async def test_a_job_is_watched_with_what_is_done_for_it_and_a_failed_device_does_not_end_it() -> None:
    harness, job = FakeHarness(), JOB
    known(harness)
    harness.view.facts[job] = [fact(1, "queued", job=job)]
    async with sdk(harness.app, "eve") as muster:
        seen = list[tuple[str, str]]()
        async for one in muster.watch(job):
            seen.append((one.kind, one.name))
            if one.name == "queued":
                failed = fact(2, "failed", job="a1").model_copy(update={"kind": "attachment"})
                harness.feed.tell(failed, job_id=job)
                harness.feed.tell(fact(3, "failed", job="a2").model_copy(update={"kind": "attachment"}))
                harness.feed.tell(fact(4, "succeeded", job=job))
    assert seen == [("job", "queued"), ("attachment", "failed"), ("job", "succeeded")]


async def test_the_cluster_that_is_named_is_asked() -> None:
    east, west = FakeHarness(), FakeHarness()
    west.composer.cluster = "west"
    west.composer.fabric_rows, west.composer.device_rows = [FabricView(name="f2", cluster="west")], [DEVICE]
    west.composer.request_rows = [REQUEST]
    west.scaler.choice_rows = [ScaleChoiceView(id="s1", cluster="west", name="gpu-attach-chosen", case=1)]
    west.guard.told = west.guard.told.model_copy(update={"cluster": "west"})
    async with sdk(joined({"east": east, "west": west}).app, "olga") as muster:
        assert not [*await muster.fabrics(), *await muster.devices(), *await muster.scale_choices()]
        assert [one.name for one in await muster.fabrics(cluster="west")] == ["f2"]
        assert list(await muster.devices(cluster="west")) == [DEVICE]
        assert list(await muster.composability_requests(cluster="west")) == [REQUEST]
        assert await muster.composability_request("r1", cluster="west") == REQUEST
        assert [one.id for one in await muster.scale_choices(cluster="west")] == ["s1"]
        assert (await muster.apiserver(cluster="west")).cluster == "west"
        await muster.detach("GPU-1", cluster="west")
        await muster.decompose("r1", cluster="west")
        await muster.compose(SPEC, name="r2", cluster="west")
    asked = [*(one for _, one in east.log.detached), *(one for _, one in east.log.decomposed)]
    assert [one.cluster for one in (*asked, *(one for _, one in east.log.composed.values()))] == ["west"] * 3
