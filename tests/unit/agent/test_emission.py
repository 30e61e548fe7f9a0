"""What simulated jobs print: who speaks when, and what is said."""

import asyncio
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from muster.bus.staggered import TICK_S, StaggeredRounds

from kit.agent import VirtualAgent, job, slot
from muster.agent.core.core import AgentCore
from muster.agent.emission import Emission, output_of
from muster.bus.clock import FakeTime
from muster.bus.service import LeaderHandle
from muster.core import Instant
from muster.core.settings import SimulationSettings
from muster.schemas.job import Slot
from muster.schemas.telemetry import OutputLines


@dataclass
class Wire:
    """A connection that keeps what it is given."""

    is_connected: bool = True
    sent: list[tuple[str, bytes]] = field(default_factory=list)
    fails: bool = False
    spoke: asyncio.Event = field(default_factory=asyncio.Event)

    async def publish(self, subject: str, payload: bytes = b"") -> None:
        if self.fails:
            raise RuntimeError("outbound buffer limit")
        self.sent.append((subject, payload))
        self.spoke.set()


@pytest.fixture
def agent() -> VirtualAgent:
    """Two nodes; job 1 has GPUs 0 and 1 of the first, jobs 2 and 3 share GPU 2 of it."""
    agent = VirtualAgent()
    agent.settle()
    agent.launch(job(1, run_s=1000.0), slot(1, 0, 1))
    for number, milli in ((2, 300), (3, 200)):
        agent.launch(
            job(number, run_s=1000.0), Slot(group=0, replica=0, node="gpu-0001", devices=(2,), gpu_milli=milli)
        )
    agent.advance(5)
    return agent


async def a_round(core: AgentCore, wire: Wire, **settings: float) -> Emission:
    emission = Emission(cluster="local", settings=SimulationSettings.model_validate(settings), clock=FakeTime())
    longest_s = max(settings.values())
    for _ in range(round(longest_s / TICK_S)):
        await emission.emit(core, wire, at=Instant(1))
    return emission


def test_output_falls_with_the_steps(agent: VirtualAgent) -> None:
    pods = agent.core.running[job(1).id]
    early = output_of(pods, seed=1, at=Instant(pods.started_at))
    late = output_of(pods, seed=1, at=Instant(pods.started_at + 10**12))
    assert early.lines[0].startswith("step 0 loss 9.8")
    assert late.lines[0].startswith("step 4000 loss 0.9") or late.lines[0].startswith("step 4000 loss 1.0")


async def test_every_running_job_speaks_once_per_interval(agent: VirtualAgent) -> None:
    wire = Wire()
    await a_round(agent.core, wire, output_interval_s=2.0)
    assert sorted(subject for subject, _ in wire.sent) == sorted(f"logs.local.{job(n).id}" for n in (1, 2, 3))
    body = dict(wire.sent)[f"logs.local.{job(1).id}"]
    assert OutputLines.model_validate_json(body).job_id == job(1).id


async def test_an_interval_of_zero_switches_it_off(agent: VirtualAgent) -> None:
    emission = Emission(cluster="local", settings=SimulationSettings(output_interval_s=0.0), clock=FakeTime())
    await emission.open(agent.core, Wire(), LeaderHandle())  # type: ignore[arg-type] - all that it needs of a connection
    assert [task for task in asyncio.all_tasks() if task.get_name() == "agent emission"] == []
    assert await emission.emit(agent.core, Wire(), at=Instant(1)) == 0


def test_thousands_do_not_speak_in_one_burst() -> None:
    walk, names = StaggeredRounds(10.0), [str(number) for number in range(1750)]
    turns = [len(walk.turn(lambda: names)) for _ in range(40)]
    assert sum(turns) == 1750
    assert set(turns) == {43, 44}


async def test_while_the_broker_is_away_messages_are_dropped_and_counted(agent: VirtualAgent) -> None:
    wire = Wire(is_connected=False)
    emission = await a_round(agent.core, wire, output_interval_s=1.0)
    assert (wire.sent, emission.dropped) == ([], 3)


async def test_what_stops_the_emission_stops_the_service(agent: VirtualAgent) -> None:
    emission = Emission(
        cluster="local",
        settings=SimulationSettings(output_interval_s=TICK_S),
        clock=FakeTime(),
    )
    await emission.open(agent.core, Wire(fails=True), LeaderHandle())  # type: ignore[arg-type] - all that it needs of a connection
    (task,) = (task for task in asyncio.all_tasks() if task.get_name() == "agent emission")
    await asyncio.wait({task})
    with pytest.raises(RuntimeError, match="outbound"):
        await emission.after_fold((), last_seq=1, now=agent.now)
    with pytest.raises(RuntimeError, match="outbound"):
        await emission.close()


async def test_jobs_speak_on_though_nothing_is_folded(agent: VirtualAgent) -> None:
    wire, clock = Wire(), FakeTime(wall_ns=77)
    settings = SimulationSettings(output_interval_s=TICK_S)
    emission = Emission(cluster="local", settings=settings, clock=clock)
    await emission.open(agent.core, wire, LeaderHandle())  # type: ignore[arg-type] - all that it needs of a connection
    async with asyncio.timeout(10):
        await wire.spoke.wait()
    await emission.close()
    assert OutputLines.model_validate_json(wire.sent[0][1]).at == 77


async def test_closing_leaves_nothing_running(agent: VirtualAgent) -> None:
    emission = Emission(cluster="local", settings=SimulationSettings(), clock=FakeTime())
    await emission.open(agent.core, Wire(), LeaderHandle())  # type: ignore[arg-type] - all that it needs of a connection
    await emission.close()
    await emission.close()
    assert [task.get_name() for task in asyncio.all_tasks() if task.get_name() == "agent emission"] == []


@given(st.integers(0, 50), st.integers(1, 20))
def test_a_round_is_one_turn_each_in_even_slices(count: int, ticks: int) -> None:
    walk, names = StaggeredRounds(ticks * TICK_S), [str(number) for number in range(count)]
    for _ in range(2):
        turns = [list(walk.turn(lambda: names)) for _ in range(ticks)]
        assert [name for turn in turns for name in turn] == names
        assert max(map(len, turns)) - min(map(len, turns)) <= 1
