"""Devices moved by the field's operator: objects follow the composer's intents, and its news follow the objects."""

from typing import Any

import pytest

from kit.composer_fabrics import A100
from muster.agent.core.kubernetes.calls import Create, Delete, Done, Merge, Outcome, Refused
from muster.agent.core.kubernetes.cdi.operator import (
    DELETE_MARK,
    MANAGED_BY,
    REFUSED_AGAIN_S,
    Operator,
    project_own_request,
    project_resource,
)
from muster.agent.core.kubernetes.worklist import Worklist
from muster.bus.kubernetes_settings import KubernetesSettings
from muster.core import Draft, Fact
from muster.kube.permissions import Feature
from muster.schemas.devices import GPU
from muster.schemas.facts.fabric import OperatorSeen
from unit.agent.cdi.agent_harness import AgentHarness
from unit.agent.cdi.leader import Leader


class Operated(AgentHarness[Operator]):
    """The real composer, the agent's part, and an operator that does what its objects say when it is told to.

    refusals: of the next creations.
    """

    def __init__(self) -> None:
        super().__init__()
        self.requests: dict[str, dict[str, Any]] = {}
        self.resources: dict[str, dict[str, Any]] = {}
        self.version = self.made = 0
        self.refusals: list[Refused] = []
        self.creates = 0
        self.lead(())
        self.fabrics.stock("one", (GPU, A100), 8)
        self.node("n1")
        self.advance(0)
        self.run()

    def lead(self, facts: Any) -> None:
        self.worklist = Worklist()
        self.part = Operator("one", self.worklist)
        for fact in facts:
            self.part.apply(fact)
        self.show_objects()
        self.part.synced()

    def append(self, writer: str, draft: Draft, **rest: str) -> Fact:
        fact = super().append(writer, draft, **rest)
        self.part.apply(fact)
        return fact

    def show_objects(self) -> None:
        for raw in self.requests.values():
            view = project_own_request(raw)
            if view is not None:
                self.part.request_seen(view)
        for raw in self.resources.values():
            self.part.resource_seen(project_resource(raw))

    def answered(self) -> None:
        self.show_objects()

    def answer(self, call: object) -> Outcome:
        self.version += 1
        match call:
            case Create():
                self.creates += 1
                if self.refusals:
                    return self.refusals.pop(0)
                body: Any = call.body
                metadata = {**body["metadata"], "uid": f"u{self.version}", "resourceVersion": str(self.version)}
                self.requests[call.name] = {**body, "metadata": metadata}
            case Delete():
                del self.requests[call.name]
                self.part.request_gone(call.name)
            case Merge():
                stored = self.requests if call.name in self.requests else self.resources
                raw, change = stored[call.name], dict(call.body)
                version = change["metadata"].get("resourceVersion", raw["metadata"]["resourceVersion"])  # type: ignore[attr-defined]
                if version != raw["metadata"]["resourceVersion"]:
                    return Refused(409, "Conflict")
                raw["metadata"].setdefault("annotations", {}).update(change["metadata"].get("annotations", {}))  # type: ignore[attr-defined]
                if "spec" in change:
                    raw["spec"]["resource"].update(change["spec"]["resource"])  # type: ignore[index]
                raw["metadata"]["resourceVersion"] = str(self.version)
        return Done()

    def reconcile(self) -> None:
        """The operator attaches and gives back until there are as many as every request says."""
        for name, raw in self.requests.items():
            spec = raw["spec"]["resource"]
            mine = [key for key, one in self.resources.items() if one["metadata"]["labels"][MANAGED_BY] == name]
            marked = [key for key in mine if self.resources[key]["metadata"].get("annotations", {}).get(DELETE_MARK)]
            while len(mine) > spec["size"]:
                gone = (marked or mine)[0]
                mine.remove(gone)
                marked = [key for key in marked if key != gone]
                del self.resources[gone]
                self.part.resource_gone(gone)
            while len(mine) < spec["size"]:
                self.made += 1
                key = f"gpu-{self.made}"
                self.resources[key] = {
                    "metadata": {"name": key, "uid": key, "resourceVersion": "1", "labels": {MANAGED_BY: name}},
                    "spec": {"type": spec["type"], "model": spec["model"], "target_node": spec["target_node"]},
                    "status": {"state": "Online", "device_id": f"GPU-{self.made}", "cdi_device_id": f"res-{self.made}"},
                }
                mine.append(key)
        self.show_objects()
        self.run()

    def sizes(self) -> dict[str, int]:
        """By node."""
        return {
            raw["spec"]["resource"]["target_node"]: raw["spec"]["resource"]["size"] for raw in self.requests.values()
        }

    def told(self) -> OperatorSeen:
        payload = self.last("operator-seen").payload
        assert isinstance(payload, OperatorSeen)
        return payload


def test_what_the_composer_begins_is_one_request_for_a_node_and_model() -> None:
    it = Operated()
    it.compose("a", size=2, target_node="n1")
    it.run()
    (raw,) = it.requests.values()
    assert raw["metadata"]["labels"] == {MANAGED_BY: "muster"}
    assert raw["spec"]["resource"] == {
        "type": "gpu", "model": A100, "size": 2, "target_node": "machine-of-n1", "allocation_policy": "samenode",
    }  # fmt: skip


@pytest.mark.parametrize(
    "refusal", [Refused(404, "NotFound"), Refused(409, "AlreadyExists"), Refused(403, "Forbidden")]
)
def test_a_request_that_is_refused_is_not_asked_again_at_once(refusal: Refused) -> None:
    it = Operated()
    it.refusals = [refusal, refusal]
    it.compose(size=1, target_node="n1")
    it.run()
    assert it.creates == 1
    it.advance(REFUSED_AGAIN_S)
    it.run()
    assert (it.creates, it.sizes()) == (2, {})
    it.advance(REFUSED_AGAIN_S)
    it.run()
    assert (it.creates, it.sizes()) == (3, {"machine-of-n1": 1})


def test_what_the_operator_attached_is_told_once() -> None:
    it = Operated()
    it.compose(size=2, target_node="n1")
    it.run()
    it.reconcile()
    assert [(one.state, one.device_uuid) for one in it.told().devices] == [("Online", "GPU-1"), ("Online", "GPU-2")]
    before = it.names("fabric").count("operator-seen")
    it.show_objects()
    it.run()
    assert it.names("fabric").count("operator-seen") == before


def test_the_device_that_goes_is_marked_before_the_size_is_lowered() -> None:
    it = Operated()
    uuids = it.bring(size=2, target_node="n1")
    it.run()
    it.reconcile()
    for at, (key, raw) in enumerate(sorted(it.resources.items())):
        ids = [one.device_id for one in it.core.state.attachments.values()]
        raw["status"].update({"cdi_device_id": ids[at], "device_id": uuids[at]})
        assert key
    it.show_objects()
    it.run()
    assert it.sizes() == {"machine-of-n1": 2}
    it.detach(uuids[1])
    it.withhold()
    it.run()
    assert it.sizes() == {"machine-of-n1": 1}
    marked = [raw["status"]["device_id"] for raw in it.resources.values() if raw["metadata"].get("annotations")]
    assert marked == [uuids[1]]
    it.reconcile()
    assert [one.device_uuid for one in it.told().devices] == [uuids[0]]


def test_an_empty_request_is_deleted() -> None:
    it = Operated()
    it.bring(size=1, target_node="n1")
    it.run()
    it.reconcile()
    for raw in it.resources.values():
        (attachment,) = it.core.state.attachments.values()
        raw["status"]["cdi_device_id"] = attachment.device_id
    it.show_objects()
    it.decompose()
    it.withhold()
    it.run()
    assert it.sizes() == {"machine-of-n1": 0}
    it.reconcile()
    assert it.requests == {}


def test_requests_of_others_are_left_alone_and_not_told() -> None:
    it = Operated()
    theirs = {"metadata": {"name": "theirs", "uid": "t", "resourceVersion": "1"}, "spec": {"resource": {"size": 4}}}
    assert project_own_request(theirs) is None
    it.resources["x"] = {
        "metadata": {"name": "x", "uid": "x", "resourceVersion": "1", "labels": {MANAGED_BY: "theirs"}},
        "spec": {"type": "gpu", "model": A100, "target_node": "n1"},
        "status": {"state": "Online", "device_id": "GPU-x"},
    }
    it.show_objects()
    it.run()
    assert it.told().devices == ()
    assert it.requests == {}


def test_another_leader_writes_the_same() -> None:
    it = Operated()
    it.compose(size=2, target_node="n1")
    it.run()
    it.reconcile()
    before = len(it.log)
    for facts in (tuple(it.log), it.checkpoint()):
        it.lead(facts)
        it.run()
    assert it.sizes() == {"machine-of-n1": 2}
    assert [fact.name for fact in it.log[before:]] == []


def test_of_an_operator_whose_objects_may_not_be_seen_nothing_is_told_and_nothing_asked() -> None:
    it = Operated()
    it.compose(size=2, target_node="n1")
    it.run()
    it.reconcile()
    leader = Leader(KubernetesSettings(image="busybox", requests="operator"), it.log)
    leader.begin(Feature.OPERATOR)
    assert (leader.said(), len(leader.worklist)) == ([], 0)
    leader.begin()
    assert (leader.said(), len(leader.worklist)) == (["operator-seen"], 1)
