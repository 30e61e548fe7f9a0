"""The manifest of one pod: what follows from the job, its place and the cluster."""

import dataclasses

import pytest
from pydantic import ValidationError

from muster.agent.core.kubernetes.options import PodPolicy
from muster.agent.core.kubernetes.pods import PodOrder, gang_service, pod_manifest
from muster.agent.core.kubernetes.ports import ImpossiblePodError
from muster.kube.objects import JsonObject, at, mapping, objects, strings, text
from muster.schemas.job import ClaimMount, PodOptions, SecretVariable, TaskGroup
from unit.agent.pods.orders import JOB, POLICY, gang, order, spec

SHARING = {"nvidia.com/mig-1g.10gb": 143, "nvidia.com/mig-3g.40gb": 429}


def container(manifest: JsonObject) -> JsonObject:
    (one,) = objects(manifest, "spec", "containers")
    return one


def limits(manifest: JsonObject) -> dict[str, str]:
    return strings(container(manifest), "resources", "limits")


def requests(manifest: JsonObject) -> dict[str, str]:
    return strings(container(manifest), "resources", "requests")


def variables(manifest: JsonObject) -> dict[str, str]:
    return {text(one, "name"): text(one, "value") for one in objects(container(manifest), "env")}


def volumes(manifest: JsonObject) -> dict[str, JsonObject]:
    return {text(one, "name"): one for one in objects(manifest, "spec", "volumes")}


def mounts(manifest: JsonObject) -> dict[str, str]:
    return {text(one, "name"): text(one, "mountPath") for one in objects(container(manifest), "volumeMounts")}


def test_a_pod_waits_for_muster_and_says_whose_it_is() -> None:
    manifest = pod_manifest(order(spec(command=("python", "train.py"))))
    assert text(manifest, "spec", "schedulerName") == "muster"
    assert at(manifest, "spec", "nodeName") is None
    labels = strings(manifest, "metadata", "labels")
    assert labels["muster.dev/job"] == JOB.lower()
    assert labels["muster.dev/attempt"] == "0"
    assert labels["muster.dev/team"] == labels["muster.dev/queue"] == "vision"
    assert container(manifest)["command"] == ["python", "train.py"]


@pytest.mark.parametrize("workdir", ["", "/data/my project"])
def test_the_working_directory_is_that_of_the_job_else_that_of_the_image(workdir: str) -> None:
    found = container(pod_manifest(order(spec(workdir=workdir))))
    assert found.get("workingDir", "") == workdir


@pytest.mark.parametrize("workdir", ["data", "./data", "/data\n", "/" + "x" * 1024])
def test_a_working_directory_is_an_absolute_path(workdir: str) -> None:
    with pytest.raises(ValidationError, match="workdir"):
        spec(workdir=workdir)


def test_names_begin_with_a_letter_and_follow_from_the_attempt() -> None:
    job = spec(TaskGroup(replicas=2, gpus=1))
    first, second = (text(pod_manifest(order(job, slot)), "metadata", "name") for slot in (0, 1))
    assert first.startswith("m")
    assert first != second
    again = text(pod_manifest(PodOrder(gang(job, attempt=1), gang(job).slots[0], POLICY)), "metadata", "name")
    assert again not in (first, second)


def test_memory_is_limited_and_cpu_is_not() -> None:
    manifest = pod_manifest(order(spec(TaskGroup(cpu_milli=1500, memory_mib=2048, gpus=2))))
    assert requests(manifest) == {"cpu": "1500m", "memory": "2048Mi", "nvidia.com/gpu": "2"}
    assert limits(manifest) == {"memory": "2048Mi", "nvidia.com/gpu": "2"}


def test_whole_cores_are_guaranteed() -> None:
    job = spec(TaskGroup(cpu_milli=8000, memory_mib=2048), pod=PodOptions(whole_cores=True))
    manifest = pod_manifest(order(job))
    assert limits(manifest) == requests(manifest) == {"cpu": "8", "memory": "2048Mi"}


def test_the_team_stands_in_the_namespace() -> None:
    policy = PodPolicy(cluster="atlas", namespace="jobs-{team}", image="i")
    assert order(spec(), policy=policy).namespace == "jobs-vision"


def test_an_image_is_the_groups_or_the_jobs_or_the_clusters() -> None:
    job = spec(TaskGroup(image="group:1"), TaskGroup(name="other"), image="job:1")
    assert [text(container(pod_manifest(order(job, slot))), "image") for slot in (0, 1)] == ["group:1", "job:1"]
    assert text(container(pod_manifest(order(spec()))), "image") == POLICY.image
    with pytest.raises(ImpossiblePodError, match="image: no image is set"):
        pod_manifest(order(spec(), policy=PodPolicy(cluster="atlas")))


def test_root_inside_is_not_root_outside_unless_asked() -> None:
    inside = pod_manifest(order(spec()))
    assert at(inside, "spec", "hostUsers") is False
    assert at(container(inside), "securityContext", "allowPrivilegeEscalation") is None
    outside = pod_manifest(order(spec(pod=PodOptions(user_namespace=False))))
    assert at(outside, "spec", "hostUsers") is None
    assert at(container(outside), "securityContext", "allowPrivilegeEscalation") is False


def test_a_user_of_its_own_obeys_the_strictest_profile() -> None:
    policy = PodPolicy(cluster="atlas", image="i", run_as=1000)
    manifest = pod_manifest(order(spec(), policy=policy))
    assert mapping(manifest, "spec", "securityContext")["runAsNonRoot"] is True
    assert at(container(manifest), "securityContext", "capabilities") == {"drop": ["ALL"]}


def test_shared_memory_is_half_of_the_pods_and_never_more_than_it_has() -> None:
    sizes = {
        asked: at(
            volumes(pod_manifest(order(spec(TaskGroup(memory_mib=4096), pod=PodOptions(shm_mib=asked))))).get("shm"),
            "emptyDir",
            "sizeLimit",
        )
        for asked in (None, 0, 100, 9000)
    }
    assert sizes == {None: "2048Mi", 0: None, 100: "100Mi", 9000: "4096Mi"}
    assert mounts(pod_manifest(order(spec())))["shm"] == "/dev/shm"


def test_a_cluster_may_have_no_larger_shared_memory() -> None:
    manifest = pod_manifest(order(spec(), policy=PodPolicy(cluster="atlas", image="i", shm=False)))
    assert "shm" not in volumes(manifest)


def test_scratch_and_claims_are_mounted() -> None:
    asked = PodOptions(scratch_mib=512, volumes=(ClaimMount(claim="data", path="/data", read_only=True),))
    manifest = pod_manifest(order(spec(pod=asked)))
    assert at(volumes(manifest)["scratch"], "emptyDir", "sizeLimit") == "512Mi"
    assert text(volumes(manifest)["claim-0"], "persistentVolumeClaim", "claimName") == "data"
    assert {mounts(manifest)["scratch"], mounts(manifest)["claim-0"]} == {"/scratch", "/data"}


def test_a_job_sets_variables_but_not_which_pod_it_is() -> None:
    asked = PodOptions(
        env={"LEVEL": "debug", "MASTER_PORT": "1", "MUSTER_RANK": "7"},
        secret_env=(SecretVariable(variable="TOKEN", secret="hub", key="token"),),
    )
    manifest = pod_manifest(order(spec(TaskGroup(replicas=2), pod=asked)))
    told = variables(manifest)
    assert (told["LEVEL"], told["MASTER_PORT"], told["MUSTER_RANK"]) == ("debug", "1", "0")
    (token,) = (one for one in objects(container(manifest), "env") if one["name"] == "TOKEN")
    assert mapping(token, "valueFrom", "secretKeyRef") == {"name": "hub", "key": "token"}


def test_a_token_is_there_only_for_a_service_account_that_was_named() -> None:
    assert at(pod_manifest(order(spec())), "spec", "automountServiceAccountToken") is False
    named = pod_manifest(order(spec(pod=PodOptions(service_account="trainer"))))
    assert at(named, "spec", "automountServiceAccountToken") is True
    assert text(named, "spec", "serviceAccountName") == "trainer"


def test_a_share_is_the_smallest_profile_that_is_large_enough() -> None:
    policy = PodPolicy(cluster="atlas", image="i", sharing=SHARING)
    for gpu_milli, profile in (
        (100, "nvidia.com/mig-1g.10gb"),
        (143, "nvidia.com/mig-1g.10gb"),
        (200, "nvidia.com/mig-3g.40gb"),
    ):
        manifest = pod_manifest(order(spec(TaskGroup(gpu_milli=gpu_milli)), policy=policy))
        assert limits(manifest)[profile] == "1"
    with pytest.raises(ImpossiblePodError, match=r"no GPU share of 0\.5 GPUs"):
        pod_manifest(order(spec(TaskGroup(gpu_milli=500)), policy=policy))


def test_a_claim_takes_the_place_of_the_device_plugin() -> None:
    placed = order(spec(), claimed=True)
    manifest = pod_manifest(placed)
    assert "nvidia.com/gpu" not in limits(manifest)
    (claim,) = objects(manifest, "spec", "resourceClaims")
    assert text(claim, "resourceClaimName").startswith(placed.name)
    assert objects(container(manifest), "resources", "claims") == [{"name": claim["name"]}]


def test_a_pod_without_gpus_sees_none() -> None:
    assert variables(pod_manifest(order(spec(TaskGroup()))))["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert "NVIDIA_VISIBLE_DEVICES" not in variables(pod_manifest(order(spec())))


RDMA = PodPolicy(
    cluster="atlas", image="i", rdma={"rdma/hca": 1}, networks={"fast": {"net": "ib0"}, "fat": {"net": "ib1"}}
)


@pytest.mark.parametrize(
    ("replicas", "asked", "gets"),
    [(1, None, False), (2, None, True), (2, False, False), (1, True, True)],
)
def test_rdma_devices_come_with_several_pods(replicas: int, asked: bool | None, gets: bool) -> None:
    manifest = pod_manifest(order(spec(TaskGroup(replicas=replicas, gpus=1), pod=PodOptions(rdma=asked)), policy=RDMA))
    assert (limits(manifest).get("rdma/hca") == "1") is gets
    assert at(container(manifest), "securityContext", "capabilities") is None
    assert at(manifest, "spec", "hostUsers") is False


def test_memory_is_locked_outside_a_user_namespace_where_the_cluster_says_so() -> None:
    policy = dataclasses.replace(RDMA, lock_memory=True)
    manifest = pod_manifest(order(spec(TaskGroup(replicas=2, gpus=1)), policy=policy))
    assert at(container(manifest), "securityContext", "capabilities") == {"add": ["IPC_LOCK"]}
    assert at(manifest, "spec", "hostUsers") is None
    alone = pod_manifest(order(spec(), policy=policy))
    assert at(container(alone), "securityContext", "capabilities") is None


def test_rdma_is_refused_where_there_is_none() -> None:
    with pytest.raises(ImpossiblePodError, match=r"pod\.rdma"):
        pod_manifest(order(spec(pod=PodOptions(rdma=True))))
    assert "rdma/hca" not in limits(pod_manifest(order(spec(TaskGroup(replicas=2)))))


def test_networks_are_annotations_of_the_cluster() -> None:
    manifest = pod_manifest(order(spec(pod=PodOptions(networks=("fast", "fat"))), policy=RDMA))
    assert strings(manifest, "metadata", "annotations")["net"] == "ib0,ib1"
    with pytest.raises(ImpossiblePodError, match="no network 'slow', but fast, fat"):
        pod_manifest(order(spec(pod=PodOptions(networks=("slow",))), policy=RDMA))


@pytest.mark.parametrize(
    "asked",
    [
        PodOptions(secret_env=(SecretVariable(variable="TOKEN", secret="hub", key="token"),)),
        PodOptions(volumes=(ClaimMount(claim="data", path="/data"),)),
        PodOptions(service_account="trainer"),
    ],
)
def test_objects_of_a_namespace_that_teams_share_are_not_to_be_named(asked: PodOptions) -> None:
    shared = dataclasses.replace(POLICY, names_objects=False)
    with pytest.raises(ImpossiblePodError, match="share namespace muster-jobs"):
        pod_manifest(order(spec(pod=asked), policy=shared))
    assert pod_manifest(order(spec(pod=asked)))


def test_a_pod_without_gpus_cannot_make_itself_see_some() -> None:
    asked = PodOptions(env={"NVIDIA_VISIBLE_DEVICES": "all"})
    assert variables(pod_manifest(order(spec(TaskGroup(), pod=asked))))["NVIDIA_VISIBLE_DEVICES"] == "void"


def test_one_pod_alone_needs_no_service() -> None:
    assert gang_service(gang(spec()), POLICY) is None
    service = gang_service(gang(spec(TaskGroup(replicas=2))), POLICY)
    assert text(service, "spec", "clusterIP") == "None"
    pod = pod_manifest(order(spec(TaskGroup(replicas=2))))
    assert text(pod, "spec", "subdomain") == text(service, "metadata", "name")
    assert mapping(service, "spec", "selector").items() <= mapping(pod, "metadata", "labels").items()
