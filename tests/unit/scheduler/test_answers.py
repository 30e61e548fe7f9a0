"""What people are answered."""

import pytest

from kit.scheduler import VirtualScheduler, job
from muster.scheduler.core import answers
from muster.scheduler.core.cycle import Limits
from muster.schemas.base import Wire
from muster.schemas.facts.job import JobCheckpointed
from muster.schemas.facts.queue import QueueSpec
from muster.schemas.job import Job, Phase
from muster.schemas.queries import AskDryRun, AskFleet, AskJob, AskQueueChange, DryRunAnswer, WhyAnswer


def dry_run(world: VirtualScheduler, **spec: object) -> DryRunAnswer:
    return answers.answer_dry_run(world.core, AskDryRun(spec=job("trial", **spec).spec), world.now)


def test_job_and_why_of_a_job_nobody_knows() -> None:
    world, ask = VirtualScheduler(), AskJob(job_id="A" * 26)
    assert answers.answer_job(world.core, ask, world.now).job is None
    assert answers.answer_why(world.core, ask, world.now).job is None


def test_why_says_position_reason_numbers_and_cure() -> None:
    world = VirtualScheduler(nodes=1, gpus=2)
    world.submit("holder", gpus=2)
    world.submit("other", gpus=1)
    first, second = world.submit("first", gpus=2), world.submit("second", gpus=2)
    answer = answers.answer_why(world.core, AskJob(job_id=first.id), world.now)
    assert (answer.position, answer.waiting) == (1, 3), "what is large comes before what came with it"
    assert answer.reason in ("gpu", "fragmented")
    assert "0" in answer.detail
    assert answer.cure
    behind = answers.answer_why(world.core, AskJob(job_id=second.id), world.now)
    assert behind.position == 2
    assert "1 job of the same shape in front" in behind.detail


def test_why_does_not_say_to_wait_for_a_queue_whose_limit_is_too_low_for_the_job() -> None:
    world = VirtualScheduler(nodes=1)
    world.queue("small", gpu_milli_limit=1_000)
    never = world.submit("never", queue="small", gpus=2)
    answer = answers.answer_why(world.core, AskJob(job_id=never.id), world.now)
    assert answer.reason == "borrowing-limit"
    assert answer.cure == "have the limit of queue small raised, or request less; waiting does not help"


def test_why_does_not_say_to_wait_for_room_that_the_fleet_does_not_have() -> None:
    world = VirtualScheduler(nodes=2, gpus=4)
    world.submit("holder", gpus=4)
    never = world.submit("never", gpus=8)
    answer = answers.answer_why(world.core, AskJob(job_id=never.id), world.now)
    assert (answer.reason, answer.expected_start_at) == ("gpu", 0)
    assert "request less, or add nodes" in answer.cure
    assert "none of 8 on one node" in answer.cure, "what an empty fleet would say, not what this one does"
    assert "waiting does not help" in answer.cure


def test_why_of_jobs_that_do_not_wait() -> None:
    world = VirtualScheduler(nodes=1)
    one = world.submit("one")
    reasons = []
    for step in (lambda: None, lambda: world.started(one), lambda: world.cancel(one), lambda: world.exited(one)):
        step()
        reasons.append(answers.answer_why(world.core, AskJob(job_id=one.id), world.now).reason)
    assert reasons == ["starting", "running", "stopping", "ended"]


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"gpus": 9}, "task_groups.gpus"),
        ({"queue": "nowhere"}, "queue"),
        ({"queue": "closed"}, "queue"),
        ({"gpu_models": ("T4",)}, "task_groups.gpu_models"),
        ({"cpu_milli": 9_000_000}, "task_groups.cpu_milli"),
        ({"memory_mib": 90_000_000}, "task_groups.memory_mib"),
        ({"queue": "small", "gpus": 2}, "task_groups.gpus"),
    ],
)
def test_a_dry_run_refuses_what_can_never_run_and_names_the_field(spec: dict[str, object], field: str) -> None:
    world = VirtualScheduler(nodes=2, gpus=8)
    world.queue("closed", closed=True)
    world.queue("small", gpu_milli_limit=1_000)
    answer = dry_run(world, **spec)
    assert answer.refused
    assert answer.field == field
    assert answer.detail


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"gpus": 9}, "fragmented"),
        ({"gpus": 8, "replicas": 3}, "gpu"),
        ({"gpu_models": ("T4",)}, "model"),
        ({"cpu_milli": 9_000_000}, "cpu"),
        ({"memory_mib": 90_000_000}, "memory"),
    ],
)
def test_a_dry_run_lets_wait_for_what_scaling_may_bring(spec: dict[str, object], reason: str) -> None:
    world = VirtualScheduler(nodes=2, gpus=8, limits=Limits(may_grow=True))
    answer = dry_run(world, **spec)
    assert (answer.refused, answer.placed, answer.field, answer.reason) == (False, False, "", reason)
    assert (answer.position, answer.expected_start_at) == (1, 0), "it has a place in line; nobody knows until when"
    assert answer.preempts == ()
    assert answer.cure.startswith("wait until scaling adds GPUs or nodes")


@pytest.mark.parametrize(("spec", "field"), [({"queue": "closed"}, "queue"), ({"gpus": 9}, "task_groups.gpus")])
def test_a_dry_run_refuses_what_no_growth_of_the_fleet_can_cure(spec: dict[str, object], field: str) -> None:
    world = VirtualScheduler(nodes=2, gpus=8, limits=Limits(may_grow=True))
    world.queue("closed", closed=True)
    world.queue("lab", gpu_milli_limit=8_000)
    answer = dry_run(world, **spec)
    assert (answer.refused, answer.field) == (True, field)


def test_a_dry_run_of_what_these_nodes_can_hold_waits_for_them_also_where_the_fleet_may_grow() -> None:
    world = VirtualScheduler(nodes=1, gpus=2, limits=Limits(may_grow=True))
    world.submit("holder", gpus=2)
    assert dry_run(world, gpus=2).cure == "wait until running jobs end, or request fewer GPUs"


def test_a_dry_run_says_where_or_why_not_now_and_changes_nothing() -> None:
    world = VirtualScheduler(nodes=1, gpus=2)
    assert dry_run(world, gpus=2).nodes == ("n0",)
    world.submit("holder", gpus=2)
    waits = dry_run(world, gpus=2)
    assert (waits.refused, waits.placed, waits.position) == (False, False, 1)
    assert world.core.decide(world.now) == []


def test_a_dry_run_refuses_nothing_while_no_node_is_known() -> None:
    answer = dry_run(VirtualScheduler())
    assert (answer.refused, answer.reason) == (False, "no-node")


def test_a_question_in_mid_decision_sees_only_what_was_folded() -> None:
    world = VirtualScheduler(nodes=1, gpus=1)
    one = job("one")
    world.route(one)
    drafts = world.core.decide(world.now)
    assert answers.answer_nodes(world.core, AskFleet(), world.now).nodes[0].gpu_milli_held == 0
    assert dry_run(world).placed
    for draft in drafts:
        world.append("scheduler", draft)
    assert world.phase(one) is Phase.PLACED
    assert not dry_run(world).placed


def test_nodes_and_queues() -> None:
    world = VirtualScheduler(nodes=2, gpus=8)
    world.submit("one", gpus=3)
    world.submit("two", gpus=8)
    world.submit("three", gpus=8)
    world.lose("n1")
    nodes = {node.name: node for node in answers.answer_nodes(world.core, AskFleet(), world.now).nodes}
    assert sorted(node.gpu_milli_held for node in nodes.values()) == [3_000, 8_000]
    assert (nodes["n0"].usable, nodes["n1"].usable, nodes["n1"].reason) == (True, False, "lost")
    (queue,) = answers.answer_queues(world.core, AskFleet(), world.now).queues
    assert (queue.jobs_queued, queue.jobs_running, queue.gpu_milli_held) == (1, 2, 11_000)


def test_queue_check() -> None:
    def check(spec: QueueSpec) -> Wire:
        return answers.answer_queue_check(world.core, AskQueueChange(spec=spec), world.now)

    world = VirtualScheduler()
    assert check(QueueSpec(name="new")).field == ""
    assert check(QueueSpec(name="new", parent="nowhere")).field == "parent"


def why(world: VirtualScheduler, one: Job) -> WhyAnswer:
    return answers.answer_why(world.core, AskJob(job_id=one.id), world.now)


def test_why_says_that_there_is_room_but_it_is_kept_for_one_who_waits_longer() -> None:
    world = VirtualScheduler(nodes=1)
    world.submit("holder", gpus=5, preemptible=False)
    large = world.submit("large", gpus=8, preemptible=False)
    world.advance(1_900)
    assert world.core.state.jobs.records[large.id].reserved is not None, "it starves and has a reservation"
    small = world.submit("small", gpus=3, preemptible=False)
    answer = why(world, small)
    assert answer.reason == "reservation"
    assert answer.detail == "there is room, but 3 GPUs are kept for 1 job that waits longer"
    assert answer.cure
    assert why(world, large).detail.endswith("its places are reserved")


def test_why_of_one_that_may_not_be_preempted_says_that_it_may_not_borrow() -> None:
    world = VirtualScheduler(nodes=1, queues=())
    world.queue("org", quota={"gpu_milli": 8_000})
    world.queue("mine", parent="org", quota={"gpu_milli": 2_000})
    world.queue("theirs", parent="org", quota={"gpu_milli": 0})
    answer = why(world, world.submit("fixed", queue="mine", gpus=4, preemptible=False))
    assert answer.reason == "non-preemptible"
    assert answer.cure == ("make the job preemptible, or have the quota of queue mine raised; waiting does not help")
    assert answer.expected_start_at == 0


def test_why_says_who_is_in_front_while_nobody_was_tried_yet() -> None:
    world = VirtualScheduler(nodes=1)
    first, second = job("first"), job("second")
    world.route(first, second)
    assert [why(world, one).reason for one in (first, second)] == ["turn", "behind"]
    assert why(world, second).detail == "1 job of the same shape in front of it"


def test_why_says_when_the_nodes_are_not_well() -> None:
    world = VirtualScheduler(nodes=2)
    world.submit("holder", gpus=8)
    world.lose("n1")
    answer = why(world, world.submit("mine", gpus=8))
    assert answer.reason == "health"
    assert answer.cure


def test_an_answer_is_found_anew_once_something_happened() -> None:
    world = VirtualScheduler(nodes=1)
    holder = world.submit("holder", gpus=8, preemptible=False, total_run_time_s=1_000.0)
    mine = world.submit("mine", gpus=1)
    before = why(world, mine).expected_start_at
    assert why(world, mine).expected_start_at == before
    world.advance(500)
    world.started(holder)
    assert why(world, mine).expected_start_at == before + 500_000_000_000 - 30_000_000_000


def test_queues_say_what_they_may_hold_hold_and_borrow() -> None:
    world = VirtualScheduler(nodes=1, queues=())
    world.queue("org", quota={"gpu_milli": 4_000})
    world.queue("a", parent="org", quota={"gpu_milli": 2_000}, borrowing_limit={"gpu_milli": 3_000}, weight=2.0)
    world.submit("one", queue="a", gpus=4)
    queues = {queue.name: queue for queue in answers.answer_queues(world.core, AskFleet(), world.now).queues}
    mine = queues["a"]
    assert (mine.quota, mine.borrowing_limit) == ({"gpu_milli": 2_000}, {"gpu_milli": 3_000})
    assert mine.held["gpu_milli"] == 4_000
    assert mine.share == pytest.approx(2_000 / 6_000 / 2)
    assert (queues["org"].held["gpu_milli"], queues["org"].jobs_running, mine.jobs_running) == (4_000, 0, 1)
    assert mine.spec is not None
    assert mine.order == "fair"


def test_a_job_says_until_when_it_is_safe_and_when_it_could_resume() -> None:
    world = VirtualScheduler(nodes=1)
    one = world.submit("one", gpus=1, min_slice_s=600.0)
    world.started(one)
    world.advance(60)
    world.write("agent", "job", one.id, "checkpointed", JobCheckpointed(attempt=1))
    view = answers.answer_job(world.core, AskJob(job_id=one.id), world.now).job
    assert view is not None
    assert view.slice_ends_at == view.running_at + 600_000_000_000
    assert view.checkpointed_at == view.running_at + 60_000_000_000
    assert (view.preemptions, view.reserved_at, view.made_way_for) == (0, 0, "")
