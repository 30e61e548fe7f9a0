"""A leader of the agent stopped in the middle of its calls, taken over, and continued: nothing is bound twice."""

import os
import signal
from collections import Counter
from pathlib import Path

import pytest

from kit.kube.fake import RUN_S, FakeKubelet, fake_kube, node
from kit.stack.kubernetes import NAMESPACE, kubeconfig_for, open_kubernetes_harness
from kit.stack.living import PASSED, Harness, job, second
from kit.waiting import until_async
from muster.kube.objects import JsonObject, name_of, namespace_of
from muster.kube.resources import NAMESPACES, NODES, PODS
from muster.schemas.job import Phase

pytestmark = [pytest.mark.connected]


async def test_a_stopped_leader_is_replaced_and_binds_nothing_twice_when_it_continues(tmp_path: Path) -> None:
    async with fake_kube() as kube:
        kube.add(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        for number in range(40):
            kube.add(NODES, node(f"gpu-{number:02}"))
        bound: Counter[str] = Counter()

        def count(pod: JsonObject) -> None:
            bound[name_of(pod)] += 1
            kube.change(PODS, name_of(pod), {"metadata": {"annotations": {RUN_S: "0.5"}}}, namespace_of(pod))

        kube.on_bind.append(count)
        path = kubeconfig_for(kube.url, tmp_path)
        kube.faults.latency_s = 0.05
        with FakeKubelet(kube):
            opened = open_kubernetes_harness(tmp_path / "state", path, split=True, services=PASSED, kept_s=0.0)
            async with opened as harness:
                await _takes_over(harness, bound)
                assert not kube.store.all(PODS, NAMESPACE), "everything was cleared away"


async def _takes_over(harness: Harness, bound: "Counter[str]") -> None:
    async with second("agent", harness):
        leader = harness.pid("agent")
        accepted = [(await harness.muster.submit(job(f"before-{index}"))).id for index in range(60)]
        os.kill(leader, signal.SIGSTOP)
        try:
            accepted += [(await harness.muster.submit(job(f"during-{index}", replicas=2))).id for index in range(30)]

            async def replaced() -> bool:
                terms = [fact for fact in await harness.facts() if fact.name == "term-started"]
                return sum(fact.writer == "agent" for fact in terms) > 1

            await until_async(replaced)
        finally:
            os.kill(leader, signal.SIGCONT)
        accepted += [(await harness.muster.submit(job(f"after-{index}"))).id for index in range(30)]
        ended = await harness.ended(accepted)
        assert {one.phase for one in ended} == {Phase.SUCCEEDED}
        assert {one.attempt for one in ended} == {1}, "nothing was lost on the way"
        assert await harness.violations(accepted) == []
        assert max(bound.values()) == 1
