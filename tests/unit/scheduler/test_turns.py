"""Whose turn it is, in which order jobs of a queue come, and how much of a gang is let in."""

from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kit.scheduler import CLUSTER, VirtualScheduler, job
from muster.core import NS_PER_S, Instant
from muster.quota import shares
from muster.quota.policy import resolve
from muster.quota.queues import QueueTree
from muster.quota.tree import QueueRecord
from muster.scheduler.core.order import FairShareOrder, rank
from muster.schemas import ids
from muster.schemas.facts.job import JobRouted
from muster.schemas.facts.queue import QueueOrder, QueueSpec
from muster.schemas.job import Job, Phase, TaskGroup

GPU = "gpu_milli"


def gpus(amount: float) -> dict[str, int]:
    return {GPU: round(1_000 * amount)}


def placed(world: VirtualScheduler) -> Counter[str]:
    """GPUs held, by queue."""
    return Counter(
        {name: queue.held_milli // 1_000 for name, queue in world.core.state.queues.queues.items() if queue.held_milli}
    )


def surge(world: VirtualScheduler, counts: dict[str, int], **spec: object) -> None:
    """So many jobs for each queue, all at once."""
    world.route(*(job(f"{queue}-{n}", queue=queue, **spec) for queue, count in counts.items() for n in range(count)))
    world.settle()


def elastic(name: str, *, queue: str, replicas: int, least: int, **group: object) -> Job:
    base = job(name, queue=queue)
    groups = (TaskGroup(replicas=replicas, min_replicas=least, gpus=1, **group),)
    return base.model_copy(update={"spec": base.spec.model_copy(update={"task_groups": groups})})


def by(principal: str, name: str, **spec: object) -> Job:
    one = job(name, **spec)
    update = {"principal": principal, "id": ids.job_id(team="lab", principal=principal, idempotency_key=name)}
    return one.model_copy(update=update)


def reason(world: VirtualScheduler, one: Job) -> str:
    """What it was told last."""
    return world.last("unschedulable", one.id).payload.reason


# --- between queues --------------------------------------------------------------------------------------------------


def test_what_is_lent_is_shared_by_weight() -> None:
    world = VirtualScheduler(nodes=2, gpus=8, queues=())
    world.queue("org", quota=gpus(16))
    world.queue("one", parent="org")
    world.queue("three", parent="org", weight=3.0)
    surge(world, {"one": 16, "three": 16})
    assert placed(world) == {"org": 16, "one": 4, "three": 12}


def test_who_stays_within_quota_goes_before_anybody_who_borrows() -> None:
    world = VirtualScheduler(nodes=1, gpus=8, queues=())
    world.queue("org")
    world.queue("owner", parent="org", quota=gpus(6))
    world.queue("guest", parent="org", quota=gpus(2))
    surge(world, {"guest": 8, "owner": 8})
    assert placed(world) == {"org": 8, "owner": 6, "guest": 2}


def test_shares_are_compared_level_by_level() -> None:
    """Two teams share alike, however many users one of them has."""
    world = VirtualScheduler(nodes=1, gpus=8, queues=())
    world.queue("org", quota=gpus(8))
    for team, users in (("many", 3), ("few", 1)):
        world.queue(team, parent="org")
        for user in range(users):
            world.queue(f"{team}-{user}", parent=team)
    surge(world, {"many-0": 8, "many-1": 8, "many-2": 8, "few-0": 8})
    assert placed(world)["few"] == placed(world)["many"] == 4


def test_a_queue_s_own_jobs_count_as_one_more_child() -> None:
    world = VirtualScheduler(nodes=1, gpus=6, queues=())
    world.queue("team", quota=gpus(6))
    world.queue("ada", parent="team")
    world.queue("bob", parent="team")
    surge(world, {"team": 6, "ada": 6, "bob": 6})
    assert placed(world) == {"team": 6, "ada": 2, "bob": 2}


def test_queues_without_any_quota_share_the_cluster_by_weight() -> None:
    world = VirtualScheduler(nodes=3, gpus=4, queues=())
    world.queue("a", weight=2.0)
    world.queue("b")
    surge(world, {"a": 12, "b": 12})
    assert placed(world) == {"a": 8, "b": 4}


def test_the_next_job_counts_before_it_runs() -> None:
    """With equal use a queue whose next job is small goes before one whose next job is large."""
    world = VirtualScheduler(nodes=1, gpus=4, queues=("a", "b"))
    large, small = job("large", queue="a", gpus=3), job("small", queue="b", gpus=2)
    world.route(large, small)
    world.settle()
    assert (world.phase(large), world.phase(small)) == (Phase.QUEUED, Phase.PLACED)


def test_who_used_much_lately_yields() -> None:
    world = VirtualScheduler(nodes=1, gpus=4, queues=("a", "b"))
    for name in ("a", "b"):
        world.queue(name, half_life_s=3_600.0)
    surge(world, {"a": 4})
    world.advance(3 * 3_600)
    for index in range(4):
        world.exited(job(f"a-{index}", queue="a"))
    one, other = job("one", queue="a", gpus=2), job("other", queue="b", gpus=3)
    world.route(one, other)
    world.settle()
    assert (world.phase(one), world.phase(other)) == (Phase.QUEUED, Phase.PLACED), "though a's next job is smaller"


def test_a_fifo_queue_takes_whoever_came_first_below_it() -> None:
    world = VirtualScheduler(nodes=1, gpus=3, queues=())
    world.queue("org", order=QueueOrder.FIFO)
    world.queue("a", parent="org")
    world.queue("b", parent="org")
    jobs = [job(f"j{n}", queue=queue) for n, queue in enumerate("aaabbb")]
    for one in jobs:
        world.now = Instant(world.now + NS_PER_S)
        world.write("federation", "job", one.id, "routed", JobRouted(job=one, cluster=CLUSTER))
    world.settle()
    assert [world.phase(one) is Phase.PLACED for one in jobs] == [True] * 3 + [False] * 3


def used_total(record: QueueRecord, capacity: Mapping[str, int]) -> float:
    """What the queue holds and held lately, as a part of what the cluster has, dominant resource, by weight."""
    is_left_out = shares.skips(record)
    parts = [
        (cell.held + cell.average_at(0)) / max(1, capacity.get(resource, 0))
        for resource, cell in record.cells.items()
        if not is_left_out(resource)
    ]
    return max(parts, default=0.0) / record.spec.weight


class Plain:
    """The same tournament, made anew each time from the tree's own shares."""

    def __init__(self, tree: QueueTree) -> None:
        self.tree = tree

    def next(self, offers: dict[str, tuple[tuple[int, int], dict[str, int]]]) -> str:
        tops = [record.name for record in self.tree.queues.values() if record.parent is None]
        found = min((key for top in tops if (key := self.key(top, offers)) is not None), default=None)
        return found[-1] if found else ""

    def key(self, name: str, offers: dict[str, tuple[tuple[int, int], dict[str, int]]]) -> tuple | None:
        record = self.tree.queues[name]
        keys = [key for child in record.children if (key := self.key(child, offers)) is not None]
        if name in offers:
            place, amounts = offers[name]
            own = shares.own_share(record, self.tree.capacity, amounts)
            keys.append((own, 0.0, place, "", name))
        if not keys:
            return None
        winner = min(keys)[-1]
        place, amounts = offers[winner]
        total = used_total(record, self.tree.capacity)
        self.tree.propose(winner, amounts)
        share = self.tree.share(name)
        self.tree.withdraw_proposals()
        return share, total, place, name, winner


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.tuples(st.integers(-1, 6), st.integers(0, 6), st.integers(0, 4), st.sampled_from([1.0, 2.0])),
             min_size=1, max_size=7),
    st.lists(st.tuples(st.integers(0, 6), st.integers(1, 4), st.integers(0, 3)), min_size=1, max_size=25),
)  # fmt: skip
def test_kept_keys_choose_as_keys_made_anew(queues: list[tuple], jobs: list[tuple]) -> None:
    tree = QueueTree()
    for at, (parent, quota, lending, weight) in enumerate(queues):
        amounts = {"quota": gpus(quota), "lending_limit": gpus(min(quota, lending))} if quota else {}
        above = f"q{parent}" if 0 <= parent < at else None
        tree.set(QueueSpec(name=f"q{at}", parent=above, weight=weight, **amounts), changed_at=1)
    tree.set_capacity({GPU: 40_000, "cpu_milli": 40_000})
    waiting: dict[str, list[tuple[tuple[int, int], dict[str, int]]]] = {}
    for seq, (queue, gpu, cpu) in enumerate(jobs):
        place = (gpu * 7 % 5, seq)
        waiting.setdefault(f"q{queue % len(queues)}", []).append((place, {GPU: 1_000 * gpu, "cpu_milli": 1_000 * cpu}))
    order, plain = FairShareOrder(tree, 0), Plain(tree)
    order.begin((name, *line[0]) for name, line in waiting.items())
    while any(waiting.values()):
        expected = plain.next({name: line[0] for name, line in waiting.items() if line})
        name = order.next()
        assert name == expected
        _, amounts = waiting[name].pop(0)
        tree.hold(name, amounts)
        if waiting[name]:
            order.offer(name, *waiting[name][0])
        else:
            order.leave(name)
    assert order.next() == ""


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.integers(1, 4), min_size=2, max_size=5))
def test_fairness_converges_to_the_weights(weights: list[int]) -> None:
    """Everybody always wants more: what each holds differs from its part by less than one job."""
    world = VirtualScheduler(nodes=5, gpus=8, queues=())
    world.queue("org", quota=gpus(40))
    for index, weight in enumerate(weights):
        world.queue(f"q{index}", parent="org", weight=float(weight))
    surge(world, {f"q{index}": 40 for index in range(len(weights))})
    held = placed(world)
    for index, weight in enumerate(weights):
        assert abs(held[f"q{index}"] - 40 * weight / sum(weights)) <= max(weights)


# --- inside a queue --------------------------------------------------------------------------------------------------


def came(seconds: float, *, used: float = 0.0, order: QueueOrder = QueueOrder.FAIR, **spec: object) -> int:
    policy = resolve([QueueSpec(name="a", order=order)])
    return rank(job("j", **spec), policy, came_at=round(seconds * NS_PER_S), used=used)


def test_a_point_of_priority_is_worth_ten_minutes() -> None:
    assert came(0, priority=50) < came(0, priority=49)
    assert came(599, priority=50) < came(0, priority=49) < came(601, priority=50)


def test_each_doubling_of_gpus_is_worth_a_minute() -> None:
    assert came(0, gpus=7) - came(0, gpus=3) == pytest.approx(-60 * NS_PER_S)
    assert came(0, gpus=1, replicas=7) == came(0, gpus=7)


def test_who_alone_used_the_queue_comes_an_hour_later() -> None:
    assert came(0, used=1.0) - came(0) == 3_600 * NS_PER_S


def test_in_a_fifo_queue_only_the_moment_counts() -> None:
    assert came(5, order=QueueOrder.FIFO, priority=99, gpus=8, used=0.5) == 5 * NS_PER_S


def test_the_rank_is_kept_when_a_job_is_queued_again() -> None:
    world = VirtualScheduler(nodes=1, gpus=1)
    one = world.submit("one")
    before = world.core.state.jobs.records[one.id].rank
    world.advance(600)
    other = world.submit("other")
    world.exited(one, "node-lost")
    assert world.core.state.jobs.records[one.id].rank == before
    assert (world.phase(one), world.phase(other)) == (Phase.PLACED, Phase.QUEUED)


def test_in_a_plain_queue_principals_take_turns_by_what_they_used() -> None:
    world = VirtualScheduler(nodes=1, gpus=2)
    holders = [by("ada", f"h{n}") for n in range(2)]
    world.route(*holders)
    world.settle()
    world.advance(3_600)
    world.route(by("ada", "first"))
    world.now = Instant(world.now + 60 * NS_PER_S)
    bob = by("bob", "second")
    world.route(bob)
    world.settle()
    world.exited(holders[0])
    assert world.phase(bob) is Phase.PLACED, "though ada's came first"


# --- how much is let in ----------------------------------------------------------------------------------------------


def test_an_elastic_gang_takes_what_quota_allows_and_no_less_than_its_least() -> None:
    world = VirtualScheduler(nodes=2, gpus=8, queues=())
    world.queue("lab", quota=gpus(5))
    one, other = elastic("one", queue="lab", replicas=8, least=3), elastic("other", queue="lab", replicas=4, least=2)
    world.route(one)
    world.settle()
    world.route(other)
    world.settle()
    assert len(world.slots(one)) == 5
    assert reason(world, other) == "quota"
    world.queue("lab", quota=gpus(8))
    assert len(world.slots(other)) == 3


def test_a_model_whose_quota_is_used_up_is_left_aside() -> None:
    world = VirtualScheduler(queues=())
    world.queue("lab", quota={"gpu_milli:H100": 2_000})
    world.join_quietly("h", gpus=8, model="H100")
    world.join_quietly("l", gpus=8, model="L4")
    world.settle()
    jobs = [world.submit(f"j{n}", queue="lab", gpus=2) for n in range(4)]
    assert Counter(world.slots(one)[0][0] for one in jobs) == {"h": 1, "l": 3}
    only = world.submit("only", queue="lab", gpu_models=("H100",))
    assert reason(world, only) == "quota"
    world.exited(next(one for one in jobs if world.slots(one)[0][0] == "h"))
    assert world.phase(only) is Phase.PLACED


def test_a_job_that_found_only_a_model_without_quota_is_tried_when_another_comes_free() -> None:
    world = VirtualScheduler(queues=())
    world.queue("lab", quota={"gpu_milli:H100": 0})
    world.join_quietly("h", gpus=1, model="H100")
    world.settle()
    one = world.submit("one", queue="lab")
    assert reason(world, one) == "quota"
    world.join_quietly("l", gpus=1, model="L4")
    world.settle()
    assert world.phase(one) is Phase.PLACED


def test_a_node_of_another_model_is_counted_as_what_it_is() -> None:
    world = VirtualScheduler(nodes=1, gpus=2, queues=())
    world.queue("lab", quota={"gpu_milli:L4": 9_000})
    world.submit("one", queue="lab")
    held = world.core.state.queues.queues["lab"].held
    assert held()["gpu_milli:H100"] == 1_000
    world.join_quietly("n0", gpus=2, model="L4")
    assert held()["gpu_milli:L4"] == 1_000
    assert "gpu_milli:H100" not in held()


def test_what_may_not_be_preempted_waits_for_nominal_quota() -> None:
    world = VirtualScheduler(nodes=1, gpus=8, queues=())
    world.queue("org")
    world.queue("a", parent="org", quota=gpus(2))
    world.queue("b", parent="org", quota=gpus(6))
    fixed = [world.submit(f"f{n}", queue="a", gpus=2, preemptible=False) for n in range(2)]
    borrows = world.submit("borrows", queue="a", gpus=2)
    assert [world.phase(one) for one in (*fixed, borrows)] == [Phase.PLACED, Phase.QUEUED, Phase.PLACED]
    assert reason(world, fixed[1]) == "non-preemptible"
    world.exited(fixed[0])
    assert world.phase(fixed[1]) is Phase.PLACED


def test_a_cap_wakes_when_a_sibling_gives_back_what_it_borrowed() -> None:
    world = VirtualScheduler(nodes=1, gpus=8, queues=())
    world.queue("org")
    world.queue("a", parent="org", quota=gpus(2))
    world.queue("b", parent="org", quota=gpus(2))
    world.queue("a1", parent="a")
    holder = world.submit("holder", queue="b", gpus=3)
    waits = world.submit("waits", queue="a1", gpus=2)
    assert reason(world, waits) == "quota"
    world.exited(holder)
    assert world.phase(waits) is Phase.PLACED


def test_placed_carries_the_slice_of_the_queue() -> None:
    world = VirtualScheduler(nodes=1, gpus=8, queues=())
    world.queue("lab", min_slice_max_s=60.0, run_time_default_s=500.0)
    spec = job("one").spec.model_copy(update={"left_out": ("total_run_time_s",), "queue": "lab"})
    one = job("one").model_copy(update={"spec": spec})
    world.route(one)
    world.settle()
    queued = world.last("queued", one.id).payload
    assert (queued.total_run_time_s, queued.min_slice_s) == (500.0, 60.0)
    assert world.last("placed", one.id).payload.slice_s == 60.0
    assert world.core.state.jobs.records[one.id].job_class.bound_s == 60.0


# --- queues per user -------------------------------------------------------------------------------------------------


def template(world: VirtualScheduler, **more: object) -> None:
    world.queue("lab", user_template={"quota": gpus(2), "weight": 2.0}, **more)


def test_the_queue_of_a_user_is_made_for_its_first_job() -> None:
    world = VirtualScheduler(nodes=1, gpus=8, queues=())
    template(world)
    one, two = by("ada", "one", gpus=1), by("ada", "two", gpus=1)
    world.route(one)
    world.settle()
    world.route(two)
    world.settle()
    changed = world.last("changed", "lab-ada")
    assert changed.payload.spec == QueueSpec(name="lab-ada", parent="lab", quota=gpus(2), weight=2.0)
    assert changed.causes == (next(fact.id for fact in world.log if fact.name == "routed"),)
    assert world.count("lab-ada", "changed") == 1
    assert [world.last("queued", one.id).payload.queue for one in (one, two)] == ["lab-ada", "lab-ada"]
    assert [world.phase(one), world.phase(two)] == [Phase.PLACED, Phase.PLACED]
    assert world.core.state.anomalies == {}


def test_users_of_one_template_share_alike() -> None:
    world = VirtualScheduler(nodes=1, gpus=8, queues=())
    world.queue("lab", quota=gpus(8), user_template={})
    world.route(*(by(user, f"j{n}") for user, count in (("ada", 8), ("bob", 8)) for n in range(count)))
    world.settle()
    assert placed(world) == {"lab": 8, "lab-ada": 4, "lab-bob": 4}


@pytest.mark.parametrize("principal", ["Ada.Lovelace@example.org", "x" * 80, "ada lovelace", "Ä"])
def test_a_principal_s_name_is_made_to_fit(principal: str) -> None:
    world = VirtualScheduler(nodes=1, gpus=8, queues=())
    template(world)
    one = by(principal, "one")
    world.route(one)
    world.settle()
    assert world.phase(one) is Phase.PLACED
    queue = world.core.state.jobs.records[one.id].queue
    assert queue.startswith("lab-")
    assert len(queue) <= 63


def test_principals_whose_names_look_alike_do_not_share_a_queue() -> None:
    world = VirtualScheduler(nodes=1, gpus=8, queues=())
    template(world)
    jobs = [by(name, "one") for name in ("ada", "Ada", "a.d.a", "a-d-a")]
    world.route(*jobs)
    world.settle()
    assert len({world.core.state.jobs.records[one.id].queue for one in jobs}) == 4


def test_a_queue_that_an_operator_made_for_a_user_is_used_and_another_of_that_name_is_not() -> None:
    world = VirtualScheduler(nodes=1, gpus=8, queues=("lab-bob",))
    template(world)
    world.queue("lab-ada", parent="lab", weight=9.0)
    jobs = [by(name, "one") for name in ("ada", "bob")]
    world.route(*jobs)
    world.settle()
    queues = [world.core.state.jobs.records[one.id].queue for one in jobs]
    assert queues[0] == "lab-ada"
    assert queues[1].startswith("lab-bob-")
    assert world.core.state.queues.queues["lab-ada"].spec.weight == 9.0


def test_a_job_waits_for_its_user_s_queue_over_a_crash() -> None:
    world = VirtualScheduler(nodes=1, gpus=8, queues=())
    template(world)
    one = by("ada", "one")
    world.route(one)
    for core in (world.refold(), world.recover()):
        drafts = core.decide(world.now)
        assert [(draft.subject_id, draft.name) for draft in drafts if draft.kind != "cluster"] == [
            ("lab-ada", "changed")
        ]


def test_jobs_of_a_closed_queue_s_users_are_refused() -> None:
    world = VirtualScheduler(nodes=1, gpus=8, queues=())
    template(world, closed=True)
    one = by("ada", "one")
    world.route(one)
    world.settle()
    assert world.phase(one) is Phase.FAILED
    assert world.count("lab-ada", "changed") == 0


def test_without_the_template_jobs_that_wait_for_a_user_s_queue_go_to_the_queue_itself() -> None:
    world = VirtualScheduler(nodes=1, gpus=8, queues=())
    template(world)
    one = by("ada", "one")
    request = world.last("change-forwarded", "lab").payload
    world.write(
        "federation", "queue", "lab", "change-forwarded", request.model_copy(update={"spec": QueueSpec(name="lab")})
    )
    world.route(one)
    world.settle()
    assert world.core.state.jobs.records[one.id].queue == "lab"
    assert world.phase(one) is Phase.PLACED


def test_a_new_queue_s_quota_is_lent_to_who_waits_beside_it() -> None:
    world = VirtualScheduler(nodes=1, gpus=8, queues=())
    world.queue("org")
    world.queue("a", parent="org", quota=gpus(1))
    waits = world.submit("waits", queue="a", gpus=3)
    assert reason(world, waits) == "quota"
    world.queue("b", parent="org", quota=gpus(2))
    assert world.phase(waits) is Phase.PLACED
