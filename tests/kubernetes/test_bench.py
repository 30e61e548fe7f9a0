"""`muster bench kubernetes` at a small size: every contender places what fits, on a control plane of its own."""

import json
from pathlib import Path

import aiohttp
import pytest
from typer.testing import CliRunner

from muster.cli.bench.kubernetes.counting import Requests, requests_of
from muster.cli.bench.kubernetes.followers import informers
from muster.cli.bench.kubernetes.manifests import namespace, pod
from muster.cli.main import app
from muster.kube.local.fleet import create_all
from muster.kube.local.plane import ControlPlane
from waiting import until, until_async

WORKLOADS, NODES = 40, 20
FITTING = ("floor", "kube-scheduler-packing", "old-stack")
"""Those that place all that fits; kube-scheduler's default profile, and claims, spread and strand some."""


def bench(*words: str) -> dict[str, object]:
    argv = ["bench", "kubernetes", "--workloads", f"{WORKLOADS}", "--nodes", f"{NODES}", *words, "-o", "json"]
    found = CliRunner().invoke(app, argv)
    assert found.exit_code == 0, found.output
    return json.loads(found.stdout)


@pytest.mark.timeout(300)
def test_contenders_are_compared_in_one_run(tmp_path: Path) -> None:
    chosen = [word for name in FITTING for word in ("--contender", name)]

    found = bench(*chosen, "--out", str(tmp_path))

    assert [(one["contender"], one["placed"], one["finished"]) for one in found["contenders"]] == [
        (name, WORKLOADS, True) for name in FITTING
    ]
    floor, scheduled, old = found["contenders"]
    assert set(floor["peak_mib"]) < set(scheduled["peak_mib"]) < set(old["peak_mib"])
    assert floor["requests"]["writes"] >= 2 * WORKLOADS
    assert all(one["create_to_bound_ms"]["p99"] > 0 for one in found["contenders"])
    assert {path.name for path in tmp_path.iterdir()} == {"kubernetes.json", "kubernetes.png"}


@pytest.mark.timeout(300)
def test_claims_are_placed_by_kube_scheduler_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.cli.bench.kubernetes.bounds.SETTLED_S", 5.0)  # some are stranded, which is waited for
    (found,) = bench("--contender", "kube-scheduler-dra", "--limit", "120")["contenders"]

    assert found["placed"] > WORKLOADS * 0.9


@pytest.mark.timeout(300)
def test_muster_places_everything_and_its_followers_ask_the_api_server_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.cli.bench.kubernetes.bounds.CHURN_S", 2.0)

    found = bench("--contender", "muster", "--contender", "muster-dra", "--subscribers", "5")

    for one in found["contenders"]:
        assert (one["placed"], one["finished"]) == (WORKLOADS, True), one["contender"]
        assert one["requests"]["lists_in_surge"] == 0
        _, subscribed, informed = one["crowds"]
        assert (subscribed["lists"], subscribed["received_mib"] > 0) == (0, True)
        assert (informed["lists_of"]["pods"], informed["watches"] >= 5) == (5, True)


def test_what_cannot_fit_is_refused_before_anything_starts() -> None:
    found = CliRunner().invoke(app, ["bench", "kubernetes", "--workloads", "100", "--nodes", "2"])

    assert "--nodes: 2 nodes have 16 GPUs" in str(found.exception)


async def test_each_informer_costs_the_api_server_a_list_and_a_watch(plane: ControlPlane) -> None:
    pods = [pod(number, 1, scheduler="nobody") for number in range(20)]
    async with plane.client() as client:
        await create_all(client, [namespace(), *pods])
        before = await requests_of(client)
        async with informers(5, plane) as received:
            await until_async(lambda: _watched(client, before, 5))
            at_rest = received.size_bytes
            await create_all(client, [pod(20, 1, scheduler="nobody")])
            await until(lambda: received.size_bytes > at_rest)

        asked = (await requests_of(client)).since(before)

    assert asked.lists_of["pods"] == 5
    assert at_rest > 5 * 20 * 500


async def _watched(client: aiohttp.ClientSession, before: Requests, count: int) -> bool:
    return (await requests_of(client)).since(before).watching >= count
