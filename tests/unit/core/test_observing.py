"""What a core sees outside the log may lead to decisions, and changes nothing that follows from the log."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from golden.folding import services_of
from golden.logs import LOG, facts_of
from muster.composer.core.core import ComposerCore
from muster.composer.core.fabrics import Surveyed, SurveyWentWrong
from muster.core import Fact, Instant, ObservingCore, after
from muster.fabric.driver import Inventory, MachineDevice
from muster.guard.core import GuardCore
from muster.guard.core.look import Look
from muster.health.core.core import HealthCore
from muster.schemas.devices import GPU
from muster.schemas.facts.device import CallFailure
from muster.schemas.telemetry import DeviceSample, ExporterState, NodeSample
from muster.telemetry.core.core import TelemetryCore
from muster.telemetry.core.meters import Reading
from unit.guard.pages_samples import lister, look

Core = HealthCore | TelemetryCore | GuardCore | ComposerCore
Observation = NodeSample | Reading | Look | Surveyed | SurveyWentWrong


def sick(node: str, uuid: str, at: int) -> NodeSample:
    """A page with a device that fell off the bus, and has used power."""
    device = DeviceSample(
        index=0, uuid=uuid, utilisation_pct=90.0, memory_used_mib=100, memory_total_mib=80_000, power_w=500.0,
        temperature_c=50.0, xid=79, job_ids=("j1",),
    )  # fmt: skip
    return NodeSample(node=node, at=at, gpu_model="H100", devices=(device,), exporter=ExporterState.OK, gpus_expected=1)


def page_of(core: HealthCore, fact: Fact, number: int) -> NodeSample:
    nodes = core.verdicts.state.nodes
    name = sorted(nodes)[number % len(nodes)] if nodes else "n0"
    uuid = next(iter(nodes[name].shown), "GPU-0") if nodes else "GPU-0"
    return sick(name, uuid, fact.time + number)


def reading_of(core: TelemetryCore, fact: Fact, number: int) -> Reading:
    nodes = core.holdings.nodes
    name = sorted(nodes)[number % len(nodes)] if len(nodes) else "n0"
    return Reading(sick(name, "GPU-0", fact.time + number), core.holdings.holders(name))


def look_of(_core: GuardCore, fact: Fact, number: int) -> Look:
    return look(clients=(lister(60.0 * number, f"client-{fact.seq}/1"),))


def survey_of(core: ComposerCore, fact: Fact, number: int) -> Surveyed | SurveyWentWrong:
    fabrics, machines = sorted(core.state.fabrics), sorted(core.state.hosts.machines.node_on)
    name, began_at = fabrics[number % len(fabrics)] if fabrics else "none", Instant(fact.time + number)
    if number % 3 == 0:
        return SurveyWentWrong(name, began_at, CallFailure.TIMEOUT, "no answer")
    stray = MachineDevice(f"d{number}", f"GPU-{number}", "H100")
    return Surveyed(name, began_at, Inventory({(GPU, "H100"): number}, dict.fromkeys(machines[:1], (stray,))))


@dataclass(frozen=True)
class Seen:
    """What one service sees, made to fit what its core has folded."""

    service: str
    make: Callable[..., Observation]


SEEN = (Seen("health", page_of), Seen("telemetry", reading_of), Seen("guard", look_of), Seen("composer", survey_of))


def new_core(service: str) -> ObservingCore[Observation]:
    return services_of(LOG)[service].core()  # type: ignore[return-value]


@pytest.mark.parametrize("seen", SEEN, ids=lambda seen: seen.service)
@settings(max_examples=6)
@given(st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 40)), min_size=1, max_size=12))
def test_what_is_seen_is_no_part_of_what_follows_from_the_log(seen: Seen, moments: list[tuple[int, int]]) -> None:
    facts = facts_of(LOG)
    blind, seeing = new_core(seen.service), new_core(seen.service)
    at = {number % len(facts): which for number, which in moments}
    for number, fact in enumerate(facts):
        blind.apply(fact)
        seeing.apply(fact)
        if number in at:
            before = list(seeing.snapshot())
            seeing.observe(seen.make(seeing, fact, at[number]), fact.time)
            seeing.decide(fact.time)
            assert list(seeing.snapshot()) == before
    assert list(seeing.snapshot()) == list(blind.snapshot())


@pytest.mark.parametrize("seen", SEEN, ids=lambda seen: seen.service)
def test_what_is_seen_leads_to_decisions(seen: Seen) -> None:
    """Else the property above would hold of a core that ignores everything."""
    blind, seeing, said = new_core(seen.service), new_core(seen.service), 0
    for fact in facts_of(LOG):
        blind.apply(fact)
        seeing.apply(fact)
        seeing.observe(seen.make(seeing, fact, 1), fact.time)
        said += seeing.decide(fact.time) != blind.decide(fact.time)
    a_day_later = after(fact.time, 86_400)  # telemetry reports now and then
    assert said or seeing.decide(a_day_later) != blind.decide(a_day_later)


@pytest.mark.parametrize("service", ["health", "telemetry"])
def test_a_node_that_the_log_does_not_have_is_not_remembered(service: str) -> None:
    core = new_core(service)
    page = sick("stranger", "GPU-0", 1)
    assert not core.observe(Reading(page) if service == "telemetry" else page, Instant(1))
    assert core.next_wakeup() is None
