"""The agent at a real API server, with KWOK's kubelets: jobs become pods, and what happens to these becomes facts."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from kit.kube.agents import WAIT_S, Agent, open_agent, running_job
from kit.kube.planes import AnyPlane
from kit.waiting import until_async
from muster.kube.objects import JsonObject, name_of
from muster.kube.resources import NODES, PODS
from muster.kube.shapes import Patch, Selection
from muster.schemas.job import Phase


@pytest_asyncio.fixture(loop_scope="function")
async def agent(plane: AnyPlane, tmp_path: Path) -> AsyncIterator[Agent]:
    async with open_agent(plane, tmp_path / "state") as agent:
        yield agent


async def test_jobs_run_and_end_with_their_exit_codes(agent: Agent) -> None:
    well = [await agent.harness.muster.submit(running_job(f"well-{n}", run_s=0.5)) for n in range(4)]
    gang = await agent.harness.muster.submit(running_job("gang", run_s=0.5, gpus=8, replicas=3))
    badly = await agent.harness.muster.submit(running_job("badly", run_s=0.5, exit_code=7))
    ended = await agent.harness.ended([one.id for one in (*well, gang, badly)])
    assert [one.phase for one in ended] == [Phase.SUCCEEDED] * 5 + [Phase.FAILED]
    assert ended[-1].exit_code == 7
    assert await agent.harness.violations([one.id for one in ended]) == []
    await agent.until_gone()


async def test_a_pod_that_is_deleted_behind_its_back_takes_its_gang_back_to_the_queue(agent: Agent) -> None:
    gang = await agent.harness.muster.submit(running_job("gang", gpus=4, replicas=2))
    await agent.phase_is(gang.id, Phase.RUNNING)
    first = {name_of(pod) for pod in await agent.pods()}
    await agent.kube.delete(PODS, min(first), namespace=agent.namespace, grace_s=0)

    async def runs_again() -> bool:
        pods = await agent.pods()
        return len(pods) == 2 and not first & {name_of(pod) for pod in pods}

    await until_async(runs_again, patience_s=WAIT_S)
    view = await agent.harness.job_that(gang.id, lambda one: one.attempt == 2 and one.phase is Phase.RUNNING, WAIT_S)
    assert view.exit_code == 0
    await agent.harness.muster.cancel(gang.id)
    await agent.phase_is(gang.id, Phase.CANCELLED)
    await agent.until_gone()


async def test_a_cordoned_node_gets_nothing_new_until_it_is_open_again(agent: Agent) -> None:
    names = sorted(name_of(node) for node in await _nodes(agent))
    for name in names[1:]:
        await agent.kube.patch(NODES, name, {"spec": {"unschedulable": True}}, kind=Patch.MERGE)

    async def withheld() -> bool:
        return len([fact for fact in await agent.harness.facts() if fact.name == "withheld"]) == len(names) - 1

    await until_async(withheld, patience_s=WAIT_S)
    jobs = [await agent.harness.muster.submit(running_job(f"whole-{n}", gpus=8, run_s=0.3)) for n in range(3)]
    ended = await agent.harness.ended([one.id for one in jobs])
    assert {node for one in ended for node in one.nodes} == {names[0]}
    for name in names[1:]:
        await agent.kube.patch(NODES, name, {"spec": {"unschedulable": False}}, kind=Patch.MERGE)
    jobs = [await agent.harness.muster.submit(running_job(f"wide-{n}", gpus=8)) for n in range(len(names))]
    for one in jobs:
        await agent.phase_is(one.id, Phase.RUNNING)


async def test_what_pods_of_others_use_is_not_given_away(agent: Agent) -> None:
    names = sorted(name_of(node) for node in await _nodes(agent))
    for number, name in enumerate(names):
        await agent.kube.create(PODS, _foreign(f"foreign-{number}", name), namespace=agent.namespace)

    async def counted() -> bool:
        joined = [fact for fact in await agent.harness.facts() if (fact.kind, fact.name) == ("node", "joined")]
        newest = {fact.subject_id: len(fact.payload.gpu_uuids) for fact in joined}  # type: ignore[attr-defined]
        return set(newest.values()) == {5}

    await until_async(counted, patience_s=WAIT_S)
    small = await agent.harness.muster.submit(running_job("small", gpus=5, run_s=0.3))
    assert [one.phase for one in await agent.harness.ended([small.id])] == [Phase.SUCCEEDED]


async def test_a_node_that_is_gone_takes_its_gang_back_to_the_queue(agent: Agent) -> None:
    one = await agent.harness.muster.submit(running_job("one", gpus=8))
    await agent.phase_is(one.id, Phase.RUNNING)
    node = (await agent.harness.muster.get(one.id)).nodes[0]
    await agent.kube.delete(NODES, node)
    view = await agent.harness.job_that(one.id, lambda now: now.attempt == 2 and now.phase is Phase.RUNNING, WAIT_S)
    assert view.nodes != (node,)


async def _nodes(agent: Agent) -> list[JsonObject]:
    selected = Selection(labels=f"muster.dev/test={agent.prefix}")
    return (await agent.kube.list_page(NODES, select=selected)).items


def _foreign(name: str, node: str) -> JsonObject:
    gpus = {"nvidia.com/gpu": "3"}
    container = {"name": "main", "image": "busybox", "resources": {"limits": gpus, "requests": gpus}}
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"nodeName": node, "containers": [container]},
    }  # fmt: skip
