"""What people ask of campaigns, and what keeps a campaign from going on."""

import pytest

from kit.log import START
from kit.upgrader import CONFIG, DAY, HOUR, VirtualUpgrader, a_campaign, node_named
from muster.core import after
from muster.schemas.facts.health import BrakeReset, BrakeTripped
from muster.schemas.facts.node import NodeLeft, Withheld, WithholdRequested, WithholdWithdrawn
from muster.schemas.facts.upgrade import CampaignEnded, CampaignRefused, CampaignStopped, Step
from muster.upgrader.core.config import UpgradeConfig


def test_a_pause_gives_waiting_nodes_back_and_lets_an_upgrade_end() -> None:
    world = VirtualUpgrader(3)
    world.run_job("n001", limit_s=HOUR, ends_s=9 * HOUR)
    world.start(a_campaign(max_unavailable="2", failures_max=9))
    world.advance(HOUR + 60)
    assert world.step_of("n001") is Step.WAITING
    world.ask("pause", reason="conference")
    world.advance(DAY)
    assert world.steps("n001")[-1] == "planned"
    assert not any(world.asked.get(node) for node in ("n000", "n001", "n002"))
    world.ask("resume")
    world.advance(DAY)
    (ended,) = world.payloads("ended")
    assert isinstance(ended, CampaignEnded)
    assert ended.done == 3


def test_an_upgrade_under_way_goes_on_to_its_end_in_a_pause() -> None:
    world = VirtualUpgrader(2)
    world.start(a_campaign())
    world.advance(60)
    assert world.step_of("n000") is Step.UPGRADING
    world.ask("pause")
    world.advance(DAY)
    assert world.step_of("n000") is Step.DONE
    assert world.step_of("n001") is Step.PLANNED
    assert not world.payloads("ended")


def test_an_aborted_campaign_ends_and_keeps_nothing() -> None:
    world = VirtualUpgrader(4)
    world.run_job("n003")
    world.start(a_campaign())
    world.advance(60)
    world.ask("abort", reason="wrong version")
    world.advance(DAY)
    (ended,) = world.payloads("ended")
    assert isinstance(ended, CampaignEnded)
    assert (ended.aborted, ended.done, ended.left_out, ended.reason) == (True, 1, 3, "wrong version")
    assert not any(world.asked.values())


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"suite": "nothing"}, "suite"),
        ({"select": {"groups": ["none"]}}, "select"),
        ({"select": {"nodes": ["n000", "n999"]}}, "select.nodes"),
    ],
)
def test_a_campaign_that_cannot_be_is_refused(spec: dict[str, object], field: str) -> None:
    world = VirtualUpgrader(2)
    world.start(a_campaign(**spec))
    world.advance(HOUR)
    (refused,) = world.payloads("refused")
    assert isinstance(refused, CampaignRefused)
    assert refused.field == field
    assert not world.payloads("accepted")


def test_two_of_one_name_do_not_go_on_at_a_time_but_one_after_the_other_do() -> None:
    world = VirtualUpgrader(1)
    world.start(a_campaign())
    world.advance(60)
    world.start(a_campaign())
    world.advance(DAY)
    assert [len(world.payloads(name)) for name in ("accepted", "refused", "ended")] == [1, 1, 1]
    world.start(a_campaign(version="590.1"))
    world.advance(DAY)
    assert len(world.payloads("ended")) == 2
    assert world.steps("n000").count("done") == 2


def test_only_so_many_campaigns_go_on_at_a_time() -> None:
    world = VirtualUpgrader(2, config=UpgradeConfig(campaigns_max=1, suites=CONFIG.suites))
    world.start(a_campaign("one"))
    world.start(a_campaign("two"))
    world.advance(60)
    assert [len(world.payloads(name)) for name in ("accepted", "refused")] == [1, 1]


def test_changes_of_what_does_not_go_on_are_refused() -> None:
    world = VirtualUpgrader(1)
    world.ask("pause")
    world.start(a_campaign())
    world.advance(60)
    world.ask("resume")
    world.advance(60)
    assert [refused.ask for refused in world.payloads("refused")] == ["pause", "resume"]  # type: ignore[attr-defined]


def test_two_campaigns_take_a_node_one_after_the_other() -> None:
    world = VirtualUpgrader(2)
    world.start(a_campaign("driver", max_unavailable="2"))
    world.start(a_campaign("os", component="os", version="22.04", max_unavailable="2"))
    world.advance(DAY)
    assert len(world.payloads("ended")) == 2
    for number in range(2):
        steps = world.steps(node_named(number))
        assert steps.count("done") == 2
        assert steps.index("done") < len(steps) - 1 - steps[::-1].index("upgrading"), "not at the same time"


def test_healths_brake_stops_it_until_a_person_resumes_both() -> None:
    world = VirtualUpgrader(3)
    world.start(a_campaign())
    world.advance(60)
    tripped = BrakeTripped(nodes=9, most=5, fleet=30, window_s=300, because="9 of 30 nodes in 5 min")
    world.write("health", "health", "brake", "brake-tripped", tripped)
    world.advance(DAY)
    (stopped,) = world.payloads("stopped")
    assert isinstance(stopped, CampaignStopped)
    assert "9 of 30 nodes" in stopped.reason
    assert world.step_of("n000") is Step.DONE, "what was under way ended"
    world.ask("resume")
    world.advance(60)
    assert len(world.payloads("refused")) == 1
    world.write("health", "health", "brake", "brake-reset", BrakeReset(principal="bob"))
    world.ask("resume")
    world.advance(DAY)
    assert world.payloads("ended")


def test_nodes_are_taken_within_windows_alone() -> None:
    world = VirtualUpgrader(2)
    world.start(a_campaign(windows=({"from_min": 120, "to_min": 180},)))
    world.advance(3 * DAY)
    taken = [fact.time for fact in world.log if fact.name == "upgrade-stepped" and fact.payload.step is Step.CORDONED]  # type: ignore[attr-defined]
    assert len(taken) == 2
    for moment in taken:
        minute = moment // (60 * 10**9) % (24 * 60)
        assert 120 <= minute < 180


def test_nothing_is_taken_before_it_starts() -> None:
    world = VirtualUpgrader(1)
    world.start(a_campaign(starts_at=after(START, 5 * HOUR)))
    world.advance(5 * HOUR - 1)
    assert not world.steps("n000")
    world.advance(HOUR)
    assert world.step_of("n000") is Step.DONE


def test_nodes_with_room_are_not_kept_for_a_turn_far_away() -> None:
    """Two may be out of use; of four half empty nodes two are kept, and the others go on taking jobs."""
    world = VirtualUpgrader(4)
    for number in range(4):
        world.run_job(node_named(number), limit_s=5 * DAY + number * HOUR, gpus=4)
    world.start(a_campaign(max_unavailable="2"))
    world.advance(HOUR)
    assert [world.may_start(node_named(number), 7 * DAY) for number in range(4)] == [False, False, True, True]


def test_a_node_that_was_given_after_it_was_given_back_goes_back_again() -> None:
    """The scheduler's answer crosses the withdrawal: the answer stands, so it is withdrawn once more."""
    world = VirtualUpgrader(1)
    world.run_job("n000", limit_s=HOUR, ends_s=5 * HOUR)
    world.start(a_campaign())
    world.advance(HOUR + 600)
    (request_id,) = world.asked["n000"]
    world.ask("pause")
    world.advance(60)
    world.write("scheduler", "node", "n000", "withheld", Withheld(request_id=request_id))
    world.advance(60)
    backs = [fact.payload for fact in world.log if isinstance(fact.payload, WithholdWithdrawn)]
    assert [back.after_withheld for back in backs] == [False, True]


def test_a_node_that_leaves_has_no_turn_and_the_campaign_ends_without_it() -> None:
    world = VirtualUpgrader(2)
    world.run_job("n001")
    world.start(a_campaign())
    world.advance(DAY)
    world.write("agent", "node", "n001", "left", NodeLeft())
    world.advance(DAY)
    (ended,) = world.payloads("ended")
    assert isinstance(ended, CampaignEnded)
    assert (ended.done, ended.left_out) == (1, 0)


def test_gpus_that_nobody_uses_are_counted_while_a_node_is_kept() -> None:
    world = VirtualUpgrader(1, action_s=1740, check_s=60)
    world.start(a_campaign())
    world.advance(DAY)
    (ended,) = world.payloads("ended")
    assert isinstance(ended, CampaignEnded)
    assert ended.gpu_hours_lost == pytest.approx(8 * 0.5)


def test_gpus_that_a_job_holds_while_a_node_is_kept_are_not_lost() -> None:
    world = VirtualUpgrader(1, action_s=1740, check_s=60)
    world.run_job("n000", gpus=6, limit_s=HOUR)
    world.start(a_campaign())
    world.advance(DAY)
    (ended,) = world.payloads("ended")
    assert isinstance(ended, CampaignEnded)
    assert ended.gpu_hours_lost == pytest.approx(2 * 1.0 + 8 * 0.5)


@pytest.mark.parametrize("step", ["waiting-for-jobs", "drained"])
def test_a_node_that_falls_ill_goes_back_so_that_health_need_not_wait_for_the_upgrade(step: str) -> None:
    """Before it is given as well as afterwards: else each would wait for the other, and nobody would wake either."""
    world = VirtualUpgrader(1)
    world.run_job("n000", limit_s=HOUR, ends_s=2 * HOUR)
    world.start(a_campaign())
    world.advance(HOUR + 600)
    if step == "drained":
        world.lose("n000")
        world.advance(HOUR)
        world.find("n000")
    assert world.steps("n000")[-1] == step
    world.write("health", "node", "n000", "withhold-requested", WithholdRequested(request_id="h1"))
    world.advance(DAY)
    assert world.steps("n000")[-1] == "planned"
    assert not world.asked["n000"], "health alone keeps it"
    world.write("health", "node", "n000", "withhold-withdrawn", WithholdWithdrawn(request_id="h1"))
    world.advance(DAY)
    assert world.step_of("n000") is Step.DONE
