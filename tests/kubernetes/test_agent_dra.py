"""The whole stack where Muster chooses devices: jobs become pods with claims, and every device comes back."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from kit.kube.choosers import DRIVER, WAIT_S, Chooser, held, open_chooser
from kit.kube.planes import AnyPlane
from kit.stack.living import job
from muster.kube.objects import JsonObject, at, name_of, objects
from muster.kube.resources import RESOURCE_CLAIMS
from muster.schemas.job import JobSpec, Phase, Topology
from muster.schemas.labels import RUN_S
from muster_tools.local_kubernetes.nodes import device_uuid


def running(name: str, *, run_s: float | None = None, **fields: object) -> JobSpec:
    """A job whose pods KWOK ends after `run_s`; None: they run on."""
    labels = {} if run_s is None else {RUN_S: f"{run_s:g}"}
    return job(name, **fields).model_copy(update={"labels": labels})  # type: ignore[arg-type] - fields of a job


@pytest_asyncio.fixture(loop_scope="function")
async def chooser(plane: AnyPlane, tmp_path: Path) -> AsyncIterator[Chooser]:
    async with open_chooser(plane, tmp_path / "state") as opened:
        yield opened


async def test_jobs_run_on_the_devices_that_were_chosen_and_give_them_back(chooser: Chooser) -> None:
    wide = await chooser.harness.muster.submit(running("wide", gpus=4, replicas=4))
    await chooser.harness.job_that(wide.id, lambda view: view.phase is Phase.RUNNING, WAIT_S)
    claims = await chooser.claims()
    assert len(held(claims)) == len(set(held(claims))) == 16
    for claim in claims:
        assert len(objects(claim, "status", "reservedFor")) == 1
    started = next(fact for fact in await chooser.harness.facts() if fact.name == "pods-started")
    told = {uuid for slot in started.payload.device_uuids for uuid in slot}  # type: ignore[attr-defined]
    assert told == {device_uuid(node, device) for node in range(2) for device in range(8)}
    waiting = await chooser.harness.muster.submit(running("waiting", gpus=8, run_s=0.3))
    await chooser.harness.muster.cancel(wide.id)
    assert [one.phase for one in await chooser.harness.ended([waiting.id])] == [Phase.SUCCEEDED]
    await chooser.until_nothing_is_left()


async def test_devices_of_one_socket_are_chosen_where_that_is_required(chooser: Chooser) -> None:
    spec = running("near", gpus=4, replicas=4).model_copy()
    near = spec.task_groups[0].model_copy(update={"topology": Topology(level="socket", required=True)})
    one = await chooser.harness.muster.submit(spec.model_copy(update={"task_groups": (near,)}))
    await chooser.harness.job_that(one.id, lambda view: view.phase is Phase.RUNNING, WAIT_S)
    for claim in await chooser.claims():
        numbers = sorted(int(device.removeprefix("gpu-")) for _, device in held([claim]))
        assert numbers in ([0, 1, 2, 3], [4, 5, 6, 7])


async def test_a_device_that_somebody_else_took_is_not_given_away(chooser: Chooser) -> None:
    node = chooser.nodes[0]
    request = {"name": "r", "exactly": {"deviceClassName": chooser.namespace}}
    body: JsonObject = {"metadata": {"name": "theirs"}, "spec": {"devices": {"requests": [request]}}}
    claim = await chooser.kube.create(RESOURCE_CLAIMS, body, namespace=chooser.namespace)
    result = {"request": "r", "driver": DRIVER, "pool": node, "device": "gpu-3"}
    claim["status"] = {"allocation": {"devices": {"results": [result]}}}
    await chooser.kube.replace(RESOURCE_CLAIMS, "theirs", claim, namespace=chooser.namespace, subresource="status")
    jobs = [await chooser.harness.muster.submit(running(f"one-{number}", gpus=1)) for number in range(15)]
    for one in jobs:
        await chooser.harness.job_that(one.id, lambda view: view.phase is Phase.RUNNING, WAIT_S)
    claims = await chooser.claims()
    assert len(held(claims)) == len(set(held(claims))) == 16
    assert [name_of(one) for one in claims if (node, "gpu-3") in held([one])] == ["theirs"]
    assert at(claim, "metadata", "ownerReferences") is None
