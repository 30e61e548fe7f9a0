"""A cluster of several: jobs that the federation wants back, jobs that come again, and what stops without contact."""

import pytest

from kit.scheduler import CLUSTER, VirtualScheduler, belief, job
from kit.scheduler_member import LOST_AFTER_S, MemberScheduler
from muster.scheduler.core.answers import answer_why
from muster.scheduler.core.fold.requests import ENDING_S_MAX
from muster.schemas.facts.federation import ContactLost, JobRecalled
from muster.schemas.job import Job, Phase
from muster.schemas.queries import AskJob


def test_a_job_that_waits_is_given_back_and_forgotten() -> None:
    world, one = MemberScheduler(), job("one")
    world.give(one)
    recalled = world.recall(one)
    assert world.of(one)[-1] == "returned"
    assert world.log[-1].causes == (recalled.id,)
    assert one.id not in world.core.state.jobs.records
    assert world.core.state.jobs.counts[Phase.QUEUED] == 0
    assert not world.core.state.pending.queues


@pytest.mark.parametrize("runs", [False, True])
def test_a_job_that_has_its_places_is_not_given_back(runs: bool) -> None:
    world, one = MemberScheduler(nodes=1), job("one")
    world.give(one)
    if runs:
        world.started(one)
    world.recall(one)
    refused = world.log[-1]
    assert (refused.name, refused.payload.assignment, refused.payload.reason) == ("return-refused", 1, "it has started")
    assert world.core.state.jobs.records[one.id].recall is None


def test_a_job_that_waits_again_after_a_run_has_started() -> None:
    world, one = MemberScheduler(nodes=1), job("one")
    world.give(one)
    world.started(one)
    world.lose("n0")
    world.exited(one, "node-lost")
    world.recall(one)
    assert world.of(one)[-1] == "return-refused"


def test_of_two_who_pass_each_other_the_placement_stands() -> None:
    world, one = MemberScheduler(nodes=1), job("one")
    world.route(one)
    drafts = world.core.decide(world.now)
    world.write("federation", "job", one.id, "recall-forwarded", JobRecalled(assignment=1))
    for draft in drafts:
        world.append("scheduler", draft)
    world.settle()
    assert world.of(one) == ["queued", "placed", "return-refused"]


def test_a_held_job_and_one_that_nobody_wants_any_more() -> None:
    world, held, gone = MemberScheduler(), job("held"), job("gone")
    for one in (held, gone):
        world.give(one)
    world.hold(held)
    world.recall(held)
    assert world.of(held)[-1] == "returned"
    world.cancel(gone)
    world.recall(gone)
    assert world.of(gone)[-1] == "cancelled", "its end is told, and nothing else"


def test_a_recall_of_another_assignment_or_of_no_job_says_nothing() -> None:
    world, one = MemberScheduler(), job("one")
    world.give(one)
    before = len(world.log)
    world.recall(one, assignment=2)
    world.recall(job("never"))
    assert len(world.log) == before + 2


def test_a_job_may_come_again_and_its_runs_have_numbers_of_their_own() -> None:
    world, one = MemberScheduler(), job("one")
    world.give(one)
    world.recall(one)
    world.give(one, assignment=3)
    world.join("n0")
    placed = [fact.payload.attempt for fact in world.log if fact.name == "placed"]
    assert placed == [2001]
    world.started(one, attempt=2001)
    world.exited(one, attempt=2001)
    assert world.log[-1].payload.assignment == 3


def test_a_job_may_come_again_after_an_end_that_counted_for_nothing() -> None:
    world, one = MemberScheduler(nodes=1), job("one")
    world.give(one)
    world.started(one)
    world.exited(one)
    world.give(one)
    assert world.of(one)[-1] == "succeeded"
    world.give(one, assignment=2)
    assert world.core.state.jobs.records[one.id].phase is Phase.PLACED


def test_what_it_waited_elsewhere_counts_for_its_place_in_line() -> None:
    world, first, old = MemberScheduler(), job("first"), job("old")
    world.give(first)
    world.advance(10)
    world.give(old, assignment=2, age_s=60)
    world.join("n0", gpus=1)
    assert [fact.subject_id for fact in world.log if fact.name == "placed"] == [old.id]


def leased(nodes: int = 1) -> tuple[MemberScheduler, Job]:
    """A job runs that may be given to others, and the federation was heard."""
    world, one = MemberScheduler(nodes=nodes), job("one")
    world.give(one, lost_after_s=LOST_AFTER_S)
    world.renew()
    world.started(one)
    return world, one


def test_nothing_is_numbered_where_no_job_may_be_given_to_others() -> None:
    world = VirtualScheduler(nodes=1)
    world.submit("one")
    world.advance(60)
    numbers = {fact.payload.number for fact in world.log if fact.name == "summarised"}
    assert numbers == {0}
    assert world.core.next_wakeup() is None or world.core.next_wakeup() > world.now


def test_a_job_that_may_be_given_to_others_starts_once_the_federation_was_heard() -> None:
    world, one = MemberScheduler(nodes=1), job("one")
    world.give(one, lost_after_s=LOST_AFTER_S)
    assert world.of(one) == ["queued"]
    why = answer_why(world.core, AskJob(job_id=one.id), world.now)
    assert why.reason == "no-contact"
    assert world.summaries()[-1].number
    world.renew()
    assert world.of(one) == ["queued", "placed"]


def test_signs_of_life_go_on_whether_they_are_answered_or_not_and_say_which_answer_came() -> None:
    world, _ = leased()
    answered = world.summaries()[-1].number
    world.advance(20)
    numbers = [summary.number for summary in world.summaries() if summary.number]
    assert len(numbers) >= 4
    assert numbers == sorted(set(numbers))
    assert world.summaries()[-1].contact == answered


def test_without_contact_what_ran_waits_until_the_federation_is_heard_and_uses_no_retry() -> None:
    world, one = leased()
    world.lose_contact()
    world.exited(one, "failed", exit_code=143)
    assert world.of(one)[-1] == "queued"
    assert "out of contact" in world.log[-1].payload.detail
    record = world.core.state.jobs.records[one.id]
    assert (record.retries_used, record.is_cut_off) == (0, True)
    world.advance(30)
    world.renew()
    assert world.of(one)[-1] == "placed"


def test_an_answer_to_a_summary_of_long_ago_lets_nothing_start() -> None:
    world, one = leased()
    old = world.summaries()[-1].number
    world.lose_contact()
    world.exited(one, "stopped")
    world.advance(LOST_AFTER_S)
    world.renew(old)
    world.renew(old + 1)
    assert world.of(one)[-1] == "queued"


def test_a_pinned_job_runs_and_starts_without_contact() -> None:
    world, _ = leased(nodes=2)
    pinned, later = job("pinned", pin=True), job("later", pin=True)
    world.give(pinned)
    world.started(pinned)
    world.lose_contact()
    world.give(later)
    assert world.of(pinned)[-1] == "running"
    assert world.of(later)[-1] == "placed"


def test_a_job_that_was_given_to_others_is_ended_and_its_end_counts_for_nothing() -> None:
    world, one = leased()
    world.drop(one)
    stop = world.log[-1]
    assert (stop.name, stop.payload.grace_s) == ("stop-requested", 0)
    world.exited(one, "succeeded")
    assert world.of(one)[-1] == "returned"
    assert not {"succeeded", "cancelled"} & set(world.of(one))
    assert one.id not in world.core.state.jobs.records
    assert world.core.state.fleet.totals["H100"].free_milli == 8000
    world.give(one, assignment=3, lost_after_s=LOST_AFTER_S)
    assert world.of(one)[-1] == "placed"


def test_a_job_that_was_given_to_others_while_it_waits_goes_at_once() -> None:
    world, one = MemberScheduler(), job("one")
    world.give(one, lost_after_s=LOST_AFTER_S)
    world.drop(one)
    assert world.of(one) == ["queued", "returned"]


def test_a_core_from_a_checkpoint_goes_on_alike() -> None:
    world, one = leased()
    two = job("two")
    steps = [
        lambda: world.give(two, assignment=2, lost_after_s=LOST_AFTER_S, age_s=5),
        lambda: world.advance(7),
        world.lose_contact,
        lambda: world.recall(two, assignment=2),
        lambda: world.drop(one),
        lambda: world.exited(one, "stopped"),
        world.renew,
    ]
    for step in steps:
        step()
        recovered = world.recover()
        assert belief(recovered) == belief(world.core)
        assert recovered.decide(world.now) == world.core.decide(world.now)


def test_a_run_that_outlives_the_loss_of_contact_fails_for_reasons_of_its_own_afterwards() -> None:
    world, one = leased()
    world.lose_contact()
    world.renew_later(30)
    assert world.core.state.jobs.records[one.id].stop_detail, "it may be ending still"
    world.renew_later(ENDING_S_MAX)
    world.core = world.recover()
    world.exited(one, "failed", exit_code=1)
    assert world.of(one)[-1] == "failed"
    assert world.log[-1].payload.reason == "exit code 1"


def test_a_run_that_ends_late_of_the_loss_of_contact_uses_no_retry_though_contact_came_back() -> None:
    world, one = leased()
    world.lose_contact()
    world.renew_later(30)
    world.core = world.recover()
    world.exited(one, "failed", exit_code=143)
    assert world.core.state.jobs.records[one.id].node_losses == 1


def test_a_placement_that_passed_the_loss_of_contact_uses_no_retry() -> None:
    world, one = MemberScheduler(), job("one")
    world.give(one, lost_after_s=LOST_AFTER_S)
    world.renew()
    world.join_quietly("n0", gpus=1)
    drafts = world.core.decide(world.now)
    assert not any(draft.name == "placed" for draft in drafts), "the node is not released yet"
    for draft in drafts:
        world.append("scheduler", draft)
    placed = world.core.decide(world.now)
    world.write("agent", "cluster", CLUSTER, "contact-lost", ContactLost())
    for draft in placed:
        world.append("scheduler", draft)
    world.exited(one, "failed", exit_code=143)
    assert (world.of(one)[-1], world.core.state.jobs.records[one.id].node_losses) == ("queued", 1)


def test_who_was_being_stopped_when_contact_was_lost_was_stopped_for_that() -> None:
    world, one = leased()
    world.cancel(one)
    world.lose_contact()
    assert world.core.state.jobs.records[one.id].stop_detail == ""
