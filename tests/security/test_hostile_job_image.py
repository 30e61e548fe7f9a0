"""Attacks by whoever wrote the container image of a job: its checks, its exit codes and its messages are lies.

What the image says counts against the job alone. Evidence against hardware comes from exporters' pages, and from
checks that an image of the administrator ran.
"""

import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import pytest_asyncio
from pydantic import ValidationError
from redis.asyncio import Redis
from redis.exceptions import NoPermissionError

from kit.agent_shell import AgentShell
from kit.kube.fake import EXIT_CODE, RUN_S, FakeKube, FakeKubelet, fake_kube, node
from kit.stack.kubernetes import NAMESPACE, kubeconfig_for, open_kubernetes_harness
from kit.stack.living import TEAM, Harness, job
from kit.waiting import until_async
from muster.bus.kubernetes_settings import KubernetesSettings
from muster.bus.settings import Settings
from muster.core.settings import ScalingSettings
from muster.kube.connection import KubeConnection
from muster.kube.objects import JsonObject, name_of, namespace_of, objects
from muster.kube.resources import NAMESPACES, NODES, PODS
from muster.schemas.facts.health import FaultObserved
from muster.schemas.facts.job import JobPlaced, JobRouted, PodsExited
from muster.schemas.facts.operations import PreflightPassed
from muster.schemas.facts.queue import QueueSpec
from muster.schemas.job import Job, JobSpec, Phase, Slot, TaskGroup

pytestmark = [pytest.mark.connected, pytest.mark.asyncio(loop_scope="module")]

BAD = "gpu-0"
TEAMS = (TEAM, "speech", "vision")
REQUIRED = {"state_dir": "state", "credentials_dir": "creds"}
VERDICTS = frozenset({"suspect", "quarantined", "repairing", "verifying", "withhold-requested"})


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def kube() -> AsyncIterator[FakeKube]:
    """A cluster of one node. Whatever checks a pod there, says that the node failed; and every program fails."""
    async with fake_kube() as kube:
        kube.add(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        kube.add(NODES, node(BAD))

        def fails(pod: JsonObject) -> None:
            patch: JsonObject = {"metadata": {"annotations": {RUN_S: "0.1", EXIT_CODE: "1"}}}
            kube.change(PODS, name_of(pod), patch, namespace_of(pod))

        kube.on_bind.append(fails)
        with FakeKubelet(kube, bad_nodes=frozenset({BAD})):
            yield kube


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def harness(kube: FakeKube, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Harness]:
    """No image of the administrator is named that could check."""
    directory = tmp_path_factory.mktemp("hostile")
    config = kubeconfig_for(kube.url, directory)
    async with open_kubernetes_harness(directory / "state", config) as harness:
        for team in TEAMS[1:]:
            await harness.muster.set_queue(QueueSpec(name=team))
        await until_async(lambda: _has_queues(harness))
        yield harness


async def _has_queues(harness: Harness) -> bool:
    return {queue.name for queue in await harness.muster.queues()} >= set(TEAMS)


async def verdicts(harness: Harness) -> list[tuple[str, str]]:
    """What was decided against hardware."""
    return [(fact.name, fact.subject_id) for fact in await harness.facts() if fact.name in VERDICTS]


async def test_what_a_jobs_own_image_says_of_its_node_is_not_even_asked(kube: FakeKube, harness: Harness) -> None:
    submitted = await harness.muster.submit(job("liar", gpus=8, retries=0, preflight="quick"))
    (ended,) = await harness.ended([submitted.id])
    passed = [fact.payload for fact in await harness.facts() if isinstance(fact.payload, PreflightPassed)]
    assert ["preflight.image" in warning for one in passed for warning in one.warned] == [True, True]
    assert (ended.phase, ended.retries_used, ended.attempt) == (Phase.FAILED, 0, 1), "no run is free"
    assert "exit code 1" in ended.reason, "its own failure, of its own program"
    assert not [one for pod in kube.store.all(PODS) for one in objects(pod, "spec", "initContainers")]
    assert await verdicts(harness) == []


async def test_exit_codes_of_many_teams_have_a_node_checked_and_no_more(harness: Harness) -> None:
    submitted = [await harness.muster.submit(job("fails", gpus=8, retries=0, team=team)) for team in TEAMS]
    await harness.ended([one.id for one in submitted])
    await until_async(lambda: _is_answered(harness))  # after it health would have said what it says
    assert await verdicts(harness) == []


async def test_checks_for_every_job_are_not_begun_without_an_image_that_can_be_believed() -> None:
    with pytest.raises(ValidationError, match=r"preflight\.image: is not set, but preflight\.default is"):
        Settings.model_validate({**REQUIRED, "kubernetes": {}, "preflight": {"default": "quick"}})


@pytest.mark.parametrize(
    ("namespace", "team"), [("{team}", "kube-system"), ("{team}-system", "kube"), ("a-{team}", "b")]
)
async def test_a_teams_name_opens_no_namespace_that_was_not_given_to_the_team(namespace: str, team: str) -> None:
    """Operators may submit for any team's name."""
    async with fake_kube() as kube, agent_of(kube, namespace) as shell:
        place(shell, team=team)
        await shell.until(lambda: bool(shell.facts("job", "pods-exited")))
        (ended,) = [one.payload for one in shell.facts("job", "pods-exited") if isinstance(one.payload, PodsExited)]
        assert "has no label for team" in ended.reason
        assert kube.count("create", "pods") == 0


async def test_a_namespace_that_an_administrator_gave_to_the_team_has_its_pods() -> None:
    async with fake_kube() as kube:
        kube.add(NAMESPACES, {"metadata": {"name": "jobs-blue", "labels": {"muster.dev/team": "blue"}}})
        async with agent_of(kube, "jobs-{team}") as shell:
            place(shell, team="blue")
            await shell.until(lambda: bool(kube.store.all(PODS)))
            assert [namespace_of(pod) for pod in kube.store.all(PODS)] == ["jobs-blue"]


@asynccontextmanager
async def agent_of(kube: FakeKube, namespace: str) -> AsyncIterator[AgentShell]:
    async def connect() -> KubeConnection:
        return KubeConnection.plain(kube.url, user_agent="muster-agent/test")

    kube.add(NAMESPACES, {"metadata": {"name": "a-b", "labels": {"muster.dev/team": "another"}}})
    kube.add(NODES, node(BAD))
    settings = KubernetesSettings(image="busybox", devices="device-plugin", own_nodes=False, namespace=namespace)
    async with AgentShell(settings, ScalingSettings(), connect) as shell:
        await shell.until(lambda: bool(shell.facts("node", "joined")))
        yield shell


def place(shell: AgentShell, *, team: str) -> None:
    spec = JobSpec(name="train", team=team, task_groups=(TaskGroup(gpus=1),))
    asked = Job(id="J" * 26, spec=spec, principal="ann", idempotency_key="k", body_hash="")
    shell.write("federation", "job", asked.id, "routed", JobRouted(job=asked, cluster="atlas"))
    slots = (Slot(group=0, replica=0, node=BAD, gpus=1),)
    shell.write("scheduler", "job", asked.id, "placed", JobPlaced(attempt=1, slots=slots))


SCRIPTS = (
    "EVAL 'return 1' 0", "EVALSHA 0 0", "SCRIPT LOAD 'return 1'", "CONFIG SET dir /tmp", "CONFIG GET *",
    "DEBUG SLEEP 0",
    "MODULE LOAD /tmp/x.so", "REPLICAOF 127.0.0.1 1", "SLAVEOF NO ONE", "ACL SETUSER x on nopass +@all", "SAVE",
    "FLUSHALL", "MONITOR", "SHUTDOWN NOSAVE", "GET other:key", "MIGRATE 127.0.0.1 1 muster:k 0 1", "KEYS *",
)  # fmt: skip


@pytest.mark.parametrize("command", SCRIPTS)
async def test_who_learns_the_password_of_the_read_model_runs_nothing_in_its_server(
    command: str, redis_url: str
) -> None:
    """A process of the same machine may read it in memory of its user; the server of the wheel lacks later fixes."""
    async with Redis.from_url(redis_url) as attacker:
        assert await attacker.ping()
        with pytest.raises(NoPermissionError):
            await attacker.execute_command(*shlex.split(command))


async def _is_answered(harness: Harness) -> bool:
    """Whether the checks that were asked for after the observation were answered."""
    names = [
        fact.name
        for fact in await harness.facts()
        if not isinstance(fact.payload, FaultObserved) or fact.payload.code == "pods-failing"
    ]
    return "fault-observed" in names and "checks-reported" in names[names.index("fault-observed") :]
