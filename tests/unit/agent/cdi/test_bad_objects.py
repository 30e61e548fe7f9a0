"""Whatever objects say, nothing is raised, and what is told fits into facts: anybody may write some of them."""

from hypothesis import given
from hypothesis import strategies as st

from muster.agent.core.kubernetes.cdi.machine_sets import project_machine, project_machine_set
from muster.agent.core.kubernetes.cdi.operator import (
    MANAGED_BY,
    Operator,
    Site,
    project_own_request,
    project_resource,
    request_name_of,
)
from muster.agent.core.kubernetes.cdi.requests import project_request
from muster.agent.core.kubernetes.cdi.signals import backoffs_in, project_event
from muster.agent.core.kubernetes.worklist import Worklist
from muster.core import Instant
from muster.kube.objects import JsonObject
from muster.schemas.facts.scale import ProvisionFailed

_leaves = st.none() | st.booleans() | st.integers() | st.text(max_size=6) | st.just("9" * 5_000)
_keys = st.sampled_from(
    ("metadata", "spec", "status", "name", "resource", "size", "type", "model", "annotations", "labels", "replicas",
     "ownerReferences", "kind", "nodeRef", "failureMessage", "phase", "reason", "message", "involvedObject",
     "muster.dev/replicas", "muster.dev/adds", "device_id", "target_node", "finalizers", "lastTimestamp")
)  # fmt: skip
_objects = st.dictionaries(
    _keys, st.recursive(_leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_keys, inner, max_size=5)),
    max_size=5,
)  # fmt: skip


@given(raw=_objects)
def test_no_projection_raises(raw: JsonObject) -> None:
    view = project_machine_set(raw)
    assert view.own_replicas is None or view.own_replicas >= 0
    for project in (project_machine, project_request, project_own_request, project_resource, project_event):
        project(raw)


@given(text=st.text(max_size=60))
def test_no_status_raises(text: str) -> None:
    backoffs_in(text)


def test_a_machine_that_says_much_is_told_in_few_words() -> None:
    raw: JsonObject = {
        "metadata": {"name": "m", "ownerReferences": [{"kind": "MachineSet", "name": "s"}]},
        "status": {"failureMessage": "x" * 100_000},
    }
    view = project_machine(raw)
    assert view is not None
    assert ProvisionFailed(scale="s", reason=f"machine {view.name}: {view.failure}")


def test_a_device_that_no_fact_can_hold_is_not_told() -> None:
    operator = Operator("f", Worklist())
    name = request_name_of(Site("n", "gpu", "m"))
    own: JsonObject = {"metadata": {"name": name, "labels": {MANAGED_BY: "muster"}}, "spec": {"resource": {}}}
    view = project_own_request(own)
    assert view is not None
    operator.request_seen(view)
    for number, node in enumerate(("", "x" * 10_000, "n1")):
        raw: JsonObject = {
            "metadata": {"name": f"r{number}", "labels": {MANAGED_BY: name}},
            "spec": {"type": "gpu", "model": "m", "target_node": node},
            "status": {"state": "Online", "error": "e" * 100_000, "device_id": "d" * 100_000},
        }
        operator.resource_seen(project_resource(raw))
    operator.synced()
    operator.settle(Instant(0))
    (word,) = operator.observations()
    assert [one.node for one in word.payload.devices] == ["n1"]  # type: ignore[attr-defined]
