"""A job's readings and output read back from the streams of a real nats-server."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
from nats.aio.client import Client

from kit.servers import CLUSTER, NatsServer
from kit.waiting import until_async
from muster.bus.clock import SystemTime
from muster.bus.settings import Settings
from muster.bus.streams import bootstrap
from muster.core.instant import NS_PER_S
from muster.gateway import readings
from muster.gateway.ports import UnreachableError
from muster.gateway.readings import Readings, RecentMessages
from muster.schemas.job import Phase
from muster.schemas.subjects import output_subject, telemetry_subject
from muster.schemas.telemetry import DeviceSample, NodeSample, OutputLines
from muster.schemas.views import JobView

pytestmark = pytest.mark.connected

JOB = "A" * 26


def job(*nodes: str) -> JobView:
    return JobView(
        id=JOB, name="a", team="blue", principal="p", queue="q", phase=Phase.RUNNING, cluster=CLUSTER, nodes=nodes
    )


@dataclass
class Streams:
    """The streams of a stack, and who writes and reads them."""

    gateway: Client
    agent: Client
    telemetry: Client
    moment: int = field(default_factory=lambda: SystemTime().wall())

    @property
    def readings(self) -> Readings:
        return Readings(RecentMessages(self.gateway), (CLUSTER,), SystemTime())

    async def measured(self, node: str, *, count: int = 1) -> None:
        for number in range(count):
            device = DeviceSample(
                index=0, uuid="u", utilisation_pct=1.0, memory_used_mib=1, memory_total_mib=1, power_w=1.0,
                temperature_c=1.0, job_ids=(JOB,),
            )  # fmt: skip
            sample = NodeSample(node=node, at=self.moment + number * 10 * NS_PER_S, devices=(device,))
            await self.telemetry.publish(telemetry_subject(CLUSTER, node), sample.model_dump_json().encode())
        await self.telemetry.flush()

    async def printed(self, count: int, *, job_id: str = JOB) -> None:
        for number in range(count):
            lines = OutputLines(job_id=job_id, attempt=1, at=number, lines=(f"line {number}",))
            await self.agent.publish(output_subject(CLUSTER, job_id), lines.model_dump_json().encode())
        await self.agent.flush()


@pytest.fixture
async def streams(nats_server: NatsServer) -> AsyncIterator[Streams]:
    settings = Settings(
        state_dir=nats_server.directory,
        cluster=CLUSTER,
        nats_url=nats_server.url,
        credentials_dir=nats_server.credentials_dir,
    )
    maker = await nats_server.connect("bootstrap")
    await bootstrap(maker, settings)
    await maker.close()
    users = [await nats_server.connect(user) for user in ("gateway", "agent", "telemetry")]
    yield Streams(*users)
    for client in users:
        await client.close()


async def test_a_jobs_readings_are_those_of_its_nodes(streams: Streams) -> None:
    for node in ("n1", "n2.rack.local", "other"):
        await streams.measured(node, count=3)
    found = await streams.readings.of_job(job("n1", "n2.rack.local", "quiet"), since_s=900)
    assert set(found.devices) == {"n1/0", "n2.rack.local/0"}
    assert [len(row) for row in found.devices.values()] == [3, 3]


async def test_a_job_that_nothing_is_known_of_has_none(streams: Streams) -> None:
    assert (await streams.readings.of_job(job("n1"), since_s=900)).at == ()
    assert (await streams.readings.of_job(job(), since_s=900)).at == ()
    assert (await streams.readings.output(job("n1"), lines=10)).lines == ()


async def test_of_too_many_readings_those_of_fewer_nodes_are_told(
    streams: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readings, "SAMPLES_MAX", 6)
    for node in ("n1", "n2", "n3", "n4"):
        await streams.measured(node, count=3)
    found = await streams.readings.of_job(job("n1", "n2", "n3", "n4"), since_s=900)
    assert set(found.devices) == {"n1/0", "n2/0"}


async def test_the_newest_lines_of_the_job_alone_are_told(streams: Streams) -> None:
    await streams.printed(30)
    await streams.printed(5, job_id="B" * 26)
    found = await streams.readings.output(job("n1"), lines=4)
    assert [line.text for line in found.lines] == [f"line {number}" for number in range(26, 30)]


async def test_the_lines_after_a_cursor_are_those_that_came_after_it(streams: Streams) -> None:
    await streams.printed(3)
    page = await streams.readings.output(job("n1"), lines=2)
    assert page.end == f"LOGS_{CLUSTER}:3"
    await streams.printed(2, job_id="B" * 26)
    await streams.printed(2)
    found = await streams.readings.next_output(job("n1"), after=3, lines=10, wait_s=0)
    assert ([line.text for line in found.lines], found.end) == (["line 0", "line 1"], f"LOGS_{CLUSTER}:7")
    nothing = await streams.readings.next_output(job("n1"), after=7, lines=10, wait_s=0)
    assert (nothing.lines, nothing.end) == ((), f"LOGS_{CLUSTER}:7")


async def test_a_client_that_waits_gets_a_line_when_it_is_printed(streams: Streams) -> None:
    waiting = asyncio.create_task(streams.readings.next_output(job("n1"), after=0, lines=10, wait_s=60))
    stream = f"LOGS_{CLUSTER}"

    async def is_waiting() -> bool:
        return (await streams.gateway.jetstream().stream_info(stream)).state.consumer_count == 1

    await until_async(is_waiting)
    await streams.printed(1)
    assert [line.text for line in (await waiting).lines] == ["line 0"]


async def test_a_wait_without_a_line_ends_with_an_empty_page(streams: Streams) -> None:
    found = await streams.readings.next_output(job("n1"), after=0, lines=10, wait_s=0.1)
    assert (found.lines, found.end) == ((), f"LOGS_{CLUSTER}:0")


async def test_no_consumer_is_left_behind(streams: Streams) -> None:
    await streams.measured("n1")
    await streams.readings.of_job(job("n1"), since_s=900)
    await streams.readings.next_output(job("n1"), after=0, lines=10, wait_s=0)
    for stream in (f"TELEMETRY_{CLUSTER}", f"LOGS_{CLUSTER}"):
        info = await streams.gateway.jetstream().stream_info(stream)
        assert info.state.consumer_count == 0


async def test_a_bus_that_does_not_answer_is_told(streams: Streams) -> None:
    await streams.gateway.close()
    with pytest.raises(UnreachableError):
        await streams.readings.output(job("n1"), lines=4)
