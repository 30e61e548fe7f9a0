"""The run of one contender on a fresh control plane: from an empty fleet until all is bound, or nothing changes."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import aiohttp

from muster_tools.bench.kubernetes import bounds
from muster_tools.bench.kubernetes.counting import Requests, requests_of
from muster_tools.bench.kubernetes.manifests import NAMESPACE, namespace
from muster_tools.bench.kubernetes.observing import Pod, Seen, observing
from muster_tools.bench.kubernetes.plan import Contender, Plan
from muster_tools.bench.kubernetes.result import BENCH, Crowd, Result
from muster_tools.local_kubernetes.child import Usage, usage_of
from muster_tools.local_kubernetes.fleet import Fleet, create_all, make_fleet
from muster_tools.local_kubernetes.nodes import NodeShape
from muster_tools.local_kubernetes.options import PlaneOptions
from muster_tools.local_kubernetes.plane import ControlPlane, control_plane
from muster_tools.local_kubernetes.programs import Programs

Source = Callable[[], Mapping[str, Usage]]


class Samples:
    """Peak memory and processor time of each process since `begin`."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._began = dict(source())
        self._peak_mib: dict[str, float] = {}
        self._cpu_s: dict[str, float] = {}

    def begin(self) -> None:
        """Reset the figures: the measurement begins here."""
        self._began = dict(self._source())
        self._peak_mib.clear()
        self._cpu_s.clear()

    def look(self) -> None:
        """Take one sample."""
        for name, usage in self._source().items():
            self._peak_mib[name] = max(self._peak_mib.get(name, 0.0), usage.rss_mib)
            before = self._began.get(name)
            self._cpu_s[name] = usage.cpu_s - (before.cpu_s if before is not None else 0.0)

    @property
    def peak_mib(self) -> dict[str, float]:
        """Return the peak memory by process."""
        return {name: round(value, 1) for name, value in self._peak_mib.items()}

    @property
    def cpu_s(self) -> dict[str, float]:
        """Return the processor time by process."""
        return {name: round(value, 2) for name, value in self._cpu_s.items()}


@asynccontextmanager
async def sampling(source: Source) -> AsyncIterator[Samples]:
    """Sample every SAMPLE_S while the block runs, and once more at its end."""
    samples = Samples(source)

    async def keep_looking() -> None:
        while True:
            samples.look()
            await asyncio.sleep(bounds.SAMPLE_S)

    looking = asyncio.create_task(keep_looking())
    try:
        yield samples
        samples.look()
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)


Say = Callable[[str], None]
Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Stage:
    """Environment of a contender. client: the admin's client, exempt from flow control, which creates the workloads."""

    plan: Plan
    plane: ControlPlane
    client: aiohttp.ClientSession
    fleet: Fleet
    directory: Path
    say: Say


class Running(Protocol):
    """A contender that is ready to place workloads."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Return remarks for reading the figures."""
        ...

    def key_of(self, pod: Pod) -> str:
        """Return the workload that a pod belongs to."""
        ...

    def usage(self) -> Mapping[str, Usage]:
        """Return the resource use of processes that do not belong to the control plane."""
        ...

    async def submit(self, seen: Seen) -> None:
        """Create every workload, and notify `seen` just before each."""
        ...

    async def afterwards(self) -> tuple[Crowd, ...]:
        """Run further measurements once all are bound."""
        ...


class Scenario(Protocol):
    """One contender: its requirements and its start in a stage."""

    @property
    def contender(self) -> Contender:
        """Return the contender."""
        ...

    def options(self, plan: Plan) -> PlaneOptions:
        """Return the options of its control plane."""
        ...

    def shape(self, plan: Plan) -> NodeShape:
        """Return the shape of its nodes."""
        ...

    def opened(self, stage: Stage) -> AbstractAsyncContextManager[Running]:
        """Start the contender; it ends with the block."""
        ...


async def play(
    scenario: Scenario, plan: Plan, directory: Path, *, located: Programs, say: Say, progress: Progress
) -> Result:
    """Start a control plane, fleet and contender, and measure. Raises LocalPlaneError, WatchLostError."""
    where = directory / scenario.contender.value
    async with (
        control_plane(where / "plane", scenario.options(plan), located=located) as plane,
        plane.client(connections=plan.connections + 8) as client,
    ):
        await create_all(client, [namespace(NAMESPACE)])
        fleet = await make_fleet(client, plan.nodes, shape=scenario.shape(plan))
        stage = Stage(plan, plane, client, fleet, where, say)
        empty = await calm(client)
        async with scenario.opened(stage) as running:
            return await _measured(scenario, stage, running, empty, progress)


async def _measured(scenario: Scenario, stage: Stage, running: Running, empty: Requests, progress: Progress) -> Result:
    def usage() -> Mapping[str, Usage]:
        return {**stage.plane.usage(), **running.usage(), BENCH: usage_of(os.getpid())}

    plan = stage.plan
    async with observing(stage.client, key_of=running.key_of) as seen, sampling(usage) as samples:
        before = await calm(stage.client)
        samples.begin()
        finished = await _placed(running, seen, plan, progress)
        samples.look()
        peak_mib, cpu_s = samples.peak_mib, samples.cpu_s
        after = await requests_of(stage.client)
        if finished:  # else bindings would continue and count
            await _all_run(seen)
    crowds = await running.afterwards()
    return Result(
        contender=scenario.contender,
        workloads=plan.workloads,
        placed=seen.placed,
        wall_s=seen.wall_s,
        latency_ms=seen.latency_ms(),
        peak_mib=peak_mib,
        cpu_s=cpu_s,
        start=before.since(empty),
        surge=after.since(before),
        finished=finished,
        running=seen.running,
        running_wall_s=seen.running_wall_s,
        bound_at_s=seen.bound_at_s(),
        crowds=crowds,
        notes=running.notes,
    )


async def calm(client: aiohttp.ClientSession) -> Requests:
    """Return the requests so far, once no client lists or writes any more."""
    loop = asyncio.get_running_loop()
    found, since_s, end_s = await requests_of(client), loop.time(), loop.time() + bounds.CALM_S_MAX
    while loop.time() - since_s < bounds.CALM_S and loop.time() < end_s:
        await asyncio.sleep(bounds.CALM_S / 3)
        now = await requests_of(client)
        if (now.lists, now.writes) != (found.lists, found.writes):
            since_s = loop.time()
        found = now
    return found


def _patience_s(seen: Seen) -> float:
    """Return the patience for a contender: twice its longest gap, because one that works in steps binds in bursts."""
    return max(bounds.SETTLED_S, 2 * seen.longest_gap_s)


async def _placed(running: Running, seen: Seen, plan: Plan, progress: Progress) -> bool:
    """Return whether the run ended by itself: all bound, or none for SETTLED_S; False if the limit ended it."""
    began_s = time.monotonic()
    submitting = asyncio.create_task(running.submit(seen))
    try:
        while seen.placed < plan.workloads:
            if submitting.done():
                submitting.result()  # raises the error of the submission
                if seen.last_bound_s and time.monotonic() - seen.last_bound_s > _patience_s(seen):
                    return True
            if time.monotonic() - began_s > plan.limit_s:
                return False
            progress(seen.placed)
            await asyncio.sleep(bounds.POLL_S)
        await submitting
        return True
    finally:
        submitting.cancel()
        await asyncio.gather(submitting, return_exceptions=True)


async def _all_run(seen: Seen) -> None:
    """Wait until every bound pod runs, or none started within RUN_SETTLED_S."""
    count, since_s = seen.running, time.monotonic()
    while seen.running < seen.placed and time.monotonic() - since_s < bounds.RUN_SETTLED_S:
        await asyncio.sleep(bounds.POLL_S)
        if seen.running != count:
            count, since_s = seen.running, time.monotonic()
