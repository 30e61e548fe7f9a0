"""Pools of fabrics as ResourceSlices, and claims that were given something of them."""

from collections.abc import Callable
from typing import Any

import pytest

from kit.composer_fabrics import A100
from kit.log import a_fact
from muster.agent.core.kubernetes.calls import Create, Done, Kind, Outcome, Read, Refused, Replace
from muster.agent.core.kubernetes.cdi.pool import DEVICES_MAX, FAILED, READY, RESCHEDULE, Pool, PoolPolicy
from muster.agent.core.kubernetes.cdi.request_book import RequestBook
from muster.agent.core.kubernetes.claims import project_claim
from muster.agent.core.kubernetes.worklist import Task, Worklist
from muster.core import Draft, Fact, Instant
from muster.kube.objects import objects
from muster.schemas.devices import GPU, PoolModel
from muster.schemas.facts.composability import RequestEnded
from muster.schemas.facts.fabric import FabricSurveyed
from unit.agent.cdi.agent_harness import AgentHarness

POLICY = PoolPolicy("gpu.nvidia.com", {A100: "a100"}, {"one": 0}, {"one": ("composable",)}, "muster.dev/node-group")
POOL = "a100-fabric0"
NOW = Instant(1)


class Yard(AgentHarness[Pool]):
    """The real composer, the agent's part, and an API server of slices and claims."""

    def __init__(self) -> None:
        super().__init__()
        self.slices: dict[str, dict[str, Any]] = {}
        self.claims: dict[str, dict[str, Any]] = {}
        self.version = 0
        self.writes: list[object] = []
        self.conflicts = 0
        self.meanwhile: dict[Kind, Callable[[], object]] = {}
        self.lead(())
        self.fabrics.stock("one", (GPU, A100), 4)
        self.node("n1")
        self.advance(0)
        self.run()

    def lead(self, facts: Any) -> None:
        self.worklist, self.book = Worklist(), RequestBook()
        self.part = Pool(POLICY, self.worklist, self.book)
        for fact in facts:
            self._fold(fact)
        for raw in self.claims.values():
            self.part.claim_seen(project_claim(raw))
        self.part.synced()

    def append(self, writer: str, draft: Draft, **rest: str) -> Fact:
        fact = super().append(writer, draft, **rest)
        self._fold(fact)
        return fact

    def _fold(self, fact: Fact) -> None:
        self.book.apply(fact)
        self.part.apply(fact)

    def answer(self, call: object) -> Outcome:
        assert isinstance(call, Read | Create | Replace)
        stored = self.slices if call.kind is Kind.SLICES else self.claims
        if isinstance(call, Read):
            return Done(stored[call.name]) if call.name in stored else Refused(404, "NotFound")
        self.writes.append(call)
        if call.kind in self.meanwhile:
            self.meanwhile.pop(call.kind)()
            self.part.settle(self.now)
        body: Any = call.body
        if isinstance(call, Replace) and self.conflicts:
            self.conflicts -= 1
            stored[call.name]["metadata"]["resourceVersion"] += "x"
            return Refused(409, "Conflict")
        if (
            isinstance(call, Replace)
            and body["metadata"].get("resourceVersion") != stored[call.name]["metadata"]["resourceVersion"]
        ):
            return Refused(409, "Conflict")
        self.version += 1
        stored[call.name] = {**body, "metadata": {**body["metadata"], "resourceVersion": str(self.version)}}
        if stored is self.claims:
            self.part.claim_seen(project_claim(stored[call.name]))
        return Done(stored[call.name])

    def published(self) -> list[str]:
        return [one["name"] for one in self.slices[POOL]["spec"]["devices"]]

    def generation(self) -> int:
        return int(self.slices[POOL]["spec"]["pool"]["generation"])

    def claim(self, name: str, *, pool: str = POOL, node: str = "n1", devices: int = 1) -> None:
        """A scheduler gives the claim devices."""
        results = [
            {"request": "r", "driver": POLICY.driver, "pool": pool, "device": f"a100-{at}"} for at in range(devices)
        ]
        field = {"key": "metadata.name", "operator": "In", "values": [node]}
        allocation = {
            "devices": {"results": results},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
        }
        self.version += 1
        metadata = {"name": name, "namespace": "ml", "uid": f"uid-{name}", "resourceVersion": str(self.version)}
        self.claims[name] = {"metadata": metadata, "spec": {}, "status": {"allocation": allocation}}
        self.part.claim_seen(project_claim(self.claims[name]))

    def conditions(self, name: str) -> list[str]:
        return [said["type"] for one in self.claims[name]["status"].get("devices", []) for said in one["conditions"]]

    def attach_all(self) -> None:
        self.run()
        while self.fabrics.attaching:
            for call in self.fabrics.attaching:
                self.fabrics.finish(call)
            self.run()
        self.plug()
        self.run()


def test_what_is_free_is_published_without_identity() -> None:
    yard = Yard()
    spec = yard.slices[POOL]["spec"]
    assert yard.published() == ["a100-0", "a100-1", "a100-2", "a100-3"]
    assert spec["pool"] == {"name": POOL, "generation": 1, "resourceSliceCount": 1}
    (term,) = spec["nodeSelector"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [{"key": "muster.dev/node-group", "operator": "In", "values": ["composable"]}]
    assert "nodeName" not in spec
    device = spec["devices"][0]
    assert device["attributes"]["uuid"] == {"string": ""}
    assert (device["bindsToNode"], device["bindingConditions"]) == (True, [READY])
    assert device["bindingFailureConditions"] == [RESCHEDULE, FAILED]


def test_what_was_attached_is_in_the_pool_no_longer() -> None:
    yard = Yard()
    yard.compose(size=3)
    yard.attach_all()
    assert yard.published() == ["a100-0"]
    assert yard.generation() > 1


def test_what_the_fabric_says_while_a_slice_is_written_is_published_after_it() -> None:
    worklist = Worklist()
    pool = Pool(POLICY, worklist, RequestBook())
    pool.synced()

    def call() -> Task:
        pool.settle(NOW)
        task = worklist.take(NOW)
        assert task is not None
        return task

    worklist.finished(call(), Refused(404, "NotFound"), NOW)
    creates = call()
    assert isinstance(creates.call, Create)
    surveyed = FabricSurveyed(pool=(PoolModel(model=A100, free=1),))
    pool.apply(a_fact("composer", "fabric", "one", "surveyed", surveyed))
    pool.settle(NOW)
    worklist.finished(creates, Done(creates.call.body), NOW)
    worklist.finished(call(), Done(creates.call.body), NOW)
    replaces = call().call
    assert isinstance(replaces, Replace)
    assert len(objects(replaces.body, "spec", "devices")) == 1


def test_a_claim_is_told_what_became_of_it_while_it_was_told_something_else() -> None:
    yard = Yard()
    yard.claim("train")
    ended = RequestEnded(reason="the node is gone", failed=True)
    yard.meanwhile[Kind.CLAIMS] = lambda: yard.write("composer", "composability", "claim-uid-train", "ended", ended)
    yard.attach_all()
    assert yard.conditions("train") == [FAILED]


def test_nothing_is_written_that_is_so_already() -> None:
    yard = Yard()
    before = len(yard.writes)
    yard.advance(1_000)
    yard.run()
    assert len(yard.writes) == before
    yard.slices[POOL]["spec"]["devices"] = []
    yard.advance(1_000)
    yard.run()
    assert len(yard.published()) == 4


def test_of_a_large_pool_no_more_is_shown_than_a_slice_holds() -> None:
    yard = Yard()
    yard.fabrics.stock("one", (GPU, A100), 500)
    yard.advance(10_000)
    yard.run()
    assert len(yard.published()) == DEVICES_MAX


def test_a_claim_that_was_given_one_gets_it_on_its_node() -> None:
    yard = Yard()
    yard.claim("train", devices=2)
    yard.run()
    assert yard.conditions("train") == []
    yard.attach_all()
    assert yard.conditions("train") == [RESCHEDULE, RESCHEDULE]
    assert len(yard.descriptions["n1"].gpu_uuids) == 2


def test_a_claim_that_cannot_be_served_is_told() -> None:
    yard = Yard()
    yard.claim("train", node="nowhere")
    yard.attach_all()
    assert yard.conditions("train") == [FAILED]


def test_a_claim_of_the_nodes_own_devices_is_nobodys_here() -> None:
    yard = Yard()
    yard.claim("local", pool="n1")
    yard.attach_all()
    assert yard.conditions("local") == []
    assert yard.names("composability") == []


def test_the_device_stays_while_the_claim_uses_it_and_goes_back_after() -> None:
    yard = Yard()
    yard.claim("train")
    yard.attach_all()
    yard.claim("train", pool="n1")  # rescheduled, onto what the node publishes now
    yard.attach_all()
    assert "decompose-requested" not in yard.names("composability")
    yard.claims.clear()
    yard.part.claim_gone("uid-train")
    yard.run()
    yard.withdraw_all()
    yard.run()
    assert yard.names("composability")[-1] == "ended"
    assert len(yard.published()) == 4


def test_a_condition_is_put_beside_what_others_said_and_after_a_conflict() -> None:
    yard = Yard()
    yard.claim("train")
    yard.claims["train"]["status"]["devices"] = [
        {"driver": "nic.example.com", "pool": "n1", "device": "n0", "conditions": []}
    ]
    yard.conflicts = 1
    yard.attach_all()
    yard.advance(20)
    yard.run()
    assert yard.conditions("train") == [RESCHEDULE]
    assert len(yard.claims["train"]["status"]["devices"]) == 2


@pytest.mark.parametrize("is_rescheduled", [False, True])
def test_another_leader_asks_nothing_twice_and_gives_nothing_back(is_rescheduled: bool) -> None:
    yard = Yard()
    yard.claim("train")
    yard.attach_all()
    if is_rescheduled:
        yard.claim("train", pool="n1")
    yard.run()
    before = len(yard.log)
    yard.lead(tuple(yard.log))
    yard.run()
    assert [fact.name for fact in yard.log[before:]] == []
