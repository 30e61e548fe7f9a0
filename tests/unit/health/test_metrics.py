"""What health's metrics tell: what stands and why, what began and ended, who was told; each fact once."""

import pytest
from prometheus_client import REGISTRY

from kit.health import START, VirtualHealth, device
from kit.log import a_fact
from muster.core import Fact, after
from muster.health import app as shown_metrics
from muster.health.app import HealthMetrics
from muster.health.core.patrol import DEEP
from muster.schemas.base import Payload
from muster.schemas.facts.health import FaultClass, FaultObserved, HealthMoved
from muster.schemas.facts.node import Withheld, WithholdRequested
from muster.schemas.facts.operations import JobFault


def value(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(f"muster_health_{name}", labels) or 0.0


def counted() -> tuple[float, float, float, float]:
    """XIDs 79; illnesses of nodes that began, that ended, and how long these took."""
    return (
        value("faults_total", code="xid-79", fault_class="fatal"),
        value("illnesses_begun_total", kind="node"),
        value("illnesses_total", kind="node"),
        value("illness_seconds_total", kind="node"),
    )


def fact(kind: str, name: str, payload: Payload, *, writer: str = "health") -> Fact:
    return a_fact(writer, kind, "n1", name, payload, time=START, cluster="sim")


def test_an_illness_is_shown_with_its_reason_while_it_lasts_and_counted_once() -> None:
    harness, metrics, before = VirtualHealth(), HealthMetrics("sim"), counted()
    harness.join("n1", "n2")
    harness.pages("n1", seconds=70)
    harness.answers = False
    harness.page("n1", device("n1", 0, xid=79))
    for said in harness.settle():
        metrics.count(said)
    metrics.show(harness.core.verdicts)
    assert value("standing_faults", kind="node", code="xid-79", fault_class="fatal") == 1
    assert value("units", kind="node", phase="suspect") == 1
    assert counted() == (before[0] + 1, before[1] + 1, before[2], before[3])
    metrics.hide()
    assert REGISTRY.get_sample_value("muster_health_units", {"kind": "node", "phase": "suspect"}) is None
    metrics.show(harness.core.verdicts)
    assert counted()[:2] == (before[0] + 1, before[1] + 1), "another term counts nothing twice"
    metrics.hide()


def test_what_is_well_again_has_no_standing_fault_and_a_length() -> None:
    harness, metrics, before = VirtualHealth(), HealthMetrics("sim"), counted()
    harness.join("n1", "n2")
    harness.pages("n1", seconds=70)
    harness.page("n1", device("n1", 0, xid=79))
    harness.answers = False
    harness.settle()
    metrics.show(harness.core.verdicts)
    asked = harness.facts("withhold-requested")[0].payload
    assert isinstance(asked, WithholdRequested)
    harness.now, harness.answers = after(harness.now, 100), True
    harness.write("scheduler", "node", "n1", "withheld", Withheld(request_id=asked.request_id))
    harness.pages("n1", seconds=300)
    for said in harness.log:
        metrics.count(said)
    metrics.show(harness.core.verdicts)
    assert value("standing_faults", kind="node", code="xid-79", fault_class="fatal") == 0
    assert value("units", kind="node", phase="quarantined") == 0
    assert counted()[2] == before[2] + 1
    assert 100 <= counted()[3] - before[3] <= 400
    metrics.hide()


def test_deep_checks_are_no_illness() -> None:
    before = counted()
    HealthMetrics().count(fact("node", "suspect", HealthMoved(node="n1", codes=(DEEP,))))
    assert counted() == before
    HealthMetrics().count(fact("node", "suspect", HealthMoved(node="n1", codes=(DEEP, "xid-79"))))
    assert counted()[1] == before[1] + 1


def test_owners_and_verdicts_are_counted() -> None:
    metrics = HealthMetrics()
    before = value("owners_told_total", team="vision"), value("preflights_total", outcome="failed")
    metrics.count(fact("job", "fault-told", JobFault(code="xid-31", node="n1", team="vision", count=3)))
    metrics.count(fact("job", "preflight-failed", Payload()))
    metrics.count(fact("job", "preflight-failed", Payload(), writer="agent"))
    assert value("owners_told_total", team="vision") == before[0] + 3
    assert value("preflights_total", outcome="failed") == before[1] + 1


def test_codes_are_labels_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shown_metrics, "CODES_MAX", 1)
    metrics, before = HealthMetrics(), value("faults_total", code="other", fault_class="note")
    for code in ("odd-1", "odd-2", "odd-3"):
        metrics.count(fact("node", "fault-observed", FaultObserved(code=code, fault_class=FaultClass.NOTE)))
    assert value("faults_total", code="other", fault_class="note") == before + 2
