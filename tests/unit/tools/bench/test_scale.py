"""The scale benchmark, small: what it measures is what the scaler chose."""

from muster_tools.bench.scale import BURST, latency, measure
from muster_tools.bench.scale_cell import Cell
from muster_tools.bench.scale_input import FABRICS, GPUS_MAX, GPUS_MIN, Scale, nodes


def test_jobs_of_all_shapes_get_devices_or_nodes() -> None:
    steps = list[int]()
    found = measure(Scale(nodes=60, pool=120), decisions=20, say=lambda _: None, done=lambda: steps.append(1))
    assert len(steps) == found.decisions == 20
    assert found.chosen["gpu-attach-chosen"] > 5
    assert found.gpus > 20
    assert 0 < found.decision.p50_ms <= found.decision.p99_ms <= found.decision.max_ms
    assert 0 < found.burst_served < BURST, "as many as the pool has devices for, or as places have room"


def test_the_fleet_is_as_described_and_every_fact_fits() -> None:
    scale = Scale(nodes=20, pool=10)
    cell = Cell(scale)
    sizes = [gpus for fabric in FABRICS for _, _, gpus in nodes(scale, fabric)]
    assert len(cell.described) == len(sizes) == 20
    assert GPUS_MIN <= min(sizes) <= max(sizes) <= GPUS_MAX
    assert len(cell.core.state.attachments.all) == sum(sizes)
    assert not cell.core.state.anomalies


def test_latency_is_of_the_sorted_measurements() -> None:
    found = latency([float(n) for n in range(100, 0, -1)])
    assert (found.p50_ms, found.p99_ms, found.max_ms) == (51.0, 100.0, 100.0)
