"""`muster upgrade`: from options to a campaign, and how one goes."""

import json
from dataclasses import dataclass, field

import pytest

from muster.cli import upgrading
from muster.cli.errors import CliError
from muster.cli.main import run
from muster.client import Muster
from muster.schemas.campaigns import CampaignPreview, CampaignView, Course, TurnView
from muster.schemas.facts.node import RunningJobs
from muster.schemas.facts.operations import NodeAction
from muster.schemas.facts.upgrade import CampaignSpec
from unit.cli.fake_muster import FakeMuster

SPEC = CampaignSpec.model_validate({"name": "driver-580-105", "component": "driver", "version": "580.105"})
HOUR_NS = 3600 * 10**9


def a_view(state: str = "going", **fields: object) -> CampaignView:
    return CampaignView.model_validate({"name": SPEC.name, "cluster": "c", "spec": SPEC, "state": state} | fields)


@dataclass
class FakeUpgrades(FakeMuster):
    """started, changed: what was asked. view: how the campaign is."""

    started: list[tuple[CampaignSpec, str]] = field(default_factory=list)
    changed: list[tuple[str, str, str]] = field(default_factory=list)
    view: CampaignView = field(default_factory=a_view)

    async def start_campaign(self, spec: CampaignSpec, *, cluster: str = "") -> CampaignView | None:
        self.started.append((spec, cluster))
        return self.view if spec.reason != "late" else None

    async def preview_campaign(self, spec: CampaignSpec, *, cluster: str = "") -> CampaignPreview:
        self.started.append((spec, cluster))
        return CampaignPreview(
            at=HOUR_NS,
            nodes=200,
            at_version=3,
            courses=(
                Course(way="campaign", ends_at=25 * HOUR_NS, gpu_hours_lost=950),
                Course(way="naive drain", ends_at=9 * HOUR_NS, jobs_killed=149, gpu_hours_lost=96_714),
            ),
            turns=(TurnView(node="n1", step="planned", turn_at=3 * HOUR_NS, waits_for="J"),),
        )

    async def campaigns(self, *, cluster: str = "") -> list[CampaignView]:
        return [self.view]

    async def campaign(self, name: str, *, cluster: str = "") -> CampaignView:
        return self.view

    async def pause_campaign(self, name: str, *, reason: str = "", cluster: str = "") -> CampaignView:
        self.changed.append(("pause", name, reason))
        return a_view("paused", reason=reason)

    async def resume_campaign(self, name: str, *, reason: str = "", cluster: str = "") -> CampaignView:
        self.changed.append(("resume", name, reason))
        return a_view("going")

    async def abort_campaign(self, name: str, *, reason: str = "", cluster: str = "") -> CampaignView:
        self.changed.append(("abort", name, reason))
        return a_view("aborting", reason=reason)


@pytest.fixture
def upgrades(monkeypatch: pytest.MonkeyPatch) -> FakeUpgrades:
    fake = FakeUpgrades()
    monkeypatch.setattr(Muster, "from_state_dir", lambda *_, **__: fake)
    return fake


def test_options_become_a_campaign(upgrades: FakeUpgrades) -> None:
    words = (
        "upgrade start --component driver=580.105 --select group=h100 --select node=a,b --select zone=z1"
        " --max-unavailable 10 --per-rack 2 --parallel 4 --failures 3 --takes 15m --limit 1h"
        " --move --roll-back --cluster c"
    )
    assert run([*words.split(), "--window", "Fri-Sun 22:00-06:00"]) == 0
    ((spec, cluster),) = upgrades.started
    assert (spec.name, spec.component, spec.version, cluster) == ("driver-580-105", NodeAction.DRIVER, "580.105", "c")
    assert (spec.select.groups, spec.select.nodes, spec.select.labels) == (("h100",), ("a", "b"), {"zone": "z1"})
    assert (spec.max_unavailable, spec.per_rack, spec.per_group, spec.parallel) == ("10", "2", None, 4)
    assert (spec.failures_max, spec.takes_s, spec.action_limit_s) == (3, 900, 3600)
    assert (spec.running, spec.roll_back) == (RunningJobs.MOVE, True)
    assert [(window.days, window.from_min, window.to_min) for window in spec.windows] == [((4, 5, 6), 1320, 360)]


def test_a_command_is_an_upgrade_too(upgrades: FakeUpgrades) -> None:
    assert run(["upgrade", "start", "--component", "command", "--run", "systemctl restart 'my agent'"]) == 0
    ((spec, _),) = upgrades.started
    assert (spec.name, spec.command) == ("command", ("systemctl", "restart", "my agent"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--component driver", "version"),
        ("--component reset", "repair"),
        ("--component reboot=2", "version"),
        ("--component driver=1 --select gpu", "--select"),
        ("--component driver=1 --max-unavailable 0", "max_unavailable"),
        ("--component driver=1 --takes soon", "--takes"),
    ],
)
def test_what_cannot_be_names_the_option(
    upgrades: FakeUpgrades, words: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["upgrade", "start", *words.split()]) == 2
    assert said in capsys.readouterr().err
    assert not upgrades.started


@pytest.mark.parametrize("text", ["22:00", "Xyz 01:00-02:00", "25:00-26:00", "01:70-02:00"])
def test_windows_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(CliError, match="--window"):
        upgrading.window_of(text)


def test_the_plan_sets_the_campaign_beside_draining_by_hand(
    upgrades: FakeUpgrades, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["upgrade", "plan", "--component", "driver=580.105", "-o", "wide"]) == 0
    told = capsys.readouterr().out
    assert "200 nodes, 3 have the version already" in told
    assert "149" in told
    assert "96,714" in told
    assert "n1" in told
    assert len(upgrades.started) == 1


def test_how_campaigns_go_is_a_row_each(upgrades: FakeUpgrades, capsys: pytest.CaptureFixture[str]) -> None:
    upgrades.view = a_view(steps={"done": 7, "upgrading": 2, "waiting-for-jobs": 1, "planned": 90, "failed": 1})
    assert run(["upgrade", "status"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows[1][:7] == ["driver-580-105", "driver=580.105", "going", "7", "3", "1", "90"]


def test_one_campaign_as_json_has_its_nodes(upgrades: FakeUpgrades, capsys: pytest.CaptureFixture[str]) -> None:
    upgrades.view = a_view(nodes=(TurnView(node="n1", step="failed", detail="no module"),))
    assert run(["upgrade", "status", "driver-580-105", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["nodes"][0]["detail"] == "no module"


@pytest.mark.parametrize(
    ("ask", "said"), [("pause", "paused, lunch"), ("resume", "going"), ("abort", "aborting, lunch")]
)
def test_changes_say_how_it_is(upgrades: FakeUpgrades, ask: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["upgrade", ask, "driver-580-105", "--reason", "lunch"]) == 0
    assert capsys.readouterr().out == f"driver-580-105: {said}\n"
    assert upgrades.changed == [(ask, "driver-580-105", "lunch")]
