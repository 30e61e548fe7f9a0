"""Metrics of a leading telemetry service: by team, queue and model, and of the few largest jobs."""

import pytest
from prometheus_client import REGISTRY

from kit.telemetry import CONFIG, VirtualTelemetry, device, slot
from muster.schemas.telemetry import ExporterState
from muster.telemetry import metrics as shown_metrics
from muster.telemetry.metrics import TelemetryMetrics


def value(name: str, **labels: str) -> float | None:
    return REGISTRY.get_sample_value(name, labels)


def test_what_held_gpus_do_is_shown_while_it_leads_and_not_after() -> None:
    harness, metrics = VirtualTelemetry(), TelemetryMetrics()
    harness.join("n1", "n2")
    job, lazy = harness.place(0, slot("n1", 0, 1)), harness.place(1, slot("n1", 2), team="nap")
    for second in (10.0, 80.0):
        harness.now_s = second
        working = (device("n1", index, job, busy=80.0, sm_active_pct=50.0) for index in (0, 1))
        harness.read("n1", *working, device("n1", 2, lazy, busy=0.0))
    harness.read("n2", state=ExporterState.HUNG)
    metrics.show(harness.core, harness.now)
    of_lab = {"team": "lab", "queue": "lab", "model": "H100"}
    assert value("muster_gpu_job_held", **of_lab) == 2
    assert (value("muster_gpu_job_busy_ratio", **of_lab), value("muster_gpu_job_sm_active_ratio", **of_lab)) == (
        0.8,
        0.5,
    )
    assert value("muster_gpu_job_power_watts", **of_lab) == 1_000.0
    assert value("muster_gpu_job_idle", team="nap", queue="nap", model="H100") == 1
    assert value("muster_job_gpus", job_id=job, team="lab", queue="lab") == 2
    assert value("muster_telemetry_exporters", state="hung") == 1
    assert value("muster_telemetry_gpus_missing", model="H100") == 5
    metrics.hide()
    assert value("muster_gpu_job_held", **of_lab) is None
    assert value("muster_telemetry_exporters", state="hung") is None


def test_only_the_largest_jobs_have_metrics_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shown_metrics, "JOBS_SHOWN", 3)
    harness, metrics = VirtualTelemetry(), TelemetryMetrics()
    nodes = [f"n{number}" for number in range(8)]
    harness.join(*nodes)
    jobs = [harness.place(number, slot(node, *range(number + 1))) for number, node in enumerate(nodes)]
    harness.now_s = CONFIG.interval_s
    for number, (job, node) in enumerate(zip(jobs, nodes, strict=True)):
        harness.read(node, *(device(node, index, job) for index in range(number + 1)))
    metrics.show(harness.core, harness.now)
    shown = [
        sample.labels["job_id"]
        for family in REGISTRY.collect()
        if family.name == "muster_job_gpus"
        for sample in family.samples
    ]
    assert sorted(shown) == sorted(jobs[-3:])
    metrics.hide()


def test_what_held_gpus_cost_is_added_up_between_looks() -> None:
    harness, metrics = VirtualTelemetry(), TelemetryMetrics()
    harness.join("n1")
    job = harness.place(0, slot("n1", 0, 1), team="meter")
    names = {"muster_gpu_job_held_seconds_total": {}, "muster_gpu_job_energy_joules_total": {"model": "H100"}}

    def sums() -> list[float]:
        return [value(name, team="meter", **labels) or 0.0 for name, labels in names.items()]

    def look(second: float) -> None:
        harness.now_s = second
        harness.read("n1", *(device("n1", index, job, busy=80.0) for index in (0, 1)))
        metrics.show(harness.core, harness.now)

    look(10.0)
    assert sums() == [0.0, 0.0], "nobody knows for how long it has been so"
    look(20.0)
    assert sums() == [20.0, 10_000.0], "two GPUs of 500 W for 10 s"
    look(20.0 + shown_metrics.STEP_S_MAX + 1)
    assert sums() == [20.0, 10_000.0], "nobody measured for so long"
    metrics.hide()
    look(90.0)
    assert sums() == [20.0, 10_000.0], "another term begins anew"
    metrics.hide()
