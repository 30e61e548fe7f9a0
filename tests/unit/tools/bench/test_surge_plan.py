"""What a surge asks of the fleet."""

from muster_tools.bench.surge import GPUS_PER_NODE, Plan
from muster_tools.bench.workload import GPU_CYCLE, LONG_RUN_S


def plan(rate: float) -> Plan:
    return Plan(nodes=1750, workloads=4000, rate=rate, duration_s=120.0, connections=32, split=False)


def test_all_at_once_no_workload_ends_before_all_are_placed() -> None:
    assert (plan(0).count, plan(0).run_s) == (4000, LONG_RUN_S)


def test_at_a_rate_the_fleet_never_fills() -> None:
    steady = plan(200)
    assert steady.count == 24_000
    held = steady.rate * steady.run_s * sum(GPU_CYCLE) / len(GPU_CYCLE)
    assert held < 0.8 * steady.nodes * GPUS_PER_NODE
