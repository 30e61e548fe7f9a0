"""What nodes measured, as few figures."""

from collections.abc import Iterator

import pytest
from prometheus_client import REGISTRY

from muster.core import NS_PER_S
from muster.projector.telemetry import SILENT_S, FleetMetrics
from muster.schemas.telemetry import DeviceSample, NodeSample


@pytest.fixture
def fleet() -> Iterator[FleetMetrics]:
    metrics = FleetMetrics()
    yield metrics
    metrics.hide()


def sample(node: str, *busy_pct: float, at_s: float = 1.0, held: int = 0, hottest_c: float = 50.0) -> NodeSample:
    """GPUs of one node, the first so many of them held."""
    devices = tuple(
        DeviceSample(
            index=index,
            uuid=f"{node}-{index}",
            utilisation_pct=busy,
            memory_used_mib=0,
            memory_total_mib=80_000,
            power_w=100.0,
            temperature_c=hottest_c,
            job_ids=("j",) if index < held else (),
        )
        for index, busy in enumerate(busy_pct)
    )
    return NodeSample(node=node, at=round(at_s * NS_PER_S), gpu_model="H100", devices=devices)


def shown(name: str) -> float | None:
    return REGISTRY.get_sample_value(f"muster_{name}", {"model": "H100"})


def test_means_count_gpus_and_the_hottest_is_told(fleet: FleetMetrics) -> None:
    fleet.report(sample("n1", 90.0, 30.0, held=1))
    fleet.report(sample("n2", 0.0, 0.0, hottest_c=81.0))
    fleet.show()
    assert shown("gpus_reporting") == 4
    assert shown("gpu_utilisation_ratio") == pytest.approx(0.3)
    assert shown("gpu_held_utilisation_ratio") == pytest.approx(0.9)
    assert shown("gpu_power_watts") == 400
    assert shown("gpu_temperature_max_celsius") == 81


def test_the_newest_report_of_a_node_counts_and_a_silent_one_does_not(fleet: FleetMetrics) -> None:
    fleet.report(sample("n1", 10.0))
    fleet.report(sample("n1", 50.0, at_s=2.0))
    fleet.report(sample("n2", 90.0))
    fleet.show()
    assert shown("gpus_reporting") == 2
    fleet.report(sample("n1", 50.0, at_s=2.0 + SILENT_S))
    fleet.show()
    assert (shown("gpus_reporting"), shown("gpu_utilisation_ratio")) == (1, 0.5)


def test_a_follower_shows_nothing(fleet: FleetMetrics) -> None:
    fleet.report(sample("n1", 10.0))
    fleet.show()
    fleet.hide()
    assert shown("gpus_reporting") is None
