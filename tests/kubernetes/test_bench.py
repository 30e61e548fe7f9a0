"""`muster bench kubernetes` at a small size: every contender places what fits, on a control plane of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import aiohttp
import pytest
from typer.testing import CliRunner

from kit.waiting import until, until_async
from muster.cli.main import app
from muster_tools.bench.kubernetes.counting import Requests, requests_of
from muster_tools.bench.kubernetes.manifests import namespace, pod
from muster_tools.bench.kubernetes.plan import Contender
from muster_tools.bench.kubernetes.scenarios.churn import informers
from muster_tools.local_kubernetes.fleet import create_all
from muster_tools.local_kubernetes.plane import ControlPlane

WORKLOADS, NODES = 40, 20
FOLLOWERS = 5
FOLLOWED = {"nodes", "pods", "resourceclaims", "resourceslices"}
"""What Muster follows: others may list something of their own meanwhile."""
PLACE_ALL = ("floor", "kube-scheduler-packing", "old-stack", "muster", "muster-dra")
"""The others spread, and may strand what needs a whole node."""


def bench(*words: str) -> dict[str, object]:
    argv = ["bench", "kubernetes", "--workloads", f"{WORKLOADS}", "--nodes", f"{NODES}", *words, "-o", "json"]
    found = CliRunner().invoke(app, argv)
    assert found.exit_code == 0, found.output
    return json.loads(found.stdout)


@pytest.mark.timeout(300)
def test_all_contenders_are_compared_in_one_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster_tools.bench.kubernetes.bounds.CALM_S", 0.6)
    monkeypatch.setattr("muster_tools.bench.kubernetes.bounds.SETTLED_S", 5.0)
    monkeypatch.setattr("muster_tools.bench.kubernetes.bounds.CHURN_S", 2.0)

    found = bench("--subscribers", f"{FOLLOWERS}", "--out", str(tmp_path))

    by_name = {one["contender"]: one for one in found["contenders"]}
    assert list(by_name) == [contender.value for contender in Contender]
    assert {name: by_name[name]["placed"] for name in PLACE_ALL} == dict.fromkeys(PLACE_ALL, WORKLOADS)
    assert all(one["placed"] >= WORKLOADS * 0.9 and one["finished"] for one in by_name.values())
    assert {name: by_name[name]["running"] for name in PLACE_ALL} == dict.fromkeys(PLACE_ALL, WORKLOADS)
    assert by_name["floor"]["requests"]["writes"] >= 2 * WORKLOADS
    assert set(by_name["floor"]["peak_mib"]) < set(by_name["kube-scheduler"]["peak_mib"])
    assert {"kube-scheduler", "topology-scheduler"} <= set(by_name["old-stack"]["peak_mib"])
    for name in ("muster", "muster-dra"):
        assert not FOLLOWED & set(by_name[name]["requests"]["lists_in_surge_of"]), name
    assert [verdict["contender"] for verdict in found["verdicts"]] == ["muster", "muster-dra"]
    assert {path.name for path in tmp_path.iterdir()} == {"kubernetes.json", "kubernetes.png"}
    _, subscribed, informed = by_name["muster"]["crowds"]
    assert not FOLLOWED & set(subscribed["lists_of"])
    assert subscribed["received_mib"] > 0
    assert (informed["lists_of"]["pods"], informed["watches"] >= FOLLOWERS) == (FOLLOWERS, True)


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


def test_the_bench_of_the_reflector_compares_its_ways() -> None:
    argv = [sys.executable, "-m", "bench.reflector", "--pods", "200", "--ways", "reflector", "typed"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    said = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=200, check=True).stdout
    assert "reflector" in said
    assert "typed" in said
