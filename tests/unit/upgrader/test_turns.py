"""One node after the other: what a turn is made of, and what keeps a node from it."""

import pytest

from kit.upgrader import DAY, HOUR, NEW, VirtualUpgrader, a_campaign, node_named
from muster.core import after
from muster.schemas.facts.job_requests import JobEdited
from muster.schemas.facts.node import NodeLeft, RunningJobs, WithholdRequested
from muster.schemas.facts.operations import NodeActionRequested
from muster.schemas.facts.upgrade import CampaignEnded, CampaignStopped, Step
from muster.upgrader.core.limits import ENDED_KEPT

A_TURN = ["cordoned", "drained", "upgrading", "validating", "done"]


def test_an_empty_node_is_taken_upgraded_checked_and_given_back() -> None:
    world = VirtualUpgrader(1)
    world.start(a_campaign())
    world.advance(HOUR)
    assert world.steps("n000") == A_TURN
    assert not world.asked["n000"], "jobs may have it again"
    (ended,) = world.payloads("ended")
    assert isinstance(ended, CampaignEnded)
    assert (ended.done, ended.failed, ended.left_out) == (1, 0, 0)


def test_nodes_go_one_after_the_other_where_one_may_be_out_of_use() -> None:
    world = VirtualUpgrader(4)
    world.start(a_campaign())
    world.advance(6 * HOUR)
    assert all(world.steps(node_named(number)) == A_TURN for number in range(4))
    out = 0
    for fact in world.log:
        if fact.name == "withheld":
            out += 1
        elif fact.name == "released":
            out -= 1
        assert out <= 1


def test_nothing_is_done_to_a_node_before_its_job_ended() -> None:
    world = VirtualUpgrader(1)
    world.run_job("n000", limit_s=7 * DAY, ends_s=6 * DAY)
    world.start(a_campaign())
    world.advance(6 * DAY - 1)
    assert world.step_of("n000") is Step.PLANNED
    assert not any(isinstance(fact.payload, NodeActionRequested) for fact in world.log)
    world.advance(HOUR)
    assert world.step_of("n000") is Step.DONE


def test_a_node_full_of_a_job_is_kept_for_the_end_of_it() -> None:
    world = VirtualUpgrader(1)
    world.run_job("n000", limit_s=7 * DAY)
    world.start(a_campaign())
    world.advance(60)
    assert not world.may_start("n000", 8 * DAY)
    assert world.may_start("n000", 6 * DAY), "short ones are welcome"


def test_a_job_that_runs_over_its_turn_is_waited_for() -> None:
    world = VirtualUpgrader(2)
    world.run_job("n000", limit_s=HOUR, ends_s=5 * HOUR)
    world.run_job("n001", limit_s=9 * HOUR)
    world.start(a_campaign())
    world.advance(2 * HOUR)
    assert world.steps("n000") == ["cordoned", "waiting-for-jobs"]
    world.advance(5 * HOUR)
    assert world.steps("n000") == ["cordoned", "waiting-for-jobs", *A_TURN[1:]]


def test_nodes_of_a_gang_have_their_turns_together() -> None:
    world = VirtualUpgrader(6)
    gang = ("n001", "n003", "n005")
    world.run_job(*gang, limit_s=2 * HOUR)
    world.start(a_campaign(max_unavailable="3"))
    world.advance(DAY)
    taken = {f.subject_id: f.time for f in world.log if f.name == "upgrade-stepped" and f.payload.step is Step.CORDONED}
    assert len({taken[node] for node in gang}) == 1


def test_jobs_that_allow_it_are_moved_at_the_end_of_their_slice_if_the_campaign_says_so() -> None:
    world = VirtualUpgrader(1)
    world.run_job("n000", limit_s=7 * DAY, moves=True, slice_s=2 * HOUR)
    world.start(a_campaign(running="move"))
    world.advance(2 * HOUR - 1)
    assert world.step_of("n000") is Step.PLANNED
    world.advance(HOUR)
    assert world.step_of("n000") is Step.DONE
    asked = [fact.payload for fact in world.log if isinstance(fact.payload, WithholdRequested)]
    assert [one.running for one in asked] == [RunningJobs.FINISH, RunningJobs.MOVE]


def test_jobs_that_do_not_allow_it_are_never_moved() -> None:
    world = VirtualUpgrader(1)
    job = world.run_job("n000", limit_s=DAY)
    world.start(a_campaign(running="move"))
    world.advance(DAY - 1)
    assert job in world.slots
    world.advance(HOUR)
    assert world.step_of("n000") is Step.DONE


def test_nodes_at_the_version_are_left_alone() -> None:
    world = VirtualUpgrader(2)
    world.join("n001", version=NEW)
    world.start(a_campaign())
    world.advance(HOUR)
    assert world.steps("n001") == []
    assert world.steps("n000") == A_TURN
    assert world.payloads("accepted")[0].at_version == 1


def test_a_node_that_joins_later_is_taken_too() -> None:
    world = VirtualUpgrader(2)
    world.start(a_campaign())
    world.advance(5 * 60)
    world.join("n002")
    world.advance(2 * HOUR)
    assert world.steps("n002") == A_TURN


def test_a_cordon_of_a_person_stays_and_its_node_goes_first() -> None:
    world = VirtualUpgrader(3)
    world.person("cordon", "n002")
    world.start(a_campaign())
    world.advance(10)
    assert world.steps("n002")[0] == "cordoned", "it is out of use already: that costs nothing"
    world.advance(4 * HOUR)
    assert world.step_of("n002") is Step.DONE
    assert world.core.state.cordon("n002") is not None
    told = [fact.payload for fact in world.log if fact.name == "upgrade-stepped" and fact.subject_id == "n002"]
    assert told[0].cordoned_by == told[-1].cordoned_by == "bob"


def test_nodes_that_are_down_count_against_the_limit() -> None:
    world = VirtualUpgrader(4)
    world.lose("n003")
    world.start(a_campaign(max_unavailable="1"))
    world.advance(3 * HOUR)
    assert all(not world.steps(node_named(number)) for number in range(4))
    world.find("n003")
    world.advance(4 * HOUR)
    assert all(world.step_of(node_named(number)) is Step.DONE for number in range(4))


def test_what_another_service_withholds_is_not_taken() -> None:
    world = VirtualUpgrader(2)
    world.write("health", "node", "n000", "withhold-requested", WithholdRequested(request_id="h1"))
    world.start(a_campaign(max_unavailable="2"))
    world.advance(3 * HOUR)
    assert not world.steps("n000")
    assert world.steps("n001") == A_TURN


@pytest.mark.parametrize("limit", [{"per_rack": "1"}, {"parallel": 2}])
def test_further_limits_hold(limit: dict[str, object]) -> None:
    world = VirtualUpgrader(8)
    world.start(a_campaign(max_unavailable="8", **limit))
    out = dict[str, str]()
    world.advance(DAY)
    for fact in world.log:
        if fact.name == "withheld":
            out[fact.subject_id] = f"r{int(fact.subject_id[1:]) // 4}"
        elif fact.name == "released":
            del out[fact.subject_id]
        assert len(out) <= 2
        if "per_rack" in limit:
            assert len(set(out.values())) == len(out)
    assert all(world.step_of(node_named(number)) is Step.DONE for number in range(8))


def test_a_node_that_fails_stays_away_from_jobs_and_the_campaign_stops() -> None:
    world = VirtualUpgrader(3)
    world.bad["n000"] = "action"
    world.start(a_campaign())
    world.advance(DAY)
    assert world.steps("n000") == ["cordoned", "drained", "upgrading", "failed"]
    assert world.asked["n000"]
    assert not world.steps("n001")
    (stopped,) = world.payloads("stopped")
    assert isinstance(stopped, CampaignStopped)
    assert stopped.failed == ("n000",)


def test_resuming_tries_failed_nodes_again() -> None:
    world = VirtualUpgrader(2)
    world.bad["n000"] = "action"
    world.start(a_campaign())
    world.advance(DAY)
    world.bad.clear()
    world.ask("resume")
    world.advance(DAY)
    assert world.step_of("n000") is Step.DONE
    assert world.payloads("ended")


def test_a_failed_node_is_rolled_back_if_the_campaign_says_so() -> None:
    world = VirtualUpgrader(2)
    world.bad["n000"] = "action"
    world.start(a_campaign(roll_back=True, failures_max=2))
    world.advance(DAY)
    assert world.steps("n000") == ["cordoned", "drained", "upgrading", "rolling-back", "rolling-back", "rolled-back"]
    assert not world.asked["n000"]
    (ended,) = world.payloads("ended")
    assert isinstance(ended, CampaignEnded)
    assert (ended.done, ended.rolled_back) == (1, 1)


def test_checks_that_fail_after_the_upgrade_fail_the_node() -> None:
    world = VirtualUpgrader(1)
    world.bad["n000"] = "device-count"
    world.start(a_campaign())
    world.advance(DAY)
    assert world.steps("n000")[-2:] == ["validating", "failed"]
    turn = world.core.state.campaigns["driver"].turns["n000"]
    assert turn.detail == "validating: check device-count failed"


def test_who_does_not_answer_has_failed() -> None:
    world = VirtualUpgrader(1)
    world.mute = True
    world.start(a_campaign())
    world.advance(HOUR)
    assert world.step_of("n000") is Step.FAILED


def test_a_person_frees_a_node_that_failed_also_after_the_end() -> None:
    world = VirtualUpgrader(1)
    world.bad["n000"] = "action"
    world.start(a_campaign(failures_max=5))
    world.advance(DAY)
    assert world.payloads("ended")
    assert world.asked["n000"]
    world.person("resume", "n000")
    world.advance(10)
    assert not world.asked["n000"]


def test_nothing_is_done_to_a_node_that_does_not_answer() -> None:
    world = VirtualUpgrader(1)
    world.run_job("n000", limit_s=HOUR, ends_s=2 * HOUR)
    world.start(a_campaign())
    world.advance(HOUR + 600)
    world.lose("n000")
    world.advance(DAY)
    assert world.steps("n000")[-1] == "drained"
    world.find("n000")
    world.advance(HOUR)
    assert world.step_of("n000") is Step.DONE


def test_a_node_that_left_and_came_again_is_asked_under_other_ids() -> None:
    """The agent remembers what it did, and answers no request a second time."""
    world = VirtualUpgrader(2)
    world.run_job("n001", limit_s=7 * DAY)
    world.mute = True
    world.start(a_campaign())
    world.advance(60)
    world.write("agent", "node", "n000", "left", NodeLeft())
    world.asked.clear()
    world.given.clear()
    world.advance(60)
    world.join("n000")
    world.mute = False
    world.advance(HOUR)
    ids = [fact.payload.request_id for fact in world.log if isinstance(fact.payload, NodeActionRequested)]
    assert len(ids) == len(set(ids)) == 2
    assert world.step_of("n000") is Step.DONE


def test_a_turn_that_comes_while_turns_are_not_planned_anew_wakes_nobody_before() -> None:
    """One whose job's time is over in 2 s, and a plan that is made every 5 s."""
    world = VirtualUpgrader(2)
    world.run_job("n000", limit_s=2, ends_s=100)
    world.run_job("n001", limit_s=7 * DAY)
    world.start(a_campaign())
    world.advance(1)
    for _ in range(60):
        world.now = after(world.now, 0.25)
        while drafts := world.core.decide(world.now):
            for draft in drafts:
                world.write("upgrader", draft.kind, draft.subject_id, draft.name, draft.payload)
        wake = world.core.next_wakeup()
        assert wake is None or wake > world.now


def test_a_campaign_of_the_same_name_gives_back_what_the_one_before_kept() -> None:
    world = VirtualUpgrader(2)
    world.bad["n000"] = "action"
    lenient = a_campaign(failures_max=5, max_unavailable="2")
    world.start(lenient)
    world.advance(6 * HOUR)
    assert world.asked["n000"], "it failed, and waits for a person"
    world.bad.clear()
    world.start(lenient)
    world.advance(6 * HOUR)
    assert world.steps("n000")[-1] == "done"
    assert not world.asked["n000"]


def test_a_node_that_was_freed_and_is_tried_again_takes_each_step_once() -> None:
    world = VirtualUpgrader(2)
    world.bad["n000"] = "action"
    world.start(a_campaign(failures_max=1))
    world.advance(2 * HOUR)
    first = len(world.log)
    world.person("resume", "n000")
    world.ask("resume")
    world.advance(5 * HOUR)
    asked = [fact.payload for fact in world.log[first:] if fact.name == "action-requested"]
    assert len(asked) == 1
    assert world.asked["n000"], "it failed again, and nobody has freed it since"


def test_campaigns_whose_failed_nodes_were_freed_are_forgotten() -> None:
    world = VirtualUpgrader(1)
    for number in range(2 * ENDED_KEPT):
        world.bad["n000"] = "action"
        world.start(a_campaign(f"c{number}", failures_max=5))
        world.advance(2 * HOUR)
        world.person("resume", "n000")
        world.advance(HOUR)
    assert len(world.core.state.campaigns) <= ENDED_KEPT + 1


def test_the_run_time_of_an_edited_job_counts_in_the_plan() -> None:
    world = VirtualUpgrader(1)
    job_id = world.run_job("n000", limit_s=7 * DAY)
    edited = JobEdited(total_run_time_s=HOUR, min_slice_s=60.0, principal="ann")
    world.write("scheduler", "job", job_id, "edited", edited)
    job = world.core.state.jobs[job_id]
    assert (job.total_s, job.slice_s) == (HOUR, 60.0)
    assert job.ends_by(world.now) == after(world.now, HOUR)
