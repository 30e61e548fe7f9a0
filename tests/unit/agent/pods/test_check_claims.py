"""Where Muster chooses devices, a pod that checks a place has a claim of its own on those that the job's will get."""

from dataclasses import replace

import pytest

from muster.agent.core.cluster import CreatePods
from muster.agent.core.kubernetes.calls import Create, Kind
from muster.agent.core.kubernetes.live import LiveAttempt
from muster.agent.core.kubernetes.names import PodKey, pod_name
from muster.kube.objects import JsonObject, name_of, namespace_of, objects, text
from muster.schemas.facts.operations import CheckOrder, PreflightPlan
from muster.schemas.job import WorkloadRef
from unit.agent.pods.allocating import Allocator, order
from unit.agent.pods.claim_store import ClaimStore
from unit.agent.pods.orders import JOB, POLICY

ORIGIN = WorkloadRef(cluster="local", api_version="batch/v1", kind="Job", namespace="physics", name="j", uid="u-1")
PLAN = PreflightPlan(suite="quick", checks=(CheckOrder(check="device-count"),))
GUEST = replace(order(1, 2), origin=ORIGIN, preflight=PLAN)
CHECKS = LiveAttempt(GUEST).order_of(is_check=True)
CHECK_POD = pod_name(PodKey(JOB, 0, 0, 0, is_check=True))


class ByObject:
    """Implements `needs.OwnPods`, as objects say it."""

    def makes_own_pods(self, order: CreatePods) -> bool:
        return order.origin is not None


def new_agent(store: ClaimStore) -> Allocator:
    return Allocator(store, own=ByObject())  # type: ignore[arg-type] - another implementation of the port


def checks(agent: Allocator) -> None:
    """The pod that checks has its devices."""
    agent.store.pod(POLICY.namespace, CHECK_POD, "check")
    agent.needs.prepare(CHECKS, CHECKS.slots[0], name=CHECK_POD, uid="check", now=agent.now)
    agent.settle()
    assert len(agent.ready) == 1


def comes(agent: Allocator) -> None:
    """The pod of the object is there, and its claim, which has nothing yet."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "g0", "uid": "theirs", "controller": True}
    request = {"name": "mine", "exactly": {"deviceClassName": "gpu.muster.dev", "count": 2}}
    body: JsonObject = {
        "metadata": {"name": "made", "namespace": "physics", "ownerReferences": [owner]},
        "spec": {"devices": {"requests": [request]}},
    }
    agent.store.pod("physics", "g0", "theirs")
    agent.store.make(Create(Kind.CLAIMS, "physics", "made", body))
    agent.ready.clear()
    agent.needs.prepare(GUEST, GUEST.slots[0], name="g0", uid="theirs", now=agent.now)
    agent.settle()


def held(store: ClaimStore) -> dict[tuple[str, str], list[str]]:
    """Devices by namespace and name of their claim."""
    return {
        (namespace_of(one), name_of(one)): [
            text(result, "device") for result in objects(one, "status", "allocation", "devices", "results")
        ]
        for one in store.claims()
    }


def test_the_pod_that_checks_holds_the_chosen_devices_in_our_namespace() -> None:
    agent = new_agent(ClaimStore())
    checks(agent)
    assert held(agent.store) == {(POLICY.namespace, f"{CHECK_POD}-gpus"): ["gpu-1", "gpu-2"]}


def test_when_it_is_over_the_jobs_own_claim_gets_them() -> None:
    agent = new_agent(ClaimStore())
    checks(agent)
    agent.needs.release(CHECKS, CHECKS.slots[0], agent.now)
    agent.settle()
    assert held(agent.store) == {}
    comes(agent)
    assert held(agent.store) == {("physics", "made"): ["gpu-1", "gpu-2"]}
    assert (len(agent.ready), agent.refused) == (1, {})


@pytest.mark.parametrize("is_gone", [True, False])
def test_a_new_leader_takes_back_what_it_held_if_the_pod_is_gone(is_gone: bool) -> None:
    first = new_agent(ClaimStore())
    checks(first)
    if is_gone:
        del first.store.objects[Kind.PODS, POLICY.namespace, CHECK_POD]
    second = new_agent(first.store)
    second.settle()
    second.needs.release(CHECKS, CHECKS.slots[0], second.now)
    comes(second)
    assert (len(second.ready), len(second.refused)) == ((1, 0) if is_gone else (0, 1))
    holder = ("physics", "made") if is_gone else (POLICY.namespace, f"{CHECK_POD}-gpus")
    assert held(first.store)[holder] == ["gpu-1", "gpu-2"]
