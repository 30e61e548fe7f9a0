"""Reading every node's exporter over HTTP, and what is published when one does not answer as it should."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.clocks import FakeTime
from kit.log import a_fact
from kit.telemetry import BEGAN, VirtualTelemetry, slot, uuid
from kit.waiting import until
from muster.bus.service import LeaderHandle
from muster.core import after
from muster.schemas.facts.node import NodeJoined, NodeLeft, NodeLost
from muster.schemas.telemetry import ExporterState, NodeSample
from muster.stack.ports import free_port
from muster.telemetry.app import Answer, Exporters, Scrapes
from muster.telemetry.core.names import MEANINGS, WORD_CHARS_MAX
from muster.telemetry.core.samples import MEMORY_MIB_MAX
from muster.telemetry.limits import SAMPLE_BYTES_MAX
from muster.telemetry.simulator.gpus import FaultKind
from muster.telemetry.simulator.process import Pages
from muster.telemetry.simulator.world import World

TIMEOUT_S = 0.5


@dataclass
class Wire:
    """A connection that keeps what it is given, by node the newest."""

    is_connected: bool = True
    samples: dict[str, NodeSample] = field(default_factory=dict)
    count: int = 0

    async def publish(self, subject: str, payload: bytes = b"") -> None:
        sample = NodeSample.model_validate_json(payload)
        assert subject == f"telemetry.atlas.{sample.node}"
        self.samples[sample.node] = sample
        self.count += 1


@dataclass
class Stage:
    """A service over simulated exporters that all fold the same facts."""

    harness: VirtualTelemetry
    world: World
    wire: Wire
    clock: FakeTime

    def write_all(self, nodes: int, *, jobs: bool = False) -> None:
        harness = self.harness
        harness.join(*(f"n{number}" for number in range(nodes)))
        if jobs:
            harness.place(0, slot("n0", 0, 1))

    async def record_attempt(self, node: str, state: ExporterState) -> NodeSample:
        def said() -> bool:
            sample = self.wire.samples.get(node)
            return sample is not None and sample.exporter is state

        await until(said)
        return self.wire.samples[node]

    async def more(self, count: int) -> None:
        """So many more messages."""
        seen = self.wire.count
        await until(lambda: self.wire.count >= seen + count)


class BothCores(VirtualTelemetry):
    """Facts go to the service and to the simulated world."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.watch = world.apply


@asynccontextmanager
async def stage(*, nodes: int = 3, interval_s: float = 0.5, stale_s: float = 60.0) -> AsyncIterator[Stage]:
    world, clock, wire = World(1, 0.001), FakeTime(wall_ns=after(BEGAN, 100.0)), Wire()
    harness = BothCores(world)
    runner = web.AppRunner(Pages(lambda: world, clock).app(), shutdown_timeout=0.1)
    await runner.setup()
    port = free_port()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    set_up = Stage(harness, world, wire, clock)
    set_up.write_all(nodes, jobs=True)
    sink = Scrapes(
        cluster="atlas",
        url=f"http://127.0.0.1:{port}/nodes/{{node}}/metrics",
        interval_s=interval_s,
        timeout_s=TIMEOUT_S,
        stale_s=stale_s,
        clock=clock,
    )
    await sink.open(harness.core, wire, LeaderHandle())  # type: ignore[arg-type] - all that it needs of a connection
    try:
        yield set_up
        await sink.after_fold((), last_seq=1, now=clock.wall())
    finally:
        await sink.close()
        await runner.cleanup()
    assert [task for task in asyncio.all_tasks() if task.get_name().startswith(("telemetry", "page of"))] == []


async def test_every_node_is_read_and_its_jobs_are_measured() -> None:
    async with stage() as here:
        for node in ("n0", "n1", "n2"):
            await here.record_attempt(node, ExporterState.OK)
        busy = here.wire.samples["n0"].devices[0]
        (job,) = busy.job_ids
        assert (busy.uuid, here.wire.samples["n0"].gpus_expected, len(here.wire.samples["n0"].devices)) == (
            uuid("n0", 0),
            8,
            8,
        )
        assert here.harness.core.meters.jobs[job].gpus == 2
        assert here.harness.core.fleet.nodes["n1"].seen == 8


@pytest.mark.parametrize(
    ("fault", "state", "words"),
    [
        (FaultKind.HUNG, ExporterState.HUNG, "does not answer within 0.5 s"),
        (FaultKind.DOWN, ExporterState.DOWN, "hangs up"),
        (FaultKind.NONSENSE, ExporterState.NONSENSE, "is no sample"),
    ],
)
async def test_an_exporter_that_does_not_answer_is_told_with_the_reason(
    fault: FaultKind, state: ExporterState, words: str
) -> None:
    async with stage() as here:
        here.world.inject("n1", None, fault, 1.0, BEGAN)
        sick = await here.record_attempt("n1", state)
        assert words in sick.error
        assert (sick.devices, sick.missing, sick.gpus_expected) == ((), (), 8)
        await here.more(3)  # the others go on being read
        assert here.wire.samples["n0"].exporter is ExporterState.OK
        here.world.clear("n1", None)
        await here.record_attempt("n1", ExporterState.OK)


async def test_a_page_that_says_the_same_for_too_long_is_stale() -> None:
    async with stage(stale_s=30.0) as here:
        await here.record_attempt("n1", ExporterState.OK)
        here.world.inject("n1", None, FaultKind.STALE, 1.0, here.clock.wall())
        here.clock.advance(1.0)
        await here.more(6)
        here.clock.advance(31.0)
        stale = await here.record_attempt("n1", ExporterState.STALE)
        assert len(stale.devices) == 8, "what it says is passed on"
        assert here.wire.samples["n0"].exporter is ExporterState.OK


async def test_a_gpu_that_fell_off_the_bus_is_missed() -> None:
    async with stage() as here:
        here.world.inject("n1", 5, FaultKind.OFF_BUS, 1.0, BEGAN)

        def missed() -> bool:
            sample = here.wire.samples.get("n1")
            return sample is not None and sample.missing == (uuid("n1", 5),)

        await until(missed)
        assert here.harness.core.fleet.nodes["n1"].missing == 1


async def test_nobody_asks_a_lost_node() -> None:
    async with stage() as here:
        await here.record_attempt("n1", ExporterState.OK)
        here.harness.write("agent", "node", "n1", "lost", NodeLost())
        before = here.wire.samples["n1"]
        await here.more(8)
        here.clock.advance(5.0)
        await here.more(4)
        assert here.wire.samples["n1"].at == before.at


async def test_while_the_broker_is_away_nodes_are_read_on() -> None:
    async with stage() as here:
        here.wire.is_connected = False

        await until(lambda: len(here.harness.core.fleet.nodes) == 3)
        assert here.wire.samples == {}


def test_an_address_goes_where_the_setting_says() -> None:
    node = NodeJoined(cpu_milli=1, memory_mib=1, address="10.0.0.7")
    assert Exporters("http://{address}:9400/metrics", timeout_s=1).url_of("n1", node) == "http://10.0.0.7:9400/metrics"
    assert Exporters("http://{address}:9400/metrics", timeout_s=1).url_of("n1", None) == "http://n1:9400/metrics"
    six = NodeJoined(cpu_milli=1, memory_mib=1, address="fd00::7")
    assert Exporters("http://{address}:9400/metrics", timeout_s=1).url_of("n1", six) == "http://[fd00::7]:9400/metrics"


async def test_nobody_there_is_down_and_a_refusal_is_nonsense() -> None:
    async with Exporters("http://{node}/", timeout_s=1.0) as exporters:
        answer = await exporters.ask(f"http://127.0.0.1:{free_port()}/metrics")
        assert (answer.state, "cannot be reached" in answer.error) == (ExporterState.DOWN, True)
    async with stage(nodes=1) as here:
        here.world.apply(a_fact("agent", "node", "n0", "left", NodeLeft()))
        refused = await here.record_attempt("n0", ExporterState.NONSENSE)
        assert "answers 404" in refused.error


# --- pages that say what cannot be -----------------------------------------------------------------------------------

GPU = 'gpu="0",UUID="GPU-n0-0"'
WATCH = "DCGM_EXP_GPU_HEALTH_STATUS"
LONG, DIGITS = "P" * 5_000, "9" * 5_000


def read(text: str) -> NodeSample:
    """What is published of a page of n0, on which a job runs."""
    harness = VirtualTelemetry()
    harness.join("n0")
    harness.place(0, slot("n0", 0, 1))
    harness.now_s = 10.0
    sink = Scrapes(
        cluster="atlas", url="http://{node}/", interval_s=10, timeout_s=1, stale_s=60, clock=FakeTime(wall_ns=BEGAN)
    )
    answer, description = Answer(ExporterState.OK, text), harness.core.holdings.nodes["n0"].description
    sample, message = sink.reading(harness.core, "n0", answer, description, at=harness.now)
    assert len(message) <= SAMPLE_BYTES_MAX
    assert NodeSample.model_validate_json(message) == sample
    harness.settle()
    return sample


@pytest.mark.parametrize(
    "line",
    [
        f'{WATCH}{{{GPU},health_watch="{LONG}",health_error_code="{LONG}"}} 20',
        f'DCGM_EXP_XID_ERRORS_COUNT{{{GPU},xid="{DIGITS}"}} 1',
        f'DCGM_EXP_CLOCK_EVENTS_COUNT{{{GPU},clock_event="{LONG}"}} 1',
        f'DCGM_FI_DEV_GPU_UTIL{{gpu="{DIGITS}",UUID="{LONG}",modelName="{LONG}",DCGM_FI_DRIVER_VERSION="{LONG}"}} 5',
        f'DCGM_FI_DEV_GPU_UTIL{{{GPU},exported_namespace="{LONG}",exported_pod="{LONG}"}} 5',
        f"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{{{GPU}}} {DIGITS}",
        f"DCGM_FI_DEV_FB_USED{{{GPU}}} -1e300",
        f"DCGM_FI_DEV_POWER_USAGE{{{GPU}}} -1e308",
    ],
)
def test_what_is_too_long_or_too_much_on_a_page_is_cut_or_left_out(line: str) -> None:
    sample = read(f"{line}\n")
    assert sample.exporter is ExporterState.OK
    (device,) = sample.devices
    words = [sample.driver, sample.gpu_model, device.uuid, *device.throttled]
    words += [word for one in device.watches for word in (one.watch, one.code)]
    assert max(map(len, words)) <= WORD_CHARS_MAX
    assert (device.xid_counts, device.energy_mj, device.memory_used_mib, device.power_w) == ((), None, 0, 0.0)


def test_a_page_that_says_more_than_a_message_holds_is_nonsense() -> None:
    lines = (
        f'{WATCH}{{gpu="{gpu}",UUID="GPU-{gpu}",health_watch="{watch}{"P" * 150}"}} 20'
        for gpu in range(64)
        for watch in range(60)
    )
    sample = read("\n".join(lines))
    assert (sample.exporter, sample.devices) == (ExporterState.NONSENSE, ())
    assert "more than" in sample.error


def test_more_memory_than_any_gpu_has_is_no_number_that_breaks_sums() -> None:
    two = (f'DCGM_FI_DEV_FB_USED{{{GPU},GPU_I_ID="{instance}"}} {"8" * 18}0' for instance in (1, 2))
    sample = read("\n".join(two))
    assert (sample.exporter, sample.devices[0].memory_used_mib) == (ExporterState.OK, MEMORY_MIB_MAX)


def test_what_no_sample_holds_is_nonsense_of_that_node_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.telemetry.app.node_sample", lambda *_, **__: NodeSample(node="n0", at=-1))
    sample = read("")
    assert (sample.exporter, sample.devices) == (ExporterState.NONSENSE, ())
    assert sample.error == "it says what no sample holds: at: Input should be greater than or equal to 0"


NAMES = sorted(MEANINGS)
LABELS = ("gpu", "UUID", "GPU_I_ID", "GPU_I_PROFILE", "xid", "health_watch", "clock_event", "hpc_job", "pod")
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters='\n\r\\"'), max_size=8) | st.sampled_from(
    ["0", "1", "9" * 30, f"{'9' * 190}g.1gb", "x" * 400]
)
VALUES = st.sampled_from(["0", "-1", "NaN", "+Inf", "-Inf", "1e308", "-1e308", "9" * 19, "9" * 400, "0.5", "1e18"])


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(NAMES), st.dictionaries(st.sampled_from(LABELS), TEXTS), VALUES), max_size=12)
)
def test_whatever_a_page_says_something_is_published_of_its_node(
    lines: list[tuple[str, dict[str, str], str]],
) -> None:
    assert read("\n".join(line_of(*line) for line in lines)).node == "n0"


def line_of(name: str, labels: dict[str, str], value: str) -> str:
    said = ",".join(f'{label}="{text}"' for label, text in labels.items())
    return f"{name}{{{said}}} {value}"
