"""Which node and which device a request gets."""

from muster.placement import Shortage
from unit.placement.builders import fleet_of, gang, node, nodes_of, one, placed, task


def test_small_tasks_pack_so_that_a_whole_node_stays_free_for_a_big_one() -> None:
    fleet = fleet_of([node("a"), node("b")])
    for _ in range(8):
        placed(fleet, one(task(1)))
    assert nodes_of(placed(fleet, one(task(8)))) == ["b"]


def test_the_fullest_node_that_fits_is_taken() -> None:
    fleet = fleet_of([node("a"), node("b"), node("c")])
    placed(fleet, one(task(2)))
    placed(fleet, one(task(7)))
    assert nodes_of(placed(fleet, one(task(4)))) == ["a"]
    assert nodes_of(placed(fleet, one(task(1)))) == ["b"]


def test_equal_nodes_are_taken_in_the_order_of_their_names_whatever_the_order_they_joined() -> None:
    fleet = fleet_of([node("c"), node("a"), node("b")])
    assert nodes_of(placed(fleet, one(task(8)))) == ["a"]
    assert nodes_of(placed(fleet, one(task(8)))) == ["b"]


def test_only_allowed_models_are_taken() -> None:
    fleet = fleet_of([node("a", model="A100"), node("h", model="H100"), node("t", model="T4")])
    assert nodes_of(placed(fleet, one(task(1, models=("T4", "H100"))))) == ["h"]


def test_a_share_goes_to_the_tightest_broken_device_before_a_whole_one_is_broken() -> None:
    fleet = fleet_of([node("a", gpus=3)])
    placed(fleet, one(task(share=300)))
    placed(fleet, one(task(share=800)))
    (hold,) = placed(fleet, one(task(share=150)))
    assert hold.slot.devices == (1,), "200 milli were left there, 700 on device 0"
    (hold,) = placed(fleet, one(task(share=400)))
    assert hold.slot.devices == (0,)
    (hold,) = placed(fleet, one(task(share=400)))
    assert hold.slot.devices == (2,)


def test_a_share_goes_to_a_node_with_a_broken_device_before_an_idle_node() -> None:
    fleet = fleet_of([node("a", gpus=1), node("b", gpus=1)])
    placed(fleet, one(task(share=500)))
    assert nodes_of(placed(fleet, one(task(share=500)))) == ["a"]


def test_a_task_without_gpu_prefers_a_node_without_gpu() -> None:
    fleet = fleet_of([node("a", gpus=8, cpu=4), node("b", gpus=0, model="", cpu=64)])
    assert nodes_of(placed(fleet, one(task(cpu=2)))) == ["b"]


def test_demand_keeps_cpu_beside_the_gpus_that_need_it() -> None:
    """Packing alone would take the node with the fewest idle GPUs; the score sees that its GPU would be stranded."""
    nodes = [node("narrow", gpus=1, cpu=8), node("wide", gpus=2, cpu=64)]
    cpu_only, gpu_task = one(task(cpu=4)), task(1, cpu=8)
    assert nodes_of(placed(fleet_of(nodes), cpu_only)) == ["narrow"]
    fleet = fleet_of(nodes)
    fleet.set_demand({gpu_task: 1.0})
    assert nodes_of(placed(fleet, cpu_only)) == ["wide"]


def test_a_new_demand_changes_the_choice_of_a_request_seen_before() -> None:
    fleet = fleet_of([node("narrow", gpus=1, cpu=8), node("wide", gpus=2, cpu=64)])
    cpu_only = one(task(cpu=4))
    (before,) = fleet.place(cpu_only) or ()
    fleet.set_demand({task(1, cpu=8): 1.0})
    (after,) = fleet.place(cpu_only) or ()
    assert (before.slot.node, after.slot.node) == ("narrow", "wide")


def test_a_full_node_takes_all_of_the_smallest_idle_node_that_is_big_enough() -> None:
    fleet = fleet_of([node("big", gpus=8), node("busy", gpus=2), node("small", gpus=2), node("tiny", gpus=1)])
    (first,) = placed(fleet, one(task(2)))
    assert first.slot.node == "busy"
    (hold,) = placed(fleet, one(task(2, cpu=1, full=True)))
    assert (hold.slot.node, hold.slot.devices, hold.slot.gpu_milli) == ("small", (0, 1), 1000)
    assert (hold.cpu_milli, hold.memory_mib) == (64_000, 64 * 8192)


def test_nothing_joins_a_full_node_not_even_a_task_that_asks_for_nothing() -> None:
    fleet = fleet_of([node("a")])
    nothing = one(task(cpu=0))
    assert not isinstance(fleet.place(nothing), Shortage)
    placed(fleet, one(task(8, full=True)))
    assert isinstance(fleet.place(nothing), Shortage)


def test_fragmentation_is_the_idle_share_that_the_demand_cannot_use() -> None:
    fleet = fleet_of([node("a", gpus=4, cpu=4)])
    assert fleet.fragmentation() == 0.0, "no demand is known"
    fleet.set_demand({task(1): 3.0, task(cpu=1): 1.0})
    assert fleet.fragmentation() == 0.25, "a quarter of the tasks asks for no GPU"
    placed(fleet, one(task(share=500, cpu=1)))
    assert fleet.fragmentation() == 0.25 + 0.75 * 500 / 3500


def test_the_surge_mix_is_placed_without_stranding_a_job() -> None:
    """4,000 jobs, 11,500 of 14,000 GPUs, with bursts of one size arriving together; the rest stays in blocks."""
    sizes = [(1, 1, 1, 2, 2, 4, 4, 8)[i % 8] for i in range(4000)]
    bursts = [size for start in range(0, 4000, 400) for size in sorted(sizes[start : start + 400])]
    fleet = fleet_of([node(f"n{i:04}") for i in range(1750)])
    for size in bursts:
        placed(fleet, one(task(size)))
    assert fleet.totals["H100"].used_milli == 11_500_000
    rest = fleet.totals["H100"].free_milli // 8000
    assert len(placed(fleet, gang((task(8), rest - 1)))) == rest - 1
