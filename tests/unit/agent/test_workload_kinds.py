"""What objects of every kind ask, and what can be no job."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.kube.objects import asking_pod, batch_job, job_set, mpi_job, muster_job, template
from muster.agent.core.workload_values import (
    NOTHING_SHOWN,
    AdoptedPod,
    PodAsks,
    Unfit,
    WorkloadKind,
    WorkloadPolicy,
    WorkloadView,
)
from muster.agent.core.workloads.objects import WorkloadProjection
from muster.agent.core.workloads.pod_gangs import AdoptedProjection
from muster.agent.core.workloads.records import ASKED_BYTES_MAX
from muster.kube.objects import JsonObject, mapping, objects
from muster.kube.resources import WORKLOADS
from muster.schemas import ids
from muster.schemas.facts.workload import WorkloadSubmitRequested
from muster.schemas.job import REPLICAS_MAX, JobKind, JobSpec, Topology, WorkloadRef

POLICY = WorkloadPolicy(
    cluster="atlas",
    teams={"physics": "phys"},
    sharing={"nvidia.com/mig-1g.10gb": 143, "nvidia.com/mig-3g.40gb": 430},
    models={"NVIDIA-H100-80GB-HBM3": "H100"},
)


def view_of(kind: WorkloadKind, raw: JsonObject, policy: WorkloadPolicy = POLICY) -> WorkloadView | None:
    mapping(raw, "metadata")["uid"] = "u-1"
    return WorkloadProjection(kind, WORKLOADS[kind.value].api_version, policy)(raw)


def asked(kind: WorkloadKind, raw: JsonObject) -> JobSpec:
    view = view_of(kind, raw)
    assert view is not None
    assert isinstance(view.asks, JobSpec), view.asks
    return view.asks


def unfit(kind: WorkloadKind, raw: JsonObject) -> Unfit:
    view = view_of(kind, raw)
    assert view is not None
    assert isinstance(view.asks, Unfit), view.asks
    assert view.asks.cure
    return view.asks


def pod_spec(job: JsonObject) -> JsonObject:
    return mapping(job, "spec", "template", "spec")


def adopted_of(pod: JsonObject) -> AdoptedPod | None:
    mapping(pod, "status")
    return AdoptedProjection(POLICY)({**pod, "status": {"phase": "Pending"}})


def test_a_muster_job_asks_what_it_says_for_the_team_of_its_namespace() -> None:
    spec = asked(WorkloadKind.MUSTER_JOB, muster_job("train", replicas=3, gpus=2, priority=7, minSliceS=60))
    assert (spec.name, spec.team, spec.priority, spec.min_slice_s) == ("train", "phys", 7, 60.0)
    assert (spec.task_groups[0].replicas, spec.task_groups[0].gpus) == (3, 2)
    assert spec.left_out == ("total_run_time_s",), "what it leaves out is the queue's"


def test_a_muster_job_cannot_speak_for_another_team() -> None:
    assert asked(WorkloadKind.MUSTER_JOB, muster_job("train", team="red")).team == "phys"


def test_what_the_schema_cannot_check_is_told_by_its_field() -> None:
    told = unfit(WorkloadKind.MUSTER_JOB, muster_job("train", pod={"env": {"no-name": "1"}}))
    assert told.field == "spec.pod"


def test_the_largest_gang_of_pods_fits_into_a_fact() -> None:
    spec = asked(WorkloadKind.MUSTER_JOB, muster_job("x"))
    origin = WorkloadRef(
        cluster="atlas", api_version="v1", kind="Pod", namespace="n" * 63, name="x", uid="u" * 36,
        members=tuple(f"{number:036d}" for number in range(REPLICAS_MAX)),
    )  # fmt: skip
    fact = WorkloadSubmitRequested(job_id="A" * 26, spec=spec, principal="kubernetes:n", origin=origin)
    assert len(fact.model_dump_json()) + len(spec.model_dump_json()) < ASKED_BYTES_MAX


def test_a_job_asks_for_all_its_pods_at_once() -> None:
    raw = batch_job("sweep", pods=4, gpus=2, backoffLimit=3, activeDeadlineSeconds=600)
    mapping(raw, "metadata")["annotations"] = {
        "muster.dev/priority": "9", "muster.dev/topology": "rack:required", "muster.dev/preemptible": "false",
    }  # fmt: skip
    spec = asked(WorkloadKind.JOB, raw)
    [group] = spec.task_groups
    assert (group.replicas, group.gpus, group.cpu_milli) == (4, 2, 1000), "limits stand for requests that are absent"
    assert (spec.queue, spec.priority, spec.preemptible, spec.retries) == ("physics", 9, False, 3)
    assert spec.topology == Topology(level="rack", required=True)
    assert (spec.total_run_time_s, spec.left_out) == (600.0, ("min_slice_s",))


def test_a_job_set_has_a_group_for_each_replicated_job() -> None:
    spec = asked(WorkloadKind.JOB_SET, job_set("pretrain"))
    assert [(group.name, group.replicas) for group in spec.task_groups] == [("driver", 1), ("worker", 4)]


def test_an_mpi_job_has_a_launcher_and_workers() -> None:
    spec = asked(WorkloadKind.MPI_JOB, mpi_job("reduce", workers=3))
    assert [(group.name, group.replicas, group.gpus) for group in spec.task_groups] == [
        ("launcher", 1, 0), ("worker", 3, 1),
    ]  # fmt: skip
    assert spec.kind is JobKind.MPI


def test_an_object_without_the_label_asks_nothing() -> None:
    raw = batch_job("quiet")
    mapping(raw, "metadata")["labels"] = {}
    assert view_of(WorkloadKind.JOB, raw) is None


def test_only_namespaces_of_the_settings_are_taken_up() -> None:
    policy = WorkloadPolicy(cluster="atlas", namespaces=frozenset({"other"}))
    assert view_of(WorkloadKind.MUSTER_JOB, muster_job("train"), policy) is None


@pytest.mark.parametrize(
    ("kind", "raw"),
    [
        (WorkloadKind.MUSTER_JOB, muster_job("train")),
        (WorkloadKind.JOB, batch_job("train")),
        (WorkloadKind.JOB_SET, job_set("train")),
        (WorkloadKind.MPI_JOB, mpi_job("train")),
    ],
)
def test_a_namespace_that_is_called_like_a_team_acts_for_it_only_if_the_settings_say_so(
    kind: WorkloadKind, raw: JsonObject
) -> None:
    view = view_of(kind, raw, WorkloadPolicy(cluster="atlas", teams={"other": "physics"}))
    assert view is not None
    assert isinstance(view.asks, Unfit)
    assert view.asks.field == "metadata.namespace"
    assert "kubernetes.teams" in view.asks.cure


def test_a_job_from_before_ids_named_clusters_is_not_asked_for_again() -> None:
    """With or without a team for its namespace, which then was the one of that name."""
    for teams in ({}, {"physics": "physics"}):
        before = ids.job_id(team="physics", principal="kubernetes:physics", idempotency_key="kubernetes-u-1")
        raw = {**muster_job("train"), "status": {"jobId": before, "phase": "succeeded"}}
        view = view_of(WorkloadKind.MUSTER_JOB, raw, WorkloadPolicy(cluster="atlas", teams=teams))
        assert view is not None
        assert (view.asks, view.shown.job_id, view.shown.is_final) == (None, before, True)


def test_a_part_of_a_gpu_is_asked_by_its_resource() -> None:
    raw = batch_job("shared", pods=1)
    objects(pod_spec(raw), "containers")[0]["resources"] = {"limits": {"nvidia.com/mig-3g.40gb": "1"}}
    assert asked(WorkloadKind.JOB, raw).task_groups[0].gpu_milli == 430


@pytest.mark.parametrize("place", ["nodeSelector", "affinity"])
def test_a_model_is_asked_by_its_node_label(place: str) -> None:
    raw = batch_job("picky")
    if place == "nodeSelector":
        pod_spec(raw)["nodeSelector"] = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    else:
        said = {"key": "nvidia.com/gpu.product", "operator": "In", "values": ["NVIDIA-H100-80GB-HBM3"]}
        pod_spec(raw)["affinity"] = required_nodes(said)
    assert asked(WorkloadKind.JOB, raw).task_groups[0].gpu_models == ("H100",)


def required_nodes(expression: Mapping[str, object]) -> JsonObject:
    terms = {"nodeSelectorTerms": [{"matchExpressions": [dict(expression)]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"schedulerName": "default-scheduler"}, "schedulerName"),
        ({"nodeSelector": {"zone": "a"}}, "nodeSelector[zone]"),
        ({"os": {"name": "windows"}}, "os.name"),
        ({"initContainers": [{"name": "i", "ports": [{"hostPort": 22}]}]}, "initContainers.ports"),
        ({"hostNetwork": True, "initContainers": [{"name": "i", "ports": [{"containerPort": 22}]}]}, "initContainers"),
        ({"affinity": required_nodes({"key": "zone", "operator": "In", "values": ["a"]})}, "affinity.nodeAffinity"),
        ({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}}}, "affinity.pod"),
        ({"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule"}]}, "topologySpreadConstraints"),
        ({"resourceClaims": [{"name": "gpu"}]}, "resourceClaims"),
    ],
)
def test_what_muster_would_not_honour_is_no_job(said: JsonObject, field: str) -> None:
    raw = batch_job("bad")
    mapping(raw, "spec")["template"] = template(**said)
    assert unfit(WorkloadKind.JOB, raw).field.startswith(f"spec.template.spec.{field}")


@pytest.mark.parametrize(
    ("kind", "raw", "field"),
    [
        (WorkloadKind.JOB, batch_job("bad", completions=8), "spec.completions"),
        (WorkloadKind.JOB_SET, {"spec": {"startupPolicy": {"startupPolicyOrder": "InOrder"}}}, "spec.startupPolicy"),
        (WorkloadKind.MPI_JOB, {"spec": {"launcherCreationPolicy": "WaitForWorkersReady"}}, "spec.launcherCreation"),
    ],
)
def test_what_does_not_start_at_once_is_no_gang(kind: WorkloadKind, raw: JsonObject, field: str) -> None:
    base = batch_job("bad")
    merged = {**base, "spec": {**mapping(base, "spec"), **mapping(raw, "spec")}}
    assert unfit(kind, merged).field.startswith(field)


def test_an_option_that_is_none_is_told_by_its_annotation() -> None:
    raw = batch_job("bad")
    mapping(raw, "metadata")["annotations"] = {"muster.dev/priority": "high"}
    assert unfit(WorkloadKind.JOB, raw).field == "metadata.annotations[muster.dev/priority]"


def test_an_object_that_shows_its_job_asks_no_more() -> None:
    raw, job_id = batch_job("taken"), POLICY.job_id("physics", "u-1")
    mapping(raw, "metadata")["annotations"] = {"muster.dev/job-id": job_id, "muster.dev/phase": "queued"}
    view = view_of(WorkloadKind.JOB, raw)
    assert view is not None
    assert (view.asks, view.shown.job_id, view.suspended) == (None, job_id, True)


def test_what_was_copied_from_another_object_counts_for_nothing() -> None:
    raw = batch_job("copy")
    notes = {"job-id": "A" * 26, "phase": "succeeded", "let-go-for": f"1/{'A' * 26}", "held": "A" * 26,
             "rejected-generation": "9/u-0"}  # fmt: skip
    mapping(raw, "metadata")["annotations"] = {f"muster.dev/{key}": value for key, value in notes.items()}
    view = view_of(WorkloadKind.JOB, raw)
    assert view is not None
    assert isinstance(view.asks, JobSpec)
    assert (view.shown, view.let_go_for, view.held) == (NOTHING_SHOWN, 0, False)


@pytest.mark.parametrize("suite", ["standard", "none"])
def test_an_object_names_the_checks_before_its_job_begins(suite: str) -> None:
    raw = batch_job("sweep")
    mapping(raw, "metadata")["annotations"] = {"muster.dev/preflight": suite}
    view = view_of(WorkloadKind.JOB, raw)
    assert view is not None
    assert isinstance(view.asks, JobSpec)
    assert view.asks.preflight == suite


def test_a_pod_with_a_scheduling_gate_asks_nothing_yet() -> None:
    adopted = adopted_of(asking_pod("one", schedulingGates=[{"name": "example.com/wait"}]))
    assert adopted is not None
    assert adopted.asks is None


NOTES = [f"muster.dev/{name}" for name in (
    "let-go-for", "held", "job-id", "phase", "reason", "rejected-generation", "gang", "gang-size", "priority", "kind",
    "topology", "total-run-time-s", "grace-s", "preflight",
)]  # fmt: skip
ODD = ("9" * 5_000, f"{'9' * 5_000}/u-1", "²", "-1", "nan", "1e999")
SAID = st.one_of(st.text(max_size=20), st.sampled_from(ODD))


@given(
    kind=st.sampled_from([WorkloadKind.MUSTER_JOB, WorkloadKind.JOB, WorkloadKind.JOB_SET, WorkloadKind.MPI_JOB]),
    notes=st.dictionaries(st.sampled_from(NOTES), SAID),
    spec=st.dictionaries(
        st.sampled_from(["parallelism", "completions", "template", "backoffLimit", "taskGroups", "mpiReplicaSpecs"]),
        st.one_of(st.none(), st.integers(), SAID, st.lists(st.integers()), st.just({"spec": {"containers": [1]}})),
    ),
)
def test_no_object_stops_who_looks_at_it(kind: WorkloadKind, notes: dict[str, str], spec: JsonObject) -> None:
    for base in (batch_job("odd"), asking_pod("odd")):
        mapping(base, "metadata")["annotations"] = notes
        mapping(base, "metadata", "labels").update(notes)
        adopted_of(base)
        view_of(kind, {**base, "spec": {**mapping(base, "spec"), **spec}})


def test_a_pod_asks_by_itself_until_it_is_bound() -> None:
    pod = asking_pod("one", gpus=2)
    adopted = adopted_of(pod)
    assert adopted is not None
    assert isinstance(adopted.asks, PodAsks)
    assert (adopted.asks.shape.gpus, adopted.gang) == (2, "")
    mapping(pod, "spec")["nodeName"] = "n1"
    bound = adopted_of(pod)
    assert bound is not None
    assert bound.asks is None


def test_pods_of_jobs_never_ask_by_themselves() -> None:
    pod = asking_pod("one")
    mapping(pod, "metadata")["ownerReferences"] = [{"kind": "Job", "name": "j", "uid": "u", "controller": True}]
    assert adopted_of(pod) is None


@pytest.mark.parametrize(("gang", "size"), [("ring", 0), ("ring", 100_000)])
def test_a_gang_without_a_possible_size_is_no_job(gang: str, size: int) -> None:
    adopted = adopted_of(asking_pod("one", gang=gang, size=size))
    assert adopted is not None
    assert isinstance(adopted.asks, Unfit)
    assert "gang-size" in adopted.asks.field
