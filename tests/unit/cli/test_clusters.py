"""`muster cluster`, `muster routes` and `muster reroute`."""

import asyncio
import json
from pathlib import Path

import pytest

from muster.cli.main import run
from muster.schemas.facts.federation import ClusterPhase
from muster.schemas.members import MemberView, WaitingView
from muster.schemas.routing import RoutingPolicy
from unit.cli.fake_members import FakeMembers

RULES = """
rules:
- name: big
  gpus_min: 8
  teams: [vision]
  clusters: [{cluster: east, queue_max: 20, expected_start_s_max: 600}, {cluster: west}]
  waits: true
- name: rest
  clusters: [{cluster: west}]
teams:
- {team: vision, gpus: 64, weight: 2}
"""


@pytest.fixture
def members(monkeypatch: pytest.MonkeyPatch) -> FakeMembers:
    found = FakeMembers()

    def call(_state_dir: Path, ask: object) -> object:
        return asyncio.run(ask(found))  # type: ignore[operator]

    monkeypatch.setattr("muster.cli.clustering.call", call)
    return found


def test_clusters_are_listed_with_what_waits(members: FakeMembers, capsys: pytest.CaptureFixture[str]) -> None:
    members.clusters["east"] = MemberView(
        name="east", state=ClusterPhase.DRAINING, to=("west",), jobs=3, gpus_total=64, gpus_free=1.5
    )
    members.lanes = (WaitingView(team="vision", rule="big", gpus=8, jobs=4, reason="team-limit", detail="it has all"),)
    assert run(["cluster", "list"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows[1] == ["east", "draining", "3", "0", "0", "0", "64", "1.5", "-", "west"]
    assert rows[-1][:4] == ["vision", "big", "8", "4"]


def test_a_cluster_is_drained_and_resumed(members: FakeMembers, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["cluster", "drain", "east", "--to", "west", "--to", "north", "--reason", "old"]) == 0
    assert run(["cluster", "resume", "east"]) == 0
    assert members.asked == [("drain", "east", ("west", "north"), "old"), ("resume", "east", "")]
    assert capsys.readouterr().out == "east draining, 3 jobs there\neast active, 3 jobs there\n"


def test_rules_of_a_file_stand_and_are_shown(
    members: FakeMembers, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "routes.yaml"
    file.write_text(RULES)
    assert run(["routes", "set", str(file), "--based-on", "3"]) == 0
    ((_, policy, based_on),) = members.asked
    assert isinstance(policy, RoutingPolicy)
    assert (policy.clusters, based_on) == (("east", "west"), 3)
    assert run(["routes"]) == 0
    out = capsys.readouterr().out
    assert "team vision; at least 8 GPUs" in out
    assert "east (until 20 wait or start in 10 min) > west > wait" in out
    assert ["vision", "64", "2"] in [line.split() for line in out.splitlines()]


def test_rules_that_are_shown_as_json_can_be_set_again(
    members: FakeMembers, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "routes.json"
    file.write_text(RULES)
    assert run(["routes", "set", str(file)]) == 0
    capsys.readouterr()
    assert run(["routes", "show", "-o", "json"]) == 0
    shown = capsys.readouterr().out
    assert RoutingPolicy.model_validate(json.loads(shown)) == members.policy


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("rules: [{name: all, teams: [a], clusters: [{cluster: east}]}]", "no conditions"),
        ("rules: [{name: all, clusters: []}]", "clusters"),
        ("rules: [{name: all, clusters: [{cluster: east}], wait: true}]", "wait"),
    ],
)
def test_a_file_that_is_wrong_is_told_with_its_field(
    text: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "routes.yaml"
    file.write_text(text)
    assert run(["routes", "check", str(file)]) == 2
    assert told in capsys.readouterr().err


def test_a_file_that_is_right_is_told_too(
    members: FakeMembers, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "routes.yaml"
    file.write_text(RULES)
    assert run(["routes", "check", str(file)]) == 0
    assert capsys.readouterr().out == "2 rules, 1 teams; jobs go to east, west\n"


def test_without_a_stack_it_is_said_that_the_clusters_were_not_looked_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "routes.yaml"
    file.write_text(RULES)
    assert run(["routes", "check", str(file), "--state-dir", str(tmp_path / "none")]) == 0
    assert "not checked" in capsys.readouterr().err


def test_a_cluster_that_the_federation_does_not_have_is_refused(
    members: FakeMembers, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "routes.yaml"
    file.write_text("rules: [{name: all, clusters: [{cluster: east}, {cluster: nowhere}]}]")
    assert run(["routes", "check", str(file)]) == 2
    told = f"muster: {file}: rules.0.clusters.1.cluster: 'nowhere' is not a cluster of the federation; use one of "
    assert capsys.readouterr().err.startswith(told)


def test_a_job_is_moved(members: FakeMembers, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["reroute", "A" * 26, "--to", "west"]) == 0
    assert members.asked == [("reroute", "A" * 26, "west", "")]
    assert capsys.readouterr().out == f"{'A' * 26} reroute requested, it is on east\n"
