"""Who is placed, in which order, under which limits, and what those who wait are told."""

import itertools

import pytest

from kit.scheduler import VirtualScheduler, job, ledger_balances
from muster.core import seconds_between
from muster.scheduler.core import answers
from muster.scheduler.core.cycle import Limits
from muster.scheduler.core.place import placements as placements_module
from muster.schemas.facts.queue import QueueSpec
from muster.schemas.job import Job, Phase
from muster.schemas.queries import AskJob


def held(world: VirtualScheduler, queue: str) -> int:
    return world.core.state.queues.queues[queue].held_milli


def test_a_job_that_does_not_fit_does_not_stop_one_behind_it_that_does() -> None:
    world = VirtualScheduler(nodes=1, gpus=4)
    world.submit("now", gpus=2)
    large = world.submit("large", gpus=4)
    small = world.submit("small", gpus=1)
    assert world.phase(large) is Phase.QUEUED
    assert world.phase(small) is Phase.PLACED


def test_jobs_of_one_queue_that_ask_for_the_same_run_in_the_order_in_which_they_came() -> None:
    world = VirtualScheduler(nodes=1, gpus=1)
    jobs = [world.submit(f"j{index}") for index in range(4)]
    for index, one in enumerate(jobs):
        assert [world.phase(other) for other in jobs[index:]] == [Phase.PLACED] + [Phase.QUEUED] * (3 - index)
        world.exited(one)


def test_a_job_that_is_queued_again_keeps_its_place_in_line() -> None:
    world = VirtualScheduler(nodes=1, gpus=1)
    first, second = world.submit("first"), world.submit("second")
    world.exited(first, "node-lost")
    assert world.phase(first) is Phase.PLACED
    assert world.phase(second) is Phase.QUEUED


def test_a_gang_is_placed_whole_or_not_at_all() -> None:
    world = VirtualScheduler(nodes=1, gpus=4)
    gang = world.submit("gang", replicas=5)
    assert world.phase(gang) is Phase.QUEUED
    assert world.slots(gang) == []
    world.join("n1", gpus=1)
    assert len(world.slots(gang)) == 5


def test_queues_take_turns_the_least_served_first() -> None:
    world = VirtualScheduler(nodes=1, gpus=6, queues=("a", "b"))
    jobs = {queue: [job(f"{queue}{index}", queue=queue) for index in range(6)] for queue in ("a", "b")}
    world.route(*jobs["a"], *jobs["b"])
    world.settle()
    assert (held(world, "a"), held(world, "b")) == (3_000, 3_000)


def test_a_queue_never_holds_more_than_its_limit() -> None:
    world = VirtualScheduler(nodes=1, gpus=8)
    world.queue("lab", gpu_milli_limit=3_000)
    jobs = [world.submit(f"j{index}", gpus=2) for index in range(2)]
    assert held(world, "lab") == 2_000
    assert world.last("unschedulable", jobs[1].id).payload.reason == "borrowing-limit"
    world.queue("lab", gpu_milli_limit=4_000)
    assert held(world, "lab") == 4_000


def test_jobs_that_come_together_do_not_pass_the_limit_together() -> None:
    world = VirtualScheduler(nodes=1, gpus=8)
    world.queue("lab", gpu_milli_limit=3_000)
    world.route(*(job(f"j{index}") for index in range(5)))
    world.decide_once("scheduler")
    assert held(world, "lab") == 3_000


def test_the_limit_of_a_queue_above_counts_for_all_below_it() -> None:
    world = VirtualScheduler(nodes=1, gpus=8, queues=())
    world.queue("org", gpu_milli_limit=3_000)
    world.queue("a", parent="org")
    world.queue("b", parent="org")
    world.submit("j0", queue="a", gpus=2)
    world.submit("j1", queue="b", gpus=2)
    world.submit("j2", queue="b", gpus=1)
    assert (held(world, "org"), held(world, "a"), held(world, "b")) == (3_000, 2_000, 1_000)


def test_a_lower_limit_evicts_nobody() -> None:
    world = VirtualScheduler(nodes=1)
    one = world.submit("one", gpus=4)
    world.queue("lab", gpu_milli_limit=1_000)
    assert world.phase(one) is Phase.PLACED


def test_a_limit_holds_for_a_job_that_comes_with_the_change() -> None:
    world = VirtualScheduler(nodes=1)
    spec = QueueSpec(name="lab", gpu_milli_limit=1_000)
    change = world.last("change-forwarded", "lab").payload.model_copy(update={"spec": spec})
    world.write("federation", "queue", "lab", "change-forwarded", change)
    world.route(job("one", gpus=2))
    world.settle()
    assert held(world, "lab") == 0


def test_jobs_of_whole_nodes_count_with_all_that_they_hold() -> None:
    world = VirtualScheduler(nodes=2, gpus=8)
    world.queue("lab", gpu_milli_limit=9_000)
    first, second = (world.submit(name, gpus=1, full_node=True) for name in ("first", "second"))
    assert (world.phase(first), world.phase(second)) == (Phase.PLACED, Phase.QUEUED)
    assert held(world, "lab") == 8_000


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"name": "new", "parent": "nowhere"}, "parent"),
        ({"name": "a", "parent": "b"}, "parent"),
        ({"name": "a", "parent": "a"}, "parent"),
        ({"name": "new", "gpu_milli_quota": 2, "gpu_milli_limit": 1}, "gpu_milli_limit"),
    ],
)
def test_a_queue_change_that_makes_no_sense_is_refused_with_the_field(spec: dict[str, object], field: str) -> None:
    world = VirtualScheduler(queues=())
    world.queue("a")
    world.queue("b", parent="a")
    before = world.core.state.queues.queues["a"].spec
    world.queue(**spec)
    refused = world.last("change-refused", str(spec["name"]))
    assert refused.payload.field == field
    assert refused.causes == (world.last("change-forwarded", str(spec["name"])).id,)
    assert world.core.state.queues.queues["a"].spec == before


def test_who_waits_is_told_why_once_and_the_first_hears_of_every_change() -> None:
    world = VirtualScheduler(nodes=1, gpus=2)
    holder = world.submit("holder", gpus=2)
    waiting = [world.submit(f"w{index}", gpus=2) for index in range(3)]
    assert [world.count(one.id, "unschedulable") for one in waiting] == [1, 1, 1]
    world.advance(60)
    assert [world.count(one.id, "unschedulable") for one in waiting] == [1, 1, 1], "nothing changed"
    world.join("n1", gpus=1)
    world.advance(5)
    assert [world.count(one.id, "unschedulable") for one in waiting] == [2, 1, 1]
    world.exited(holder)
    assert world.phase(waiting[0]) is Phase.PLACED
    assert world.core.state.jobs.records[waiting[0].id].reason == ""


def test_a_job_is_told_at_most_once_in_the_interval() -> None:
    world = VirtualScheduler(nodes=1, gpus=1, limits=Limits(unschedulable_interval_s=5.0))
    waiting = world.submit("waiting", gpus=8)
    for index in range(2, 12):
        world.advance(1)
        world.join(f"n{index}", gpus=1)
    told = [fact.time for fact in world.log if fact.name == "unschedulable" and fact.subject_id == waiting.id]
    assert all(seconds_between(before, after) >= 5 for before, after in itertools.pairwise(told))
    assert len(told) >= 2
    world.advance(10)
    newest = answers.answer_why(world.core, AskJob(job_id=waiting.id), world.now)
    assert world.last("unschedulable", waiting.id).payload.detail == newest.detail, "the last word is the newest"
    assert "11 free" in newest.detail


def test_thousands_that_wait_are_not_tried_again_while_nothing_came_free(monkeypatch: pytest.MonkeyPatch) -> None:
    world = VirtualScheduler(nodes=1, gpus=1)
    world.route(*(job(f"j{index}") for index in range(1_000)))
    world.settle()
    tried: list[object] = []
    monkeypatch.setattr(world.core.state.proposals, "propose", lambda *args: tried.append(args))
    world.submit("another")
    world.advance(3_600)
    assert tried == []


def test_what_one_decision_leaves_over_the_next_one_brings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placements_module, "PLACEMENTS_MAX", 3)
    world = VirtualScheduler(nodes=2, gpus=8)
    jobs = [job(f"j{index}") for index in range(10)]
    world.route(*jobs)
    assert sum(fact.name == "placed" for fact in world.decide_once("scheduler")) == 3
    assert world.core.next_wakeup() == world.now
    world.settle()
    assert [world.phase(one) for one in jobs] == [Phase.PLACED] * 10
    assert world.core.next_wakeup() != world.now


def phases(world: VirtualScheduler, jobs: list[Job]) -> list[Phase]:
    return [world.phase(one) for one in jobs]


def test_proposals_that_never_reached_the_log_are_made_again() -> None:
    world = VirtualScheduler(nodes=1, gpus=2)
    jobs = [job(f"j{index}") for index in range(3)]
    world.route(*jobs)
    world.core.decide(world.now)  # its batch was refused: another leader had appended
    world.core.decide(world.now)
    world.settle()
    assert phases(world, jobs) == [Phase.PLACED, Phase.PLACED, Phase.QUEUED]


def test_placements_of_another_leader_replace_one_s_own_proposals() -> None:
    world, other = VirtualScheduler(nodes=1, gpus=2), VirtualScheduler(nodes=1, gpus=2)
    jobs = [job(f"j{index}") for index in range(3)]
    world.route(*jobs)
    other.route(jobs[1], jobs[2], jobs[0])
    world.core.decide(world.now)
    for draft in other.core.decide(other.now):
        world.append("scheduler", draft)
    world.settle()
    assert phases(world, jobs) == [Phase.QUEUED, Phase.PLACED, Phase.PLACED]
    assert world.core.state.ledger.misfits == 0
    ledger_balances(world.core)


def test_the_cluster_is_summarised_when_it_changed_and_not_too_often() -> None:
    world = VirtualScheduler(nodes=2, gpus=8)
    for index in range(50):
        world.submit(f"j{index}", gpus=0)
        world.advance(1)
    said = [fact for fact in world.log if fact.name == "summarised"]
    assert 5 <= len(said) <= 7
    world.advance(60)
    assert world.last("summarised", "atlas").payload.jobs_running == 50
    before = len(world.log)
    world.advance(600)
    assert len(world.log) == before, "nothing changed"


def test_a_checkpoint_is_requested_when_enough_was_folded() -> None:
    world = VirtualScheduler(nodes=1, limits=Limits(checkpoint_every_facts=40))
    for index in range(100):
        world.submit(f"j{index}")
    asked = [fact for fact in world.log if fact.name == "checkpoint-requested"]
    gaps = [after.seq - before.seq for before, after in itertools.pairwise(asked)]
    assert asked[0].subject_id == "atlas"
    assert all(40 <= gap <= 50 for gap in gaps)
