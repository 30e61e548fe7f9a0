"""What people do with devices, on the real servers: attach, look, detach, and follow a job that was waited for."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from kit.stack.living import TEAM, Harness, command, open_harness
from kit.waiting import until_async
from muster.client import (
    ConflictError,
    JobSpec,
    NotFoundError,
    Phase,
    RefusedError,
    RequestPhase,
    RequestView,
    TaskGroup,
)
from muster.fabric.layout import node_name
from muster.schemas.devices import AttachmentPhase, ComposabilitySpec
from muster.stack.options import StartOptions
from muster_tools.demo.settings import FABRIC, MODEL, WORKERS, demo_settings

pytestmark = [pytest.mark.connected, pytest.mark.asyncio(loop_scope="module")]

NODE = node_name(WORKERS, 1)
SAMPLE = Path(__file__).parents[3] / "examples" / "composability-request.yaml"
NEVER_S = 3_600.0


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def harness(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Harness]:
    """Two workers with a GPU each, a pool, and nothing that is taken away for being idle."""
    settings = demo_settings()
    scaling = settings["scaling"]
    assert isinstance(scaling, dict)
    scaling |= {"gpu_idle_s": NEVER_S, "node_unneeded_s": NEVER_S}
    start_options = StartOptions(
        state_dir=Path(tmp_path_factory.mktemp("harness")),
        settings=settings,
        sync_interval_s=120.0,
    )
    async with open_harness(start_options) as running:
        await until_async(lambda: workers_are_known(running))
        yield running


async def workers_are_known(harness: Harness) -> bool:
    """Both nodes can be used, and the fabric has told what is on them."""
    nodes = [node for node in await harness.muster.nodes() if node.usable]
    return len(nodes) == len(await harness.muster.devices()) == 2


async def online(harness: Harness, name: str, count: int) -> RequestView:
    """The request once so many of its devices may be used."""

    async def is_so() -> bool:
        request = await harness.muster.composability_request(name)
        phases = [one.phase for one in request.resources]
        return phases == [AttachmentPhase.ONLINE] * count and request.phase is RequestPhase.RUNNING

    await until_async(is_so)
    return await harness.muster.composability_request(name)


async def gpus_of(harness: Harness, name: str) -> int:
    return next(node.gpus for node in await harness.muster.nodes() if node.name == name)


async def test_the_published_sample_is_attached_changed_and_given_back(harness: Harness, tmp_path: Path) -> None:
    file = tmp_path / "request.yaml"
    file.write_text(
        SAMPLE.read_text().replace("NVIDIA-A100-PCIE-40GB", MODEL).replace("node1\n    force", f"{NODE}\n    force")
    )
    state_dir = harness.stack.state.path
    answered = await command(state_dir, "device", "attach", "-f", str(file))
    assert answered.startswith("gpus-for-node1: "), "whether it is judged by now, is the composer's speed"
    request = await online(harness, "gpus-for-node1", 2)
    assert {one.node for one in request.resources} == {NODE}
    assert await gpus_of(harness, NODE) == 3
    told = json.loads(await command(state_dir, "device", "list", "-o", "json"))
    assert {one["device_uuid"] for one in told} >= {one.device_uuid for one in request.resources}

    gone, kept = (one.device_uuid for one in request.resources)
    await command(state_dir, "device", "detach", gone, "--reason", "its fan")
    left = await online(harness, "gpus-for-node1", 1)
    assert [one.device_uuid for one in left.resources] == [kept]
    await command(state_dir, "device", "detach", "--request", "gpus-for-node1")

    async def is_over() -> bool:
        return (await harness.muster.composability_request("gpus-for-node1")).phase is RequestPhase.ENDED

    await until_async(is_over)
    await until_async(lambda: has_gpus(harness, NODE, 1))
    (fabric,) = await harness.muster.fabrics()
    assert (fabric.name, fabric.in_flight, fabric.orphans) == (FABRIC, 0, 0)


async def has_gpus(harness: Harness, name: str, count: int) -> bool:
    return await gpus_of(harness, name) == count


async def test_what_cannot_be_is_refused_with_the_field_before_anything_is_written(harness: Harness) -> None:
    for spec, field in (
        (ComposabilitySpec(model="B200", size=1), "spec.model"),
        (ComposabilitySpec(model=MODEL, size=99), "spec.size"),
        (ComposabilitySpec(model=MODEL, size=1, target_node="gone"), "spec.target_node"),
    ):
        with pytest.raises(RefusedError) as refusal:
            await harness.muster.compose(spec, name="never")
        assert refusal.value.problem.field == field
    with pytest.raises(NotFoundError):
        await harness.muster.composability_request("never")
    with pytest.raises(NotFoundError):
        await harness.muster.detach("GPU-unknown")


async def test_two_requests_for_the_same_node_and_model_name_each_other(harness: Harness) -> None:
    await harness.muster.compose(ComposabilitySpec(model=MODEL, size=1, target_node=NODE), name="first")
    await online(harness, "first", 1)  # the composer knows it: what it has not read yet is in nobody's way
    with pytest.raises(ConflictError) as refusal:
        await harness.muster.compose(ComposabilitySpec(model=MODEL, size=1, target_node=NODE), name="second")
    assert refusal.value.problem.holder == "first"
    await harness.muster.decompose("first")
    await until_async(lambda: has_gpus(harness, NODE, 1))


async def test_a_job_that_waited_for_a_gpu_shows_what_was_done_for_it(harness: Harness) -> None:
    spec = JobSpec(name="wide", team=TEAM, task_groups=(TaskGroup(gpus=3),))
    dry = await harness.muster.dry_run(spec)
    assert (dry.refused, dry.placed) == (False, False)
    job = await harness.muster.submit(spec)
    await harness.job_that(job.id, lambda found: found.phase is not Phase.QUEUED and found.running_at > 0)
    tree = json.loads(await command(harness.stack.state.path, "trace", job.id, "-o", "json"))
    assert set(tree["services"]) >= {"gateway", "federation", "scheduler", "scaler", "composer", "agent"}
    names = [span["name"] for span in tree["spans"]]
    order = ["unschedulable", "gpu-attach-chosen", "attaching", "attached", "visible", "placed", "running"]
    assert [name for name in dict.fromkeys(names) if name in order] == order
    chosen = next(span for span in tree["spans"] if span["name"] == "gpu-attach-chosen")
    told = json.loads(await command(harness.stack.state.path, "scale", chosen["subject_id"], "-o", "json"))
    assert (told["count"], told["jobs"], told["case"]) == (2, [job.id], 1)
    assert any(one["chosen"] for one in told["alternatives"])
    await harness.muster.cancel(job.id)
    await harness.ended([job.id])
