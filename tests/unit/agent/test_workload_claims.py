"""Pods whose GPUs come by claims that others make of templates: what they ask, and what is told while they cannot."""

import pytest

from kit.agent_workloads import SPEC, WatchingAgent, seen
from kit.kube.objects import asking_pod, batch_job, job_set, mpi_job
from muster.agent.core.workload_values import AdoptedPod, PodAsks, Unfit, WorkloadKind, WorkloadPolicy, WorkloadView
from muster.agent.core.workloads.claim_templates import CLAIM_ONLY, DEVICES_MAX, TemplateProjection, TemplateView
from muster.agent.core.workloads.objects import WorkloadProjection
from muster.agent.core.workloads.pod_gangs import AdoptedProjection
from muster.kube.objects import JsonObject, mapping, objects
from muster.kube.resources import WORKLOADS
from muster.schemas.facts.workload import WorkloadRejected

POLICY = WorkloadPolicy(cluster="local", teams={"physics": "physics"})
NO_COUNT = SPEC.model_copy(update={"task_groups": (SPEC.task_groups[0].model_copy(update={"gpus": 0, "replicas": 2}),)})


def exactly(count: int = 2, **rest: object) -> JsonObject:
    return {"name": "gpus", "exactly": {"deviceClassName": "gpu.muster.dev", "count": count, **rest}}


def template(*requests: JsonObject, name: str = "two", **devices: object) -> JsonObject:
    spec = {"devices": {"requests": list(requests), **devices}}
    return {"metadata": {"name": name, "namespace": "blue"}, "spec": {"spec": spec}}


def view_of(raw: JsonObject) -> TemplateView:
    view = TemplateProjection(POLICY)(raw)
    assert view is not None
    return view


def claiming(*names: str) -> JsonObject:
    """A pod's spec, by count of nothing."""
    claims = [{"name": f"c{index}", "resourceClaimTemplateName": name} for index, name in enumerate(names)]
    return {"resourceClaims": claims}


def claims(pod_spec: JsonObject, name: str = "two") -> None:
    """The pods of this spec have a claim instead of a count."""
    pod_spec |= claiming(name)
    container = objects(pod_spec, "containers")[0]
    container["resources"] = {"limits": {"cpu": "1"}, "claims": [{"name": "c0"}]}


def waiting(name: str = "two", **rest: object) -> WorkloadView:
    return seen(kind=WorkloadKind.JOB, suspended=True, asks=NO_COUNT, templates=(name,), **rest)


@pytest.fixture
def agent() -> WatchingAgent:
    agent = WatchingAgent()
    agent.describe("scheduler")
    return agent


def test_a_template_says_how_many_gpus_its_claims_have() -> None:
    assert view_of(template(exactly(2), exactly(1))).gpus == 3


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        (template(exactly(selectors=[{"cel": {"expression": "true"}}])), "selectors"),
        (template(exactly(adminAccess=True)), "adminAccess"),
        (template(exactly(allocationMode="All")), "requests[gpus]"),
        (template(exactly(deviceClassName="nic.example.com")), "requests[gpus]"),
        (template({"name": "any", "firstAvailable": []}), "requests[any]"),
        (template(exactly(), constraints=[{"matchAttribute": "resource.kubernetes.io/numaNode"}]), "constraints"),
        (template(exactly(DEVICES_MAX + 1)), "requests"),
        (template(), "requests"),
    ],
)
def test_a_template_that_asks_more_than_a_number_is_refused_by_its_field(raw: JsonObject, field: str) -> None:
    why = view_of(raw).why
    assert why is not None
    assert field in why.field
    assert "template two" in why.reason
    assert "gpu.muster.dev" in why.cure


def test_pods_and_all_objects_that_make_pods_name_their_templates() -> None:
    job, jobs, mpi = batch_job("j", gpus=0), job_set("s", gpus=0), mpi_job("m", gpus=0)
    claims(mapping(job, "spec", "template", "spec"))
    worker = objects(jobs, "spec", "replicatedJobs")[1]
    claims(mapping(worker, "template", "spec", "template", "spec"))
    claims(mapping(mpi, "spec", "mpiReplicaSpecs", "Worker", "template", "spec"))
    found = []
    for kind, raw in ((WorkloadKind.JOB, job), (WorkloadKind.JOB_SET, jobs), (WorkloadKind.MPI_JOB, mpi)):
        view = WorkloadProjection(kind, WORKLOADS[kind.value].api_version, POLICY)(raw)
        found.append(view.templates if view is not None else None)
    assert found == [("two",), ("", "two"), ("", "two")]
    pod = asking_pod("p", gpus=0)
    claims(mapping(pod, "spec"))
    adopted = AdoptedProjection(POLICY)({**pod, "status": {"phase": "Pending"}})
    assert isinstance(adopted, AdoptedPod)
    assert isinstance(adopted.asks, PodAsks)
    assert adopted.asks.shape.template == "two"


@pytest.mark.parametrize(
    "claimed", [claiming("a", "b"), {"resourceClaims": [{"name": "shared", "resourceClaimName": "ours"}]}]
)
def test_claims_that_pods_share_and_second_ones_are_refused(claimed: JsonObject) -> None:
    pod = asking_pod("p", gpus=0, **claimed)
    adopted = AdoptedProjection(POLICY)({**pod, "status": {"phase": "Pending"}})
    assert isinstance(adopted, AdoptedPod)
    assert isinstance(adopted.asks, Unfit)
    assert "resourceClaims" in adopted.asks.field


def test_a_pod_cannot_ask_by_claim_and_by_count() -> None:
    adopted = AdoptedProjection(POLICY)({**asking_pod("p", gpus=1, **claiming("two")), "status": {"phase": "Pending"}})
    assert isinstance(adopted, AdoptedPod)
    assert isinstance(adopted.asks, Unfit)
    assert "by a claim and by count" in adopted.asks.reason


def test_an_object_asks_for_the_gpus_of_its_templates(agent: WatchingAgent) -> None:
    agent.workloads.see_template(view_of(template(exactly(3))))
    agent.see(waiting())
    [group] = agent.asked().spec.task_groups
    assert (group.replicas, group.gpus) == (2, 3)


def test_where_only_some_nodes_have_claims_their_models_are_asked_for_unless_the_object_names_some(
    agent: WatchingAgent,
) -> None:
    agent.workloads.templates.models = lambda: ("H100", "H200")
    agent.workloads.see_template(view_of(template(exactly(3))))
    agent.see(waiting())
    named = NO_COUNT.model_copy(
        update={"task_groups": (NO_COUNT.task_groups[0].model_copy(update={"gpu_models": ("A100",)}),)}
    )
    agent.see(seen("u-2", kind=WorkloadKind.JOB, suspended=True, asks=named, templates=("two",)))
    assert [agent.asked(uid).spec.task_groups[0].gpu_models for uid in ("u-1", "u-2")] == [("H100", "H200"), ("A100",)]


def test_an_object_waits_until_its_template_is_there_and_says_so(agent: WatchingAgent) -> None:
    agent.see(waiting())
    assert agent.names() == []
    assert agent.workloads.waits_for(waiting()) == "", "templates may not have been seen yet"
    agent.workloads.all_read()
    assert "u-1" in agent.workloads.changed
    assert "ResourceClaimTemplate blue/two" in agent.workloads.waits_for(waiting())
    agent.workloads.see_template(view_of(template(exactly(1))))
    agent.settle()
    assert agent.names() == ["submit-requested"]
    assert agent.workloads.waits_for(waiting()) == ""


def test_an_object_says_what_it_waits_for_as_soon_as_it_is_known_how_gpus_are_had(agent: WatchingAgent) -> None:
    agent.describe("kubelet")
    agent.workloads.all_read()
    agent.workloads.see(waiting())
    agent.workloads.changed.clear()
    agent.describe("scheduler")
    assert "u-1" in agent.workloads.changed
    assert "blue/two" in agent.workloads.waits_for(waiting())


def test_an_object_that_is_gone_waits_for_no_template(agent: WatchingAgent) -> None:
    agent.see(waiting())
    agent.lose("u-1")
    agent.workloads.see_template(view_of(template(exactly(1))))
    agent.settle()
    assert agent.names() == []
    assert agent.workloads.templates.waiting() == ()


def test_a_template_that_cannot_be_served_rejects_its_objects(agent: WatchingAgent) -> None:
    agent.workloads.see_template(view_of(template(exactly(adminAccess=True))))
    agent.see(waiting())
    [said] = [fact.payload for fact in agent.facts("rejected")]
    assert isinstance(said, WorkloadRejected)
    assert "template two" in said.reason


def test_gpus_by_count_are_refused_where_they_come_by_claims_and_the_reverse(agent: WatchingAgent) -> None:
    agent.see(seen(kind=WorkloadKind.JOB))
    agent.describe("kubelet")
    agent.see(waiting(uid="u-2"))
    reasons = [fact.payload.reason for fact in agent.facts("rejected") if isinstance(fact.payload, WorkloadRejected)]
    assert len(reasons) == 2
    assert "not by count" in reasons[0]
    assert reasons[1] == CLAIM_ONLY.reason


def test_without_the_right_to_read_templates_that_is_said(agent: WatchingAgent) -> None:
    agent.workloads.templates.may_read = False
    agent.see(waiting())
    [said] = [fact.payload for fact in agent.facts("rejected")]
    assert isinstance(said, WorkloadRejected)
    assert "may not read" in said.reason


def test_an_object_says_what_it_waits_for_where_ordinary_pods_are_not_taken_up(agent: WatchingAgent) -> None:
    agent.workloads.takes_pods = False
    agent.workloads.all_read()
    agent.see(waiting())
    assert "blue/two" in agent.workloads.waits_for(waiting())
