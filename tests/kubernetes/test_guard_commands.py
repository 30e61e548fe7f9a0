"""`muster guard` straight at a real API server, as a person runs it; and what it says of who lists and of secrets."""

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import cast

import pytest_asyncio

from kit.kube.planes import open_plane
from kit.waiting import until_async
from muster.cli.errors import ExitCode
from muster.cli.guard_audit import TOKEN, files
from muster.core import Instant
from muster.guard.core.checks import check_lists, check_secrets
from muster.guard.core.config import GuardConfig
from muster.guard.core.look import Look
from muster.guard.observer import ClusterObserver
from muster.guard.replicas import Place
from muster_tools.demo.guard.stage import READERS, fill, let_read
from muster_tools.local_kubernetes.options import PlaneOptions
from muster_tools.local_kubernetes.plane import ControlPlane
from muster_tools.local_kubernetes.ports import LOOPBACK, free_ports

READER = "reader"
OPTIONS = PlaneOptions(kwok=False, users=((READER, (READERS,)),))
Json = dict[str, object]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def alone() -> AsyncIterator[ControlPlane]:
    """A plane of this module's own: flow control is the whole server's. Tests take away what others would see."""
    async with open_plane(OPTIONS) as plane:
        yield plane


def muster(plane: ControlPlane, tmp_path: Path, *words: str, user: str = "admin") -> subprocess.CompletedProcess[str]:
    """The command line, where there is no stack."""
    argv = [sys.executable, "-m", "muster.cli.main", *words, "--state-dir", str(tmp_path / "none")]
    environment = {**os.environ, "KUBECONFIG": str(plane.kubeconfig(user)), "COLUMNS": "250"}
    return subprocess.run(argv, capture_output=True, text=True, timeout=90, check=False, env=environment)


def asked(plane: ControlPlane, tmp_path: Path, *words: str) -> Json:
    """What it answers as JSON."""
    said = muster(plane, tmp_path, *words, "-o", "json")
    assert said.returncode == 0, said.stderr
    return cast("Json", json.loads(said.stdout))


def names(listed: object) -> Sequence[str]:
    return [one["metadata"]["name"] for one in cast("list[dict[str, Json]]", cast("Json", listed)["items"])]  # type: ignore[misc]


async def test_apply_dry_run_writes_nothing_and_apply_does_and_remove_takes_it_away(
    alone: ControlPlane, tmp_path: Path
) -> None:
    dry = asked(alone, tmp_path, "guard", "apply", "--dry-run")
    assert names(dry) == ["muster-list-secrets", "muster-ballast", "muster-list-secrets"]
    assert "found so" not in json.dumps(dry)

    applied = asked(alone, tmp_path, "guard", "apply")
    assert applied["server_seats"] == [600, 600]
    (level,) = cast("list[Json]", applied["levels"])
    assert (level["found"], level["is_right"], level["shares"], level["ballast_shares"]) == ([2, 2], True, 1, 54)

    assert names(asked(alone, tmp_path, "guard", "apply", "--dry-run")) == []
    assert "3 flow-control objects removed" in muster(alone, tmp_path, "guard", "remove").stdout
    assert len(names(asked(alone, tmp_path, "guard", "apply", "--dry-run"))) == 3


async def test_what_cannot_be_is_refused_with_the_reason(alone: ControlPlane, tmp_path: Path) -> None:
    said = muster(alone, tmp_path, "guard", "apply", "--kind", "secrets=400", "--kind", "pods=400")
    assert said.returncode == ExitCode.REFUSED
    assert "400 seats for muster-list-secrets and 400 seats for muster-list-pods" in said.stderr
    said = muster(alone, tmp_path, "guard", "apply", "--kind", "secrets")
    assert said.returncode == ExitCode.USAGE
    assert "RESOURCE=SEATS" in said.stderr


async def test_who_may_not_is_told_which_permission_is_missing(alone: ControlPlane, tmp_path: Path) -> None:
    said = muster(alone, tmp_path, "guard", "apply", user=READER)
    assert said.returncode == ExitCode.UNREACHABLE
    assert "flowcontrol.apiserver.k8s.io" in said.stderr
    assert "grant verb" in said.stderr


async def test_the_report_says_what_is_wrong_and_what_to_do(alone: ControlPlane, tmp_path: Path) -> None:
    words = ("guard", "report", "--kubeconfig", str(alone.kubeconfig()), "--seconds", "1")
    report = asked(alone, tmp_path, *words)
    assert [one["code"] for one in cast("list[Json]", report["advices"])] == ["lists-unlimited"]
    (replica,) = cast("list[dict[str, float]]", report["replicas"])
    assert replica["memory_mib"] > 100
    table = muster(alone, tmp_path, *words).stdout
    assert "muster guard apply" in table
    assert "global-default" in table


def test_a_story_of_the_demonstration_is_told_with_figures_before_and_after() -> None:
    argv = [sys.executable, "-m", "muster.cli.main", "guard", "demo", "--story", "secrets", "-o", "json"]
    said = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    assert said.returncode == 0, said.stderr
    (story,) = json.loads(said.stdout)["stories"]
    assert (story["before"]["lists"], story["after"]["lists"]) == (300, 5)
    assert "names 60 secrets" in story["before"]["advice"]
    assert story["after"]["advice"] == ""


async def test_a_client_that_lists_too_much_is_named_by_its_user_agent(tmp_path: Path) -> None:
    (port,) = free_ports(1, seed=os.getpid() + 7_000)
    flags = files(tmp_path, url=f"http://{LOOPBACK}:{port}", token="the-token")
    haste = ("--audit-webhook-batch-max-wait=200ms", "--audit-webhook-initial-backoff=200ms")
    options = PlaneOptions(kwok=False, users=OPTIONS.users, apiserver_flags=(*flags, *haste))
    async with open_plane(options) as plane:
        await let_read(plane)
        place = Place(
            plane.kubeconfig(),
            api_servers=plane.servers,
            audit_host=LOOPBACK,
            audit_port=port,
            audit_token=tmp_path / TOKEN,
        )
        config = GuardConfig(lists_per_minute=60)
        async with (
            ClusterObserver(place, config, version="0", now=lambda: Instant(1)) as observer,
            plane.client(READER) as client,
        ):
            client.headers["User-Agent"] = "fleet-doctor/1.2 (linux) more"
            for _ in range(15):
                async with client.get("/api/v1/secrets") as answer:
                    answer.raise_for_status()
            seen: list[Look] = []

            async def is_told() -> bool:
                seen.append(await observer.look())
                return any(finding.degree >= 1 for finding in check_lists(seen[-1], config) or ())

            await until_async(is_told)
            worst = (check_lists(seen[-1], config) or [])[0]
            assert worst.advice.about == "fleet-doctor/1.2 (reader) secrets"
            assert all("user agents" not in sentence for sentence in seen[-1].lacking)


async def test_without_an_audit_webhook_users_are_seen_at_work(alone: ControlPlane) -> None:
    await let_read(alone)
    await fill(alone, secrets=40)
    place = Place(alone.kubeconfig(), api_servers=alone.servers)
    async with (
        ClusterObserver(place, GuardConfig(), version="0", now=lambda: Instant(1)) as observer,
        alone.client(READER) as client,
    ):

        async def is_seen() -> bool:
            async with client.get("/api/v1/secrets") as slow:  # its body is not read yet: it is still at work
                await slow.content.read(1)
                found = [(one.agent, one.user, one.resource) for one in (await observer.look()).clients]
                await slow.read()
                return ("", READER, "secrets") in found

        await until_async(is_seen)


async def test_pods_of_a_workload_tell_its_secrets(alone: ControlPlane) -> None:
    volumes = [{"name": f"v{number}", "secret": {"secretName": f"s{number}"}} for number in range(60)]
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "trainer", "uid": "0"}
    async with alone.client() as client:
        for number in range(4):
            pod = {
                "metadata": {"name": f"trainer-{number}", "ownerReferences": [owner]},
                "spec": {
                    "nodeName": f"n{number % 2}",
                    "containers": [{"name": "c", "image": "none"}],
                    "volumes": volumes,
                },
            }
            async with client.post("/api/v1/namespaces/default/pods", json=pod) as answer:
                answer.raise_for_status()
    place = Place(alone.kubeconfig(), api_servers=alone.servers)
    async with ClusterObserver(place, GuardConfig(), version="0", now=lambda: Instant(1)) as observer:
        look = await observer.look()
        assert look.pods is not None
        (one,) = look.pods.workloads
        assert (one.title, one.secrets, one.nodes, one.lists) == ("default/statefulset/trainer", 60, 2, 120)
        assert [finding.degree >= 1 for finding in check_secrets(look, GuardConfig()) or ()] == [True]
    at_once = {"gracePeriodSeconds": "0"}
    async with alone.client() as client, client.delete("/api/v1/namespaces/default/pods", params=at_once) as answer:
        answer.raise_for_status()
