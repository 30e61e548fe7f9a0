"""What campaigns look like, and what one would come to."""

import pytest

from kit.log import START
from kit.upgrader import DAY, HOUR, NEW, VirtualUpgrader, a_campaign
from muster.core import after
from muster.schemas.campaigns import AskCampaignCheck, AskCampaigns, AskPreview, CampaignPreview, CampaignView, Course
from muster.upgrader.core import answers


def view(world: VirtualUpgrader, name: str = "driver") -> CampaignView:
    """One campaign, with its nodes."""
    (found,) = answers.answer_campaigns(world.core, AskCampaigns(name=name), world.now).campaigns
    return found


def preview(world: VirtualUpgrader, **spec: object) -> CampaignPreview:
    """What it would come to."""
    return answers.answer_preview(world.core, AskPreview(spec=a_campaign(**spec)), world.now)


def course(found: CampaignPreview, way: str) -> Course:
    """One way of it."""
    return next(one for one in found.courses if one.way == way)


def test_a_campaign_shows_where_its_nodes_stand_and_when_it_ends() -> None:
    world = VirtualUpgrader(3)
    job = world.run_job("n002", limit_s=5 * HOUR)
    world.start(a_campaign(takes_s=1200))
    world.advance(60)
    shown = view(world)
    assert (shown.state, shown.steps) == ("going", {"upgrading": 1, "planned": 2})
    assert (shown.out_of_use, shown.out_of_use_most) == (1, 1)
    by_node = {turn.node: turn for turn in shown.nodes}
    assert by_node["n002"].waits_for == job
    assert by_node["n002"].turn_at == after(START, 5 * HOUR)
    assert shown.next_at == by_node["n001"].turn_at
    assert shown.ends_at == after(START, 5 * HOUR + 1200)


def test_without_a_name_nodes_are_left_out_and_what_is_over_comes_last() -> None:
    world = VirtualUpgrader(1)
    world.start(a_campaign("first"))
    world.advance(DAY)
    world.start(a_campaign("second", version="590.1"))
    world.advance(60)
    found = answers.answer_campaigns(world.core, AskCampaigns(), world.now).campaigns
    assert [(one.name, one.state, one.nodes) for one in found] == [("second", "going", ()), ("first", "ended", ())]
    assert found[1].steps == {"done": 1}


def test_what_keeps_a_node_from_its_turn_is_said() -> None:
    world = VirtualUpgrader(2)
    world.lose("n001")
    world.start(a_campaign(max_unavailable="2"))
    world.advance(10)
    (lost,) = [turn for turn in view(world).nodes if turn.node == "n001"]
    assert (lost.turn_at, lost.detail) == (0, "it does not answer")
    assert view(world).without_turn == 1


def test_nodes_for_which_there_is_no_room_say_so() -> None:
    world = VirtualUpgrader(2)
    world.lose("n001")
    world.start(a_campaign(max_unavailable="1"))
    world.advance(10)
    assert [turn.detail for turn in view(world).nodes] == [answers.NO_ROOM, "it does not answer"]


@pytest.mark.parametrize(
    ("ask", "problem"), [("start", "goes on"), ("pause", ""), ("resume", "goes on"), ("abort", "")]
)
def test_what_would_be_refused_is_known_before(ask: str, problem: str) -> None:
    world = VirtualUpgrader(1)
    world.run_job("n000")
    world.start(a_campaign())
    world.advance(60)
    spec = a_campaign() if ask == "start" else None
    found = answers.answer_check(world.core, AskCampaignCheck(name="driver", ask=ask, spec=spec), world.now)
    assert (problem in found.problem) if problem else not found.problem


def test_a_preview_says_what_each_way_costs() -> None:
    """Two nodes with a job of a day that ran for half of it, one at a time, half an hour each."""
    world = VirtualUpgrader(2)
    world.run_job("n000", limit_s=DAY)
    world.run_job("n001", limit_s=DAY)
    world.advance(DAY / 2)
    found = preview(world, takes_s=1800)
    assert (found.nodes, found.without_turn, len(found.turns)) == (2, 0, 2)
    mine, naive, wait = (course(found, way) for way in ("campaign", "naive drain", "cordon and wait"))
    assert mine.ends_at == after(world.now, DAY / 2 + HOUR), "both end together, one waits for the other"
    assert (mine.jobs_killed, mine.redone_gpu_hours) == (0, 0)
    assert mine.idle_gpu_hours == pytest.approx(8 * (0.5 + 1.0))
    assert naive.ends_at == after(world.now, HOUR)
    assert naive.jobs_killed == 2
    assert naive.redone_gpu_hours == pytest.approx(8 * (12 + 12.5))
    assert wait.ends_at == after(world.now, DAY / 2 + DAY + HOUR / 2), "the second job is followed by one like it"
    assert wait.jobs_killed == 0


def test_moves_cost_a_restart_each() -> None:
    world = VirtualUpgrader(1)
    world.run_job("n000", limit_s=7 * DAY, moves=True, slice_s=HOUR)
    mine = course(preview(world, running="move", takes_s=600), "campaign")
    assert mine.ends_at == after(START, HOUR + 600)
    assert (mine.jobs_moved, mine.jobs_killed) == (1, 0)
    assert mine.redone_gpu_hours == pytest.approx(8 * 60 / 3600, abs=0.06)


def test_a_preview_of_what_cannot_be_says_why() -> None:
    found = preview(VirtualUpgrader(1), suite="nothing")
    assert (found.field, found.courses) == ("suite", ())


def test_nodes_at_the_version_have_no_turn_in_a_preview() -> None:
    world = VirtualUpgrader(2)
    world.join("n001", version=NEW)
    found = preview(world)
    assert (found.nodes, found.at_version, [turn.node for turn in found.turns]) == (2, 1, ["n000"])
