"""Nodes whose kubelet picks the GPUs: facts say how many, sums hold, and the same log gives the same ledger."""

import pytest

from kit.scheduler import CLUSTER, VirtualScheduler, belief, job, ledger_balances
from kit.scheduler_checkpoints import Watched
from kit.scheduler_counts import CountingScheduler
from muster.scheduler.core.answers import answer_cluster
from muster.schemas.facts.control import ClusterDescribed
from muster.schemas.facts.job import PodsExited, PodsOutcome, PodsStarted
from muster.schemas.facts.node import Withheld, WithholdRequested
from muster.schemas.job import Phase
from muster.schemas.queries import AskFleet


def test_a_placement_says_how_many_and_no_device() -> None:
    world = CountingScheduler(nodes=1, gpus=8)
    one = world.submit("one", gpus=3)
    (slot,) = world.placed(one)
    assert (slot.gpus, slot.gpu_milli, slot.devices) == (3, 1000, ())
    assert slot.gpu_count == 3
    assert slot.gpu_milli_held == 3000
    assert world.idle("n0") == 5000


def test_a_scheduler_that_picks_names_devices_and_no_count() -> None:
    world = VirtualScheduler(nodes=1, gpus=8)
    (slot,) = world.last("placed", world.submit("one", gpus=3).id).payload.slots
    assert (slot.gpus, slot.places, len(slot.devices)) == (0, (), 3)


def test_a_full_node_job_holds_every_gpu_by_count() -> None:
    world = CountingScheduler(nodes=1, gpus=4)
    one = world.submit("one", gpus=4, full_node=True)
    assert [(slot.gpus, slot.devices) for slot in world.placed(one)] == [(4, ())]
    assert world.phase(world.submit("two", gpus=1)) is Phase.QUEUED


def test_quota_counts_what_is_held_by_count() -> None:
    world = CountingScheduler(nodes=2, gpus=4, queues=())
    world.queue("lab", gpu_milli_quota=3000, gpu_milli_limit=3000)
    world.submit("one", gpus=2)
    assert world.phase(world.submit("two", gpus=2)) is Phase.QUEUED
    assert world.phase(world.submit("three", gpus=1)) is Phase.PLACED
    assert world.core.state.queues.queues["lab"].held_milli == 3000


def test_what_ends_gives_back_as_many() -> None:
    world = CountingScheduler(nodes=1, gpus=2)
    one, two = world.submit("one", gpus=2), world.submit("two", gpus=2)
    assert world.phase(two) is Phase.QUEUED
    world.started(one)
    world.exited(one)
    assert world.phase(two) is Phase.PLACED
    ledger_balances(world.core)


def test_a_node_that_lost_a_gpu_takes_jobs_again_when_who_held_too_much_is_gone() -> None:
    world = CountingScheduler(nodes=1, gpus=2)
    one = world.submit("one", gpus=2)
    world.started(one)
    world.describe("n0", gpus=1)
    two = world.submit("two")
    assert world.phase(two) is Phase.QUEUED, "more is held than there is"
    world.exited(one)
    assert world.phase(two) is Phase.PLACED


class TestSizesOfShares:
    def test_a_part_is_rounded_up_to_the_next_size(self) -> None:
        world = CountingScheduler()
        world.describe("n0", gpus=1, share_milli=(250, 500))
        one = world.submit("one", gpu_milli=300)
        assert [(slot.gpus, slot.gpu_milli) for slot in world.placed(one)] == [(1, 500)]
        assert world.idle("n0") == 500
        assert world.core.state.queues.queues["lab"].held_milli == 500

    def test_parts_of_the_size_served_fill_the_device(self) -> None:
        world = CountingScheduler()
        world.describe("n0", gpus=1, share_milli=(250,))
        jobs = [world.submit(f"j{n}", gpu_milli=100) for n in range(5)]
        assert [world.phase(one) for one in jobs] == [Phase.PLACED] * 4 + [Phase.QUEUED]

    def test_a_part_larger_than_all_sizes_waits_and_is_told_the_largest(self) -> None:
        world = CountingScheduler()
        world.describe("n0", gpus=1, share_milli=(250, 500))
        one = world.submit("one", gpu_milli=600)
        told = world.last("unschedulable", one.id).payload
        assert told.reason == "gpu"
        assert "0.6 of a GPU" in told.detail
        assert "0.5" in told.detail

    def test_on_nodes_that_share_none_a_part_waits_and_whole_gpus_go(self) -> None:
        world = CountingScheduler()
        world.describe("n0", gpus=1, share_milli=())
        part = world.submit("part", gpu_milli=600)
        assert "not shared" in world.last("unschedulable", part.id).payload.detail
        assert world.phase(world.submit("whole", gpus=1)) is Phase.PLACED

    def test_the_node_that_wastes_less_is_not_needed_if_only_one_has_the_size(self) -> None:
        world = CountingScheduler()
        world.describe("n0", gpus=1, share_milli=())
        world.describe("n1", gpus=1, share_milli=(500,))
        assert [slot.node for slot in world.placed(world.submit("one", gpu_milli=400))] == ["n1"]


class TestAClusterThatSharesNothing:
    def described(self, world: VirtualScheduler, sharing: str) -> None:
        world.write("agent", "cluster", CLUSTER, "described", ClusterDescribed(backend="kubernetes", sharing=sharing))

    def test_refuses_a_job_that_asks_for_a_part_at_once(self) -> None:
        world = CountingScheduler(nodes=1, gpus=8)
        self.described(world, "none")
        one = world.submit("one", gpu_milli=500)
        assert world.phase(one) is Phase.FAILED
        assert world.names(one) == ["failed"]
        assert "no-sharing" in world.last("failed", one.id).payload.reason

    def test_takes_whole_gpus(self) -> None:
        world = CountingScheduler(nodes=1, gpus=8)
        self.described(world, "none")
        assert world.phase(world.submit("one", gpus=1)) is Phase.PLACED

    def test_refuses_who_came_before_it_was_known(self) -> None:
        world = CountingScheduler(nodes=1, gpus=8)
        one = job("one", gpu_milli=500)
        world.route(one)
        self.described(world, "none")
        world.settle()
        assert world.names(one) == ["failed"]

    @pytest.mark.parametrize("sharing", ["any", "mig", "mps", "time-slicing"])
    def test_others_take_parts(self, sharing: str) -> None:
        world = CountingScheduler(nodes=1, gpus=8)
        self.described(world, sharing)
        assert world.phase(world.submit("one", gpu_milli=500)) is Phase.PLACED

    def test_a_checkpoint_of_the_agent_says_it_too(self) -> None:
        world = CountingScheduler(nodes=1, gpus=8)
        described = ClusterDescribed(sharing="none")
        world.write("agent", "cluster", CLUSTER, "state-recorded", described)
        assert world.phase(world.submit("one", gpu_milli=500)) is Phase.FAILED


class TestANodeDescribedAnew:
    def test_what_is_held_moves_to_places_that_are_there(self) -> None:
        world = CountingScheduler(nodes=1, gpus=4)
        gone, kept = world.submit("gone", gpus=2), world.submit("kept", gpus=2)
        world.started(gone)
        world.exited(gone)
        world.describe("n0", gpus=2)  # pods of others took the rest
        assert world.core.state.ledger.misfits == 0
        assert world.idle("n0") == 0
        assert world.phase(world.submit("new", gpus=1)) is Phase.QUEUED
        assert world.phase(kept) is Phase.PLACED

    def test_more_places_are_free_for_others(self) -> None:
        world = CountingScheduler(nodes=1, gpus=2)
        world.submit("one", gpus=2)
        world.describe("n0", gpus=4)
        assert world.phase(world.submit("two", gpus=2)) is Phase.PLACED
        ledger_balances(world.core)

    def test_less_than_is_held_leaves_nothing_until_enough_came_free(self) -> None:
        world = CountingScheduler(nodes=1, gpus=4)
        jobs = [world.submit(f"j{n}", gpus=1) for n in range(4)]
        world.describe("n0", gpus=2)
        for one in jobs[:2]:
            world.started(one)
            world.exited(one)
            assert world.idle("n0") == 0
        world.started(jobs[2])
        world.exited(jobs[2])
        assert world.idle("n0") == 1000


class TestADeviceThatIsAskedFor:
    """Nobody can say which device the kubelet picked, unless it was seen."""

    UUIDS = ("GPU-a", "GPU-b", "GPU-c", "GPU-d")

    def world(self) -> CountingScheduler:
        world = CountingScheduler()
        world.describe("n0", uuids=self.UUIDS)
        return world

    def ask(self, world: CountingScheduler, uuid: str, *, force: bool = False) -> list[Withheld]:
        request = WithholdRequested(request_id="move", force=force)
        world.write("composer", "device", uuid, "withhold-requested", request)
        world.settle()
        return [fact.payload for fact in world.log if fact.subject_id == uuid and fact.name == "withheld"]

    def test_an_empty_node_gives_it_at_once(self) -> None:
        assert len(self.ask(self.world(), "GPU-a")) == 1

    def test_a_job_whose_devices_nobody_saw_may_have_it(self) -> None:
        world = self.world()
        one = world.submit("one", gpus=1)
        world.started(one)
        assert self.ask(world, "GPU-a") == []
        world.exited(one)
        assert world.count("GPU-a", "withheld") == 1

    def test_a_job_that_was_seen_with_others_has_not(self) -> None:
        world = self.world()
        world.picked(world.submit("one", gpus=2), "GPU-c", "GPU-d")
        assert len(self.ask(world, "GPU-a")) == 1
        assert world.core.state.holders.of("device", "GPU-c") != ()

    def test_a_job_that_was_seen_with_it_keeps_it_until_it_ends(self) -> None:
        world = self.world()
        one = world.submit("one", gpus=1)
        world.picked(one, "GPU-a")
        assert self.ask(world, "GPU-a") == []
        world.exited(one)
        assert world.count("GPU-a", "withheld") == 1

    def test_force_names_who_may_lose_it(self) -> None:
        world = self.world()
        one = world.submit("one", gpus=1)
        (answer,) = self.ask(world, "GPU-a", force=True)
        assert answer.forced
        assert answer.holders == (one.id,)

    def test_nothing_new_starts_on_the_node_before_it_is_gone(self) -> None:
        world = self.world()
        self.ask(world, "GPU-a")
        waiting = world.submit("one", gpus=1)
        assert world.phase(waiting) is Phase.QUEUED
        world.describe("n0", uuids=self.UUIDS[1:])
        assert world.phase(waiting) is Phase.PLACED

    def test_what_was_seen_survives_a_checkpoint(self) -> None:
        world = self.world()
        world.picked(world.submit("one", gpus=1), "GPU-b")
        holders = world.recover().state.holders.of
        assert holders("device", "GPU-a") == ()
        assert holders("device", "GPU-b") == world.core.state.holders.of("device", "GPU-b") != ()


class _Watched(CountingScheduler, Watched):
    """Counted nodes, and a checkpoint after every fact."""


def test_a_checkpoint_after_any_fact_keeps_counts_and_places() -> None:
    world = _Watched(nodes=1, gpus=3)
    one, part, gang = job("one", gpus=2), job("part", gpu_milli=400), job("gang", replicas=2)
    world.route(one, part, gang)
    world.settle()
    world.write("agent", "job", one.id, "pods-started", PodsStarted(attempt=1, device_uuids=(("x", "y"),)))
    world.describe("n0", gpus=4, share_milli=(500,))
    world.write("agent", "job", one.id, "pods-exited", PodsExited(attempt=1, outcome=PodsOutcome.SUCCEEDED))
    world.settle()
    world.describe("n0", gpus=3, share_milli=(500,))
    world.advance(20)
    assert belief(world.refold()) == belief(world.core)
    assert world.phase(gang) is Phase.PLACED


def test_the_cluster_answers_what_it_is_and_how_full() -> None:
    world = CountingScheduler(nodes=2, gpus=4)
    lacking = ("no resource.k8s.io: GPUs are placed by count",)
    described = ClusterDescribed(backend="kubernetes", devices="kubelet", sharing="mig", lacking=lacking)
    world.write("agent", "cluster", CLUSTER, "described", described)
    world.submit("one", gpus=3)
    told = answer_cluster(world.core, AskFleet(), world.now)
    assert (told.name, told.devices, told.sharing, told.lacking) == (CLUSTER, "kubelet", "mig", lacking)
    assert (told.nodes, told.gpu_milli_total, told.gpu_milli_free, told.jobs_running) == (2, 8000, 5000, 1)
