"""How pods of a gang find each other: PyTorch, MPI, parameter servers, Indexed Jobs."""

import json

import pytest

from muster.agent.core.kubernetes.pods import pod_manifest
from muster.agent.core.kubernetes.rendezvous import EVERY_PEER_MAX, deciding_groups, hosts_lines, meeting, variables
from muster.kube.objects import at, mapping, objects, strings, text
from muster.schemas.job import JobKind, TaskGroup
from unit.agent.pods.orders import gang, order, spec

SERVICE = "mj-abcdefghijklmnopqrstuvwxyz-0"
MPI = (TaskGroup(name="launcher"), TaskGroup(name="worker", replicas=2, gpus=4))
SERVED = (TaskGroup(name="ps", replicas=2), TaskGroup(name="worker", replicas=3, gpus=1))


def test_replicas_count_as_in_an_indexed_job() -> None:
    manifest = pod_manifest(order(spec(TaskGroup(name="worker", replicas=3)), 2))
    index = "batch.kubernetes.io/job-completion-index"
    assert strings(manifest, "metadata", "labels")[index] == "2"
    assert strings(manifest, "metadata", "annotations")[index] == "2"
    assert text(manifest, "spec", "hostname") == "worker-2"
    whole = gang(spec(TaskGroup(name="worker", replicas=3)))
    assert variables(whole, whole.slots[2])["JOB_COMPLETION_INDEX"] == "2"


def test_torch_meets_at_rank_0() -> None:
    whole = gang(spec(TaskGroup(name="worker", replicas=2, gpus=8)))
    told = variables(whole, whole.slots[1])
    assert told["MASTER_ADDR"] == told["PET_MASTER_ADDR"] == f"worker-0.{SERVICE}"
    assert (told["RANK"], told["WORLD_SIZE"]) == ("1", "2")
    assert (told["PET_NNODES"], told["PET_NODE_RANK"], told["PET_NPROC_PER_NODE"]) == ("2", "1", "8")


def test_a_single_pod_meets_nobody() -> None:
    whole = gang(spec())
    assert "MASTER_ADDR" not in variables(whole, whole.slots[0])


def test_a_launcher_knows_the_others_and_their_slots() -> None:
    whole = gang(spec(*MPI, kind=JobKind.MPI))
    assert hosts_lines(whole) == f"worker-0.{SERVICE} slots=4\nworker-1.{SERVICE} slots=4\n"
    launcher, worker = (pod_manifest(order(whole.spec, slot)) for slot in (0, 1))
    assert strings(launcher, "metadata", "annotations")["muster.dev/hosts"] == hosts_lines(whole)
    assert "muster.dev/hosts" not in strings(worker, "metadata", "annotations")
    (container,) = objects(launcher, "spec", "containers")
    (hosts,) = (one for one in objects(container, "volumeMounts") if one["name"] == "hosts")
    told = variables(whole, whole.slots[0])
    assert told["OMPI_MCA_orte_default_hostfile"].startswith(f"{text(hosts, 'mountPath')}/")
    assert told["MUSTER_PROCESSES"] == "8"


def test_an_mpi_job_of_one_group_is_launched_by_its_first_pod() -> None:
    job = spec(TaskGroup(replicas=2, cpu_milli=4000), kind=JobKind.MPI)
    launching = ["hosts" in str(at(pod_manifest(order(job, slot)), "spec", "volumes")) for slot in (0, 1)]
    assert launching == [True, False]
    assert hosts_lines(gang(job)).count("slots=4") == 2


def test_parameter_servers_and_workers_know_each_other() -> None:
    whole = gang(spec(*SERVED))
    told = json.loads(variables(whole, whole.slots[3])["TF_CONFIG"])
    assert told["cluster"]["ps"] == [f"ps-0.{SERVICE}:2222", f"ps-1.{SERVICE}:2222"]
    assert len(told["cluster"]["worker"]) == 3
    assert told["task"] == {"type": "worker", "index": 1}


def test_servers_are_no_ranks_of_the_workers() -> None:
    whole = gang(spec(*SERVED))
    told = variables(whole, whole.slots[3])
    assert (told["MASTER_ADDR"], told["RANK"], told["WORLD_SIZE"]) == (f"worker-0.{SERVICE}", "1", "3")


def test_a_scheduler_group_is_where_servers_of_mxnet_meet() -> None:
    whole = gang(spec(*SERVED, TaskGroup(name="scheduler")))
    told = [variables(whole, slot) for slot in whole.slots]
    assert [one["DMLC_ROLE"] for one in told] == ["server"] * 2 + ["worker"] * 3 + ["scheduler"]
    assert {one["DMLC_PS_ROOT_URI"] for one in told} == {f"scheduler-0.{SERVICE}"}
    assert (told[0]["DMLC_NUM_SERVER"], told[0]["DMLC_NUM_WORKER"]) == ("2", "3")


def test_a_large_gang_does_not_write_every_name_into_every_pod() -> None:
    whole = gang(spec(TaskGroup(name="ps"), TaskGroup(name="worker", replicas=EVERY_PEER_MAX)))
    told = variables(whole, whole.slots[100])
    assert json.loads(told["TF_CONFIG"])["cluster"]["worker"] == {"99": f"worker-99.{SERVICE}:2222"}
    assert sum(map(len, told.values())) < 2000


@pytest.mark.parametrize(
    ("groups", "deciding"),
    [
        (("main",), {0}),
        (("launcher", "worker"), {0}),
        (("ps", "worker", "chief"), {1, 2}),
        (("ps", "worker", "scheduler"), {1}),
        (("ps",), {0}),
    ],
)
def test_whose_end_is_the_jobs_end(groups: tuple[str, ...], deciding: set[int]) -> None:
    assert deciding_groups(spec(*(TaskGroup(name=name) for name in groups))) == deciding


def test_host_names_are_short_enough_and_distinct() -> None:
    long = ("a" * 63, "a" * 62 + "b")
    job = spec(*(TaskGroup(name=name, replicas=2) for name in long))
    hosts = {text(pod_manifest(order(job, slot)), "spec", "hostname") for slot in range(4)}
    assert len(hosts) == 4
    assert max(map(len, hosts)) <= 63


def test_the_selector_of_the_service_names_one_attempt() -> None:
    job = spec(TaskGroup(replicas=2))
    first, second = (
        mapping(pod_manifest(order(job, 0)), "metadata", "labels"),
        mapping(pod_manifest(order(job, 1)), "metadata", "labels"),
    )
    assert first["muster.dev/attempt"] == second["muster.dev/attempt"] == "0"


def test_pods_without_gpus_take_no_part_in_checks_of_the_gang() -> None:
    groups = (
        TaskGroup(name="launcher", gpus=0),
        TaskGroup(name="worker", gpus=8, replicas=2),
        TaskGroup(name="logs", gpus=0),
        TaskGroup(name="late", gpus=8, replicas=2),
    )
    whole = gang(spec(*groups))
    told = [meeting(whole, slot) for slot in whole.slots]
    ranks = [one.get("MUSTER_PREFLIGHT_RANK") for one in told]
    assert ranks == [None, "0", "1", None, "2", "3"]
    assert {one["MUSTER_PREFLIGHT_NODES"] for one in told if one} == {"4"}
    assert {one["MUSTER_PREFLIGHT_FIRST"].split(".")[0] for one in told if one} == {"worker-0"}


def test_a_pod_alone_meets_nobody() -> None:
    alone = gang(spec(TaskGroup(gpus=8)))
    assert meeting(alone, alone.slots[0]) == {}
