"""Publish the output of simulated jobs on its own stream while the agent leads. Lost output is not sent again.

One task visits all running jobs once per interval, a part of them at a time, so that thousands do not publish at once.
Messages are published without waiting for the broker; while it does not answer, none is queued.
"""

import asyncio
import math
from collections.abc import Sequence
from typing import Protocol

from muster.agent.core.core import AgentCore
from muster.agent.core.state import Attempt
from muster.bus.clock import TimeSource
from muster.bus.service import LeaderHandle
from muster.bus.staggered import TICK_S, StaggeredRounds
from muster.core import Core, Fact, Instant, seconds_between
from muster.core.seeded import uniform
from muster.core.settings import SimulationSettings
from muster.schemas.subjects import output_subject
from muster.schemas.telemetry import OutputLines


class Publisher(Protocol):
    """The part of a NATS connection that is used."""

    @property
    def is_connected(self) -> bool:
        """Return False while reconnecting."""
        ...

    async def publish(self, subject: str, payload: bytes = b"") -> None:
        """Publish without waiting for an acknowledgment."""
        ...


class Emission:
    """A sink that publishes output of simulated jobs, stamped by `clock`. An interval of 0 switches it off."""

    def __init__(self, *, cluster: str, settings: SimulationSettings, clock: TimeSource) -> None:
        self.dropped = 0
        """Messages not sent because the broker did not answer."""
        self._cluster = cluster
        self._seed = settings.seed
        self._jobs = StaggeredRounds(settings.output_interval_s)
        self._task: asyncio.Task[None] | None = None
        self._clock = clock

    async def open(self, core: Core, connection: Publisher, leader: LeaderHandle) -> None:  # noqa: ARG002 - the port
        """Start the emission."""
        assert isinstance(core, AgentCore), "the agent's emission follows the agent's core"
        if self._jobs.interval_s:
            self._task = asyncio.create_task(self._run(core, connection), name="agent emission")

    async def after_fold(self, facts: Sequence[Fact], *, last_seq: int, now: Instant) -> None:  # noqa: ARG002 - the port
        """Raise the error that stopped the emission, if any."""
        if self._task is not None and self._task.done():
            self._task.result()

    async def close(self) -> None:
        """Stop the emission."""
        if self._task is None:
            return
        task, self._task = self._task, None
        task.cancel()
        await asyncio.wait({task})
        if not task.cancelled():
            task.result()  # it ended early: raise its error

    async def emit(self, core: AgentCore, publisher: Publisher, *, at: Instant) -> int:
        """Publish the output of the jobs due in this tick. Return the number of messages sent."""
        messages = self._output(core, at)
        if not publisher.is_connected:
            self.dropped += len(messages)
            return 0
        for subject, body in messages:
            await publisher.publish(subject, body)
        return len(messages)

    async def _run(self, core: AgentCore, publisher: Publisher) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            await self.emit(core, publisher, at=self._clock.wall())

    def _output(self, core: AgentCore, at: Instant) -> list[tuple[str, bytes]]:
        messages: list[tuple[str, bytes]] = []
        for job_id in self._jobs.turn(lambda: tuple(core.running)):
            pods = core.running.get(job_id)
            if pods is not None:
                lines = output_of(pods, seed=self._seed, at=at)
                messages.append((output_subject(self._cluster, job_id), lines.model_dump_json().encode()))
        return messages


STEP_S = 0.25  # run time of one step of the loop


def output_of(pods: Attempt, *, seed: int, at: Instant) -> OutputLines:
    """Return what replica 0 printed by `at`: one line with a falling, noisy loss."""
    step = int(max(0.0, seconds_between(pods.started_at, at)) / STEP_S)
    loss = 0.8 + 9.0 / math.sqrt(1 + step) + 0.1 * uniform(seed, pods.job_id, pods.attempt, step)
    return OutputLines(job_id=pods.job_id, attempt=pods.attempt, at=at, lines=(f"step {step} loss {loss:.4f}",))
