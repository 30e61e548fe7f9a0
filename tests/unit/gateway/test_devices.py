"""Devices, fabrics and the scaler's choices over HTTP; detaching one device; what the fleet could become."""

import asyncio

import pytest

from kit.http.gateway import FakeHarness
from muster.core.settings import GroupSettings, ScalingSettings
from muster.gateway.accept import Shape, shapes_to_come, while_it_may_grow
from muster.gateway.api import changes
from muster.gateway.catalogue import CatalogueCache
from muster.gateway.views import with_scaling
from muster.schemas.devices import AttachmentPhase, BreakerState, DeviceView, FabricView, PoolModel
from muster.schemas.job import JobSpec, Phase
from muster.schemas.queries import AskDetach, DeviceCheckAnswer, DryRunAnswer, ScaleChoiceView, WhyAnswer
from muster.schemas.views import JobView

UUID = "GPU-6f1c"


def device(phase: AttachmentPhase = AttachmentPhase.ONLINE, *, node: str = "n1", uuid: str = UUID) -> DeviceView:
    return DeviceView(
        id=f"a-{node}", cluster="atlas", model="H100", node=node, fabric="f1", device_uuid=uuid, phase=phase
    )


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "CHANGE_WAIT_S", 0.0)


async def test_everybody_may_see_devices_by_node_fabrics_by_name_and_choices() -> None:
    harness = FakeHarness()
    harness.composer.device_rows = [device(node="n2"), device(node="n1")]
    pool = (PoolModel(model="H100", free=3, attached=2),)
    harness.composer.fabric_rows = [FabricView(name="f2", breaker=BreakerState.OPEN), FabricView(name="f1", pool=pool)]
    harness.scaler.choice_rows = [ScaleChoiceView(id="s000001", name="gpu-attach-chosen", case=1, reason="2 GPUs do")]
    async with harness.client("eve") as client:
        devices = (await client.get("/v1/devices")).json()["devices"]
        fabrics = (await client.get("/v1/fabrics")).json()["fabrics"]
        choices = (await client.get("/v1/scale")).json()["choices"]
    assert [one["node"] for one in devices] == ["n1", "n2"]
    assert [(one["name"], one["breaker"]) for one in fabrics] == [("f1", "closed"), ("f2", "open")]
    assert [(one["id"], one["reason"]) for one in choices] == [("s000001", "2 GPUs do")]


async def test_with_the_scaler_away_its_choices_are_503() -> None:
    harness = FakeHarness()
    harness.scaler.is_down = True
    async with harness.client("eve") as client:
        assert (await client.get("/v1/scale")).status_code == 503


@pytest.mark.parametrize(("who", "status"), [("eve", 403), ("ann", 403), ("olga", 202)])
async def test_who_may_detach_a_device(who: str, status: int) -> None:
    harness = FakeHarness()
    harness.composer.device_rows = [device()]
    async with harness.client(who) as client:
        answer = await client.delete(f"/v1/devices/{UUID}", params={"force": "true", "reason": "broken fan"})
    assert answer.status_code == status
    assert harness.composer.asked == [AskDetach(device_uuid=UUID, force=True, may_force=status == 202)]
    told = [
        (uuid, one.principal, one.reason, one.force, one.may_force, one.cluster) for uuid, one in harness.log.detached
    ]
    assert told == ([(UUID, "olga", "broken fan", True, True, "atlas")] if status == 202 else [])


@pytest.mark.parametrize(
    ("params", "field", "holder"),
    [({"force": "true"}, "force", "JOB"), ({"force": "0"}, "Authorization", None), ({}, "Authorization", None)],
)
async def test_without_the_role_force_names_the_flag_and_the_holder(
    params: dict[str, str], field: str, holder: str | None
) -> None:
    harness = FakeHarness()
    harness.composer.device_rows = [device()]
    harness.composer.check = DeviceCheckAnswer(field="force", reason=f"{UUID} is held by JOB", holder="JOB")
    async with harness.client("ann") as client:
        told = (await client.delete(f"/v1/devices/{UUID}", params=params)).json()
    assert (told["status"], told["field"], told.get("holder")) == (403, field, holder)
    assert told["cure"] == "Ask an operator."
    assert ("held by JOB" in told["detail"]) == (holder is not None)


@pytest.mark.parametrize(
    ("verdict", "status"),
    [
        (DeviceCheckAnswer(field="force", reason="held by JOB", holder="JOB"), 409),
        (DeviceCheckAnswer(field="device_uuid", reason="no such device", unknown=True), 404),
        (DeviceCheckAnswer(field="device_uuid", reason="this fabric does not let us choose"), 422),
    ],
)
async def test_what_the_composer_would_refuse_is_refused(verdict: DeviceCheckAnswer, status: int) -> None:
    harness = FakeHarness()
    harness.composer.device_rows = [device()]
    harness.composer.check = verdict
    async with harness.client("olga") as client:
        answer = await client.delete(f"/v1/devices/{UUID}")
    assert (answer.status_code, answer.json().get("holder")) == (status, verdict.holder or None)
    assert not harness.log.detached


@pytest.mark.parametrize("rows", [[], [device(AttachmentPhase.DETACHED)], [device(uuid="GPU-other")]])
async def test_a_device_that_is_not_attached_is_404(rows: list[DeviceView]) -> None:
    harness = FakeHarness()
    harness.composer.device_rows = rows
    async with harness.client("olga") as client:
        assert (await client.delete(f"/v1/devices/{UUID}")).status_code == 404


@pytest.mark.parametrize(
    ("rows", "status", "phase"),
    [([device(AttachmentPhase.WITHHOLDING)], 202, "withholding"), ([], 200, "detached")],
)
async def test_detaching_is_answered_as_soon_as_it_is_taken_up(
    rows: list[DeviceView], status: int, phase: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "CHANGE_WAIT_S", 5.0)
    harness = FakeHarness()
    harness.composer.device_rows = [device()]
    async with harness.client("olga") as client, asyncio.TaskGroup() as tasks:
        asked = tasks.create_task(client.delete(f"/v1/devices/{UUID}"))
        while not harness.log.detached:  # noqa: ASYNC110 - turns of the loop, no time passes
            await asyncio.sleep(0)
        harness.composer.device_rows = rows
    assert (asked.result().status_code, asked.result().json()["phase"]) == (status, phase)


GROUPS = (
    GroupSettings(name="plain", nodes_max=4, gpus=8, gpu_models=("A100",), cpu_milli=8_000, memory_mib=64),
    GroupSettings(
        name="elastic", composable=True, nodes_max=4, gpus=1, gpus_max=4, gpu_models=("H100", "L40S"),
        cpu_milli=4_000, memory_mib=32, fabric="f1",
    ),
    GroupSettings(name="cpu", nodes_max=1, cpu_milli=9_000, memory_mib=99),
    GroupSettings(name="none", gpus=8, gpu_models=("B200",)),
)  # fmt: skip


def test_a_composable_group_is_judged_by_the_most_that_a_node_can_have() -> None:
    assert shapes_to_come(ScalingSettings(groups=GROUPS)) == (
        Shape("A100", 8, 8_000, 64),
        Shape("H100", 4, 4_000, 32),
        Shape("L40S", 4, 4_000, 32),
        Shape("", 0, 9_000, 99),
    )
    assert shapes_to_come(ScalingSettings(mode="off", groups=GROUPS)) == ()


async def test_a_job_that_fits_what_the_fleet_could_become_is_taken() -> None:
    harness = FakeHarness()
    harness.view.shape_rows = [("H100", 1, 4_000, 32, ("rack",))]
    to_come = shapes_to_come(ScalingSettings(groups=GROUPS))
    cache = CatalogueCache(view=harness.view, scheduler=harness.scheduler, time=harness.harness.time, to_come=to_come)
    known = (await cache.newer()).shapes
    assert max(shape.gpus for shape in known if shape.gpu_model == "H100") == 4
    harness.view.shape_rows = []
    assert (await cache.newer()).shapes == ()


NEVER_NOW = DryRunAnswer(refused=True, field="task_groups.gpus", reason="gpu", detail="4 GPUs asked, 2 free")
OVER_QUOTA = DryRunAnswer(refused=True, field="queue", reason="limit", detail="over the limit")
PLACED = DryRunAnswer(placed=True, nodes=("n1",))


@pytest.mark.parametrize(("answer", "refused"), [(NEVER_NOW, False), (OVER_QUOTA, True), (PLACED, False)])
def test_what_is_short_now_waits_in_a_fleet_that_grows_and_nothing_else_changes(
    answer: DryRunAnswer, refused: bool
) -> None:
    told = while_it_may_grow(answer)
    assert (told.refused, told.placed, told.reason, told.detail) == (
        refused,
        answer.placed,
        answer.reason,
        answer.detail,
    )
    assert (told == answer) == (answer is not NEVER_NOW)


@pytest.mark.parametrize("grows", [True, False])
async def test_a_dry_run_is_told_as_waiting_only_where_something_may_come(
    grows: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = FakeHarness()
    monkeypatch.setattr(type(harness.harness.catalogue), "grows", grows)

    async def dry_run(spec: JobSpec) -> DryRunAnswer:
        return NEVER_NOW

    monkeypatch.setattr(harness.scheduler, "dry_run", dry_run)
    job = {"name": "train", "team": "blue", "task_groups": [{"gpus": 4}]}
    async with harness.client("ann") as client:
        told = (await client.post("/v1/jobs?dry_run=true", json=job)).json()
    assert (told["refused"], bool(told["cure"])) == (not grows, grows)


JOB = JobView(id="A" * 26, name="train", team="blue", principal="ann", queue="blue", phase=Phase.QUEUED)


def choice(name: str = "gpu-attach-chosen", **rest: object) -> ScaleChoiceView:
    known: dict[str, object] = {"id": "s000007", "case": 1, "jobs": (JOB.id,), "reason": "1 GPU does"}
    return ScaleChoiceView.model_validate({**known, "name": name} | rest)


@pytest.mark.parametrize(
    ("choices", "detail", "cure"),
    [
        ([choice()], "no GPU", "scaling is under way (s000007): 1 GPU does; wait"),
        (
            [choice("nothing-chosen", reason="the pool is empty")],
            "no GPU; scaling does not help: the pool is empty",
            "wait",
        ),
        ([choice(outcome="failed"), choice()], "no GPU", "wait"),
        ([choice(jobs=("OTHER",))], "no GPU", "wait"),
        ([], "no GPU", "wait"),
    ],
)
def test_why_tells_what_scaling_does_for_a_job(choices: list[ScaleChoiceView], detail: str, cure: str) -> None:
    told = with_scaling(WhyAnswer(job=JOB, reason="gpu", detail="no GPU", cure="wait"), choices)
    assert (told.detail, told.cure) == (detail, cure)


@pytest.mark.parametrize(
    ("grows", "phase", "is_down", "asked"),
    [
        (True, Phase.QUEUED, False, True),
        (False, Phase.QUEUED, False, False),
        (True, Phase.RUNNING, False, False),
        (True, Phase.QUEUED, True, False),
    ],
)
async def test_the_scaler_is_asked_about_a_job_that_waits_where_the_fleet_grows(
    grows: bool, phase: Phase, is_down: bool, asked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = FakeHarness()
    monkeypatch.setattr(type(harness.harness.catalogue), "grows", grows)
    harness.scheduler.known[JOB.id] = JOB.model_copy(update={"phase": phase})
    harness.scaler.choice_rows = [choice()]
    harness.scaler.is_down = is_down
    async with harness.client("eve") as client:
        told = (await client.get(f"/v1/jobs/{JOB.id}/why")).json()
    assert told["position"] == 3
    assert ("s000007" in told["cure"]) is asked
