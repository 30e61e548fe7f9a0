"""ComposabilityRequests over HTTP: what is accepted, who may ask, what is stored, what is told."""

import asyncio

import pytest

from kit.http.gateway import FakeHarness, lost_log
from muster.gateway.api import changes
from muster.schemas.devices import ComposabilitySpec, RequestPhase, RequestView
from muster.schemas.queries import AskCompose, AskDetach, DeviceCheckAnswer

PATH = "/v1/composability-requests"
RESOURCE = {
    "type": "gpu",
    "size": 2,
    "model": "NVIDIA-A100-PCIE-40GB",
    "target_node": "node1",
    "force_detach": True,
    "allocation_policy": "samenode",
}
SAMPLE = {
    "apiVersion": "v1alpha1",
    "kind": "ComposabilityRequest",
    "metadata": {"name": "sample"},
    "spec": {"resource": RESOURCE},
}
SPEC = ComposabilitySpec.model_validate(RESOURCE)


def row(phase: RequestPhase = RequestPhase.RUNNING, *, name: str = "sample", **rest: object) -> RequestView:
    return RequestView.model_validate({"name": name, "cluster": "atlas", "spec": SPEC, "phase": phase} | rest)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "CHANGE_WAIT_S", 0.0)


async def test_the_published_sample_is_accepted_as_it_stands() -> None:
    harness = FakeHarness()
    async with harness.client("olga") as client:
        answer = await client.post(PATH, json=SAMPLE)
    assert (answer.status_code, answer.json()["name"]) == (202, "sample")
    ((name, payload),) = harness.log.composed.values()
    assert (name, payload.spec, payload.principal, payload.may_force) == ("sample", SPEC, "olga", True)
    assert payload.cluster == harness.composer.cluster
    assert harness.composer.asked == [AskCompose(name="sample", spec=SPEC, may_force=True)]


async def test_the_short_form_means_the_same() -> None:
    harness = FakeHarness()
    async with harness.client("olga") as client:
        await client.post(PATH, json={"name": "sample", "spec": RESOURCE})
    ((name, payload),) = harness.log.composed.values()
    assert (name, payload.spec) == ("sample", SPEC)


async def test_a_request_without_a_name_gets_one_from_its_key() -> None:
    harness = FakeHarness()
    async with harness.client("olga") as client:
        told = [
            (await client.post(PATH, json={"spec": RESOURCE}, headers={"Idempotency-Key": key})).json()["name"]
            for key in ("k", "k", "other")
        ]
    assert told[0] == told[1] != told[2]
    assert {name for name, _ in harness.log.composed.values()} == set(told)


@pytest.mark.parametrize(("who", "status"), [("eve", 403), ("ann", 403), ("olga", 202), ("root", 202)])
async def test_only_operators_attach(who: str, status: int) -> None:
    harness = FakeHarness()
    async with harness.client(who) as client:
        assert (await client.post(PATH, json=SAMPLE)).status_code == status
    assert len(harness.log.composed) == (status == 202)


@pytest.mark.parametrize("body", [{"spec": {**RESOURCE, "force_detach": False}}, {"spec": {}}, [1]])
async def test_who_may_not_attach_is_told_so_whatever_is_sent_and_nobody_is_asked(body: object) -> None:
    harness = FakeHarness()
    async with harness.client("ann") as client:
        answer = await client.post(PATH, json=body)
    told = answer.json()
    assert (answer.status_code, told["field"], told["cure"]) == (403, "Authorization", "Ask an operator.")
    assert harness.composer.asked == []


@pytest.mark.parametrize(
    ("verdict", "holder"),
    [
        (DeviceCheckAnswer(field="force_detach", reason="GPU-1 is held by JOB", holder="JOB"), "JOB"),
        (DeviceCheckAnswer(field="size", reason="the pool has 1"), None),
        (DeviceCheckAnswer(), None),
        (None, None),
    ],
    ids=["held", "other", "fine", "away"],
)
async def test_force_without_the_role_names_the_field_and_who_would_be_hurt(
    verdict: DeviceCheckAnswer | None, holder: str | None
) -> None:
    harness = FakeHarness()
    harness.composer.is_down = verdict is None
    harness.composer.check = verdict or DeviceCheckAnswer()
    async with harness.client("ann") as client:
        answer = await client.post(PATH, json=SAMPLE)
    told = answer.json()
    assert (answer.status_code, told["field"], told.get("holder")) == (403, "spec.resource.force_detach", holder)
    assert ("held by JOB" in told["detail"], told["cure"]) == (holder is not None, "Ask an operator.")
    assert harness.composer.asked == (
        [] if verdict is None else [AskCompose(name="sample", spec=SPEC, may_force=False)]
    )


async def test_force_in_the_short_form_is_named_as_it_was_sent() -> None:
    async with FakeHarness().client("ann") as client:
        answer = await client.post(PATH, json={"name": "sample", "spec": RESOURCE})
    assert (answer.status_code, answer.json()["field"]) == (403, "spec.force_detach")


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({**SAMPLE, "kind": "Pod"}, 422, "kind"),
        ({**SAMPLE, "apiVersion": "v9"}, 422, "apiVersion"),
        ({**SAMPLE, "status": {}}, 422, "status"),
        ({**SAMPLE, "spec": {"resource": {**RESOURCE, "size": -1}}}, 422, "spec.resource.size"),
        ({**SAMPLE, "spec": {"resource": {**RESOURCE, "size": "2"}}}, 422, "spec.resource.size"),
        ({**SAMPLE, "metadata": {"name": "s000007"}}, 422, "metadata.name"),
        ({"name": "Two Words", "spec": RESOURCE}, 422, "name"),
        ({"spec": {**RESOURCE, "allocation_policy": "anywhere"}}, 422, "spec.allocation_policy"),
        ({"spec": {**RESOURCE, "allocation_policy": "roundrobin"}}, 422, "spec"),
        ({}, 422, "spec"),
        ([1], 422, "body"),
    ],
)
async def test_a_request_that_makes_no_sense_names_its_field(body: object, status: int, field: str) -> None:
    harness = FakeHarness()
    async with harness.client("olga") as client:
        answer = await client.post(PATH, json=body)
    assert (answer.status_code, answer.json()["field"]) == (status, field)
    assert not harness.log.composed


async def test_what_is_no_json_is_400() -> None:
    async with FakeHarness().client("olga") as client:
        answer = await client.post(PATH, content=b"kind: ComposabilityRequest")
    assert (answer.status_code, answer.json()["field"]) == (400, "body")


@pytest.mark.parametrize(
    ("verdict", "status", "field", "holder"),
    [
        (DeviceCheckAnswer(field="size", reason="the pool has 1"), 422, "spec.resource.size", None),
        (
            DeviceCheckAnswer(field="target_node", reason="no node1", unknown=True),
            422,
            "spec.resource.target_node",
            None,
        ),
        (DeviceCheckAnswer(field="size", reason="held", holder="JOB"), 409, "spec.resource.size", "JOB"),
        (DeviceCheckAnswer(field="name", reason="of another", holder="other"), 409, "metadata.name", "other"),
    ],
)
async def test_what_the_composer_would_refuse_names_field_and_holder(
    verdict: DeviceCheckAnswer, status: int, field: str, holder: str | None
) -> None:
    harness = FakeHarness()
    harness.composer.check = verdict
    async with harness.client("olga") as client:
        answer = await client.post(PATH, json=SAMPLE)
    problem = answer.json()
    assert (answer.status_code, problem["field"], problem.get("holder")) == (status, field, holder)
    assert verdict.reason in problem["detail"]
    assert (holder or "") in problem["detail"]
    assert not harness.log.composed


async def test_a_request_is_answered_as_the_composer_took_it_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "CHANGE_WAIT_S", 5.0)
    harness = FakeHarness()
    async with harness.client("olga") as client, asyncio.TaskGroup() as tasks:
        asked = tasks.create_task(client.post(PATH, json=SAMPLE))
        while not harness.log.composed:  # noqa: ASYNC110 - turns of the loop, no time passes
            await asyncio.sleep(0)
        harness.composer.request_rows = [row(RequestPhase.NODE_ALLOCATING)]
    assert (asked.result().status_code, asked.result().json()["phase"]) == (200, "NodeAllocating")


async def test_a_refusal_that_comes_after_the_check_is_told_and_an_old_one_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(changes, "CHANGE_WAIT_S", 5.0)
    harness = FakeHarness()
    harness.composer.request_rows = [row(RequestPhase.REFUSED, field="model", error="unknown model", since=1)]
    async with harness.client("olga") as client, asyncio.TaskGroup() as tasks:
        asked = tasks.create_task(client.post(PATH, json=SAMPLE))
        while not harness.log.composed:  # noqa: ASYNC110 - turns of the loop, no time passes
            await asyncio.sleep(0)
        harness.composer.request_rows = [row(RequestPhase.REFUSED, field="size", error="the pool has 1", since=2)]
    problem = asked.result().json()
    assert (asked.result().status_code, problem["field"]) == (422, "spec.resource.size")


async def test_a_request_that_lives_keeps_what_it_has_and_the_refused_change_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(changes, "CHANGE_WAIT_S", 5.0)
    harness = FakeHarness()
    old = SPEC.model_copy(update={"size": 1})
    harness.composer.request_rows = [row(spec=old, field="model", error="an older refusal")]
    async with harness.client("olga") as client, asyncio.TaskGroup() as tasks:
        asked = tasks.create_task(client.post(PATH, json=SAMPLE))
        while not harness.log.composed:  # noqa: ASYNC110 - turns of the loop, no time passes
            await asyncio.sleep(0)
        harness.composer.request_rows = [row(spec=old, field="size", error="the pool has 1")]
    problem = asked.result().json()
    assert (asked.result().status_code, problem["field"]) == (422, "spec.resource.size")


async def test_with_the_composer_away_a_request_is_stored_and_reads_are_503() -> None:
    harness = FakeHarness()
    harness.composer.is_down = True
    async with harness.client("olga") as client:
        assert (await client.post(PATH, json=SAMPLE)).status_code == 202
        answers = [await client.get(path) for path in (PATH, f"{PATH}/sample", "/v1/devices", "/v1/fabrics")]
    assert [answer.status_code for answer in answers] == [503] * 4
    assert len(harness.log.composed) == 1


async def test_everybody_may_look_and_one_request_is_found_by_its_name() -> None:
    harness = FakeHarness()
    harness.composer.request_rows = [row(), row(RequestPhase.ENDED, name="old")]
    async with harness.client("eve") as client:
        listed = (await client.get(PATH)).json()["requests"]
        one = await client.get(f"{PATH}/old")
        none = await client.get(f"{PATH}/new")
    assert [found["name"] for found in listed] == ["sample", "old"]
    assert (one.json()["phase"], none.status_code) == ("Ended", 404)


@pytest.mark.parametrize(("who", "status"), [("ann", 403), ("olga", 202)])
async def test_who_may_give_devices_back(who: str, status: int) -> None:
    harness = FakeHarness()
    harness.composer.request_rows = [row()]
    async with harness.client(who) as client:
        answer = await client.delete(f"{PATH}/sample", params={"force": "true", "reason": "done"})
    assert answer.status_code == status
    assert harness.composer.asked == [AskDetach(request="sample", force=True, may_force=status == 202)]
    told = [
        (name, one.principal, one.reason, one.force, one.may_force, one.cluster) for name, one in harness.log.decomposed
    ]
    assert told == ([("sample", "olga", "done", True, True, "atlas")] if status == 202 else [])


async def test_giving_back_by_force_without_the_role_names_the_flag_and_the_holder() -> None:
    harness = FakeHarness()
    harness.composer.check = DeviceCheckAnswer(field="force", reason="GPU-1 is held by JOB", holder="JOB")
    async with harness.client("ann") as client:
        forced = (await client.delete(f"{PATH}/sample", params={"force": "true"})).json()
        plain = (await client.delete(f"{PATH}/sample")).json()
    assert (forced["status"], forced["field"], forced["holder"]) == (403, "force", "JOB")
    assert (plain["status"], plain["field"], plain.get("holder")) == (403, "Authorization", None)


@pytest.mark.parametrize(
    ("rows", "status", "phase"),
    [
        ([row(RequestPhase.DELETING)], 202, "Deleting"),
        ([row(RequestPhase.ENDED)], 200, "Ended"),
        ([], 200, "Ended"),
    ],
)
async def test_giving_back_is_answered_as_soon_as_it_is_taken_up(
    rows: list[RequestView], status: int, phase: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "CHANGE_WAIT_S", 5.0)
    harness = FakeHarness()
    harness.composer.request_rows = [row()]
    async with harness.client("olga") as client, asyncio.TaskGroup() as tasks:
        asked = tasks.create_task(client.delete(f"{PATH}/sample"))
        while not harness.log.decomposed:  # noqa: ASYNC110 - turns of the loop, no time passes
            await asyncio.sleep(0)
        harness.composer.request_rows = rows
    assert (asked.result().status_code, asked.result().json()["phase"]) == (status, phase)


async def test_a_request_that_is_over_is_not_asked_for_again_and_an_unknown_one_is_404() -> None:
    harness = FakeHarness()
    harness.composer.request_rows = [row(RequestPhase.ENDED)]
    async with harness.client("olga") as client:
        over = await client.delete(f"{PATH}/sample")
        unknown = await client.delete(f"{PATH}/other")
    assert (over.status_code, unknown.status_code) == (200, 404)
    assert not harness.log.decomposed


async def test_devices_that_jobs_hold_stay_and_the_holder_is_named() -> None:
    harness = FakeHarness()
    harness.composer.request_rows = [row()]
    harness.composer.check = DeviceCheckAnswer(field="force", reason="GPU-1 is held", holder="JOB")
    async with harness.client("olga") as client:
        answer = await client.delete(f"{PATH}/sample")
    assert (answer.status_code, answer.json()["holder"]) == (409, "JOB")
    assert not harness.log.decomposed


async def test_the_facts_carry_the_clients_trace_or_one_of_the_request() -> None:
    harness = FakeHarness()
    brought = f"00-{'ab' * 16}-{'cd' * 8}-01"
    async with harness.client("olga") as client:
        for headers in ({"traceparent": brought}, {}, {}):
            await client.post(PATH, json=SAMPLE, headers={"Idempotency-Key": "k", **headers})
    assert harness.log.traces[0] == brought
    assert harness.log.traces[1] == harness.log.traces[2] != brought
    assert len(harness.log.traces[1]) == len(brought)


async def test_a_request_that_was_not_stored_is_503() -> None:
    harness = FakeHarness()
    harness.log.fails = lost_log()
    async with harness.client("olga") as client:
        assert (await client.post(PATH, json=SAMPLE)).status_code == 503
