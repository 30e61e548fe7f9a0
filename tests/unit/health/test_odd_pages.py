"""Pages that say what cannot be: words without an end, and devices of other nodes."""

import pytest

from kit.health import H100, VirtualHealth, device, uuid
from muster.core import after
from muster.schemas.facts.node import NodeJoined
from muster.schemas.telemetry import DeviceSample, ExporterState, NodeSample, WatchLevel, WatchReading


@pytest.fixture
def harness() -> VirtualHealth:
    one = VirtualHealth()
    one.join("a", "b")
    for node in ("a", "b"):
        one.page(node)
    one.settle()
    one.now = after(one.now, 10)
    return one


def show(harness: VirtualHealth, node: str, *devices: DeviceSample, missing: tuple[str, ...] = ()) -> None:
    """A page of these devices and no others."""
    sample = NodeSample(
        node=node, at=harness.now, gpu_model=H100, devices=devices, exporter=ExporterState.OK, gpus_expected=8,
        missing=missing,
    )  # fmt: skip
    harness.core.observe(sample, harness.now)
    harness.settle()


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"watches": (WatchReading(watch="PCIE", level=WatchLevel.FAIL, code="X" * 3000),)}, "watch-pcie"),
        ({"watches": (WatchReading(watch="P" * 253, level=WatchLevel.FAIL, code="X"),)}, "watch-ppp"),
        ({"throttled": ("HW_SLOWDOWN" * 300,)}, "throttle-hw-slowdown"),
    ],
)
def test_words_are_cut_to_what_a_fact_holds(harness: VirtualHealth, fields: dict[str, object], code: str) -> None:
    harness.pages("a", device("a", 0, **fields), seconds=400)
    seen = harness.core.verdicts.detector.unknown
    told = [fact.payload.code for fact in harness.facts("fault-observed")]  # type: ignore[attr-defined]
    assert any(one.startswith(code) for one in (*told, *seen))


def test_a_device_that_is_elsewhere_by_now_is_none_of_the_pages_node(harness: VirtualHealth) -> None:
    first = len(harness.log)
    show(harness, "a", device("a", 0), device("b", 3, xid=94))
    assert harness.log[first:] == []
    assert harness.core.verdicts.detector.foreign == 1


def test_a_page_of_strangers_alone_says_nothing_of_them_either(harness: VirtualHealth) -> None:
    first = len(harness.log)
    show(harness, "a", device("b", 3, xid=94), missing=(uuid("b", 4),))
    harness.now = after(harness.now, 3600)
    show(harness, "a", device("b", 3, xid=94), missing=(uuid("b", 4),))
    assert harness.log[first:] == []


def test_a_device_that_the_log_has_nowhere_is_left_out_beside_ones_that_it_has(harness: VirtualHealth) -> None:
    first = len(harness.log)
    show(harness, "a", device("a", 0), device("elsewhere", 3, xid=94))
    assert harness.log[first:] == []


def test_where_the_log_has_names_of_places_the_pages_names_count() -> None:
    harness = VirtualHealth()
    names = tuple(f"a-gpu-{index}" for index in range(8))
    joined = NodeJoined(cpu_milli=1, memory_mib=1, gpu_model=H100, gpu_uuids=names, kubelet_picks=True)
    harness.write("agent", "node", "a", "joined", joined)
    show(harness, "a", device("a", 0, xid=79))
    assert harness.facts("fault-observed")


def test_a_lasting_fault_for_which_there_was_no_room_is_told_once_there_is() -> None:
    harness = VirtualHealth()
    harness.join("a", "b")
    harness.page("a")
    harness.core.verdicts.signals._most = 0
    harness.pages("a", device("a", 3, remap_pending=True), seconds=100)
    assert not harness.facts("fault-observed")
    harness.core.verdicts.signals._most = 100
    harness.pages("a", device("a", 3, remap_pending=True), seconds=100)
    assert harness.facts("fault-observed")


def test_a_page_from_the_future_does_not_keep_later_ones_out(harness: VirtualHealth) -> None:
    """Whoever stamped it had a clock that ran ahead, and was set right."""
    ahead = NodeSample(
        node="a", at=after(harness.now, 3600), gpu_model=H100, devices=(device("a", 0),), exporter=ExporterState.OK,
        gpus_expected=8,
    )  # fmt: skip
    harness.core.observe(ahead, harness.now)
    harness.now = after(harness.now, 10)
    show(harness, "a", device("a", 0, xid=79))
    assert [fact.payload.code for fact in harness.facts("fault-observed")] == ["xid-79"]  # type: ignore[attr-defined]
