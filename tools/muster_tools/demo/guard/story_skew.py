"""Skew: after a restart every connection stays at the other API server, and so does the memory."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from muster.guard.core.checks import MEMORY_SKEW, skew_of
from muster.guard.core.look import Look
from muster_tools.demo.guard.balancer import Balancer
from muster_tools.demo.guard.filling import fill, let_read
from muster_tools.demo.guard.limits import (
    GOAWAY_CHANCE,
    NEVER_S,
    RENEWAL_S,
    SKEW_CLIENTS,
    SKEW_LIST_S,
    SKEW_S,
    SKEW_SECRETS,
    SKEW_SPREAD_S,
)
from muster_tools.demo.guard.result import Measure, Story
from muster_tools.demo.guard.skew_clients import Client, kubectls, ours
from muster_tools.demo.guard.stage import READER, USERS, eyes, said, stage
from muster_tools.local_kubernetes.access import write_kubeconfig
from muster_tools.local_kubernetes.options import PlaneOptions
from muster_tools.local_kubernetes.plane import ControlPlane
from muster_tools.local_kubernetes.programs import KUBECTL

_RESTARTED = "kube-apiserver-1"
_STAYED_INDEX, _RESTARTED_INDEX = 0, 1
_SECRETS, _SECRET_BYTES = SKEW_SECRETS


@dataclass(frozen=True, slots=True)
class _Run:
    """Percent of connections, and of requests, that came back to the API server that was restarted."""

    look: Look
    http1: float
    http2: float
    requests: float


async def skew(*, emulated_version: str) -> Story:
    """Before: nothing renews connections; after: goaway-chance at the API servers, and our clients renew their own."""
    before = await _run(emulated_version, flags=(), age_s=NEVER_S)
    half = await _run(emulated_version, flags=(f"--goaway-chance={GOAWAY_CHANCE}",), age_s=NEVER_S)
    after = await _run(emulated_version, flags=(f"--goaway-chance={GOAWAY_CHANCE}",), age_s=RENEWAL_S)
    return Story(
        name="skew",
        title=f"Skew: {2 * SKEW_CLIENTS} clients behind a load balancer, one of two API servers restarted",
        before="connections stay where they are",
        after=f"--goaway-chance={GOAWAY_CHANCE}, and our clients renew connections after {RENEWAL_S:g} s",
        measures=(
            Measure("memory_ratio", "largest memory over smallest", skew_of(before.look), skew_of(after.look)),
            Measure("stayed_mib", "memory of the one that stayed, MiB", _mib(before, 0), _mib(after, 0)),
            Measure("restarted_mib", "memory of the restarted one, MiB", _mib(before, 1), _mib(after, 1)),
            Measure("requests_percent", "requests at the restarted one, %", before.requests, after.requests),
            Measure("http2_percent", "HTTP/2 connections at it (kubectl), %", before.http2, after.http2),
            Measure("http1_percent", "HTTP/1.1 connections at it (ours), %", before.http1, after.http1),
            Measure("http1_percent_goaway", "the same with goaway-chance alone, %", before.http1, half.http1),
        ),
        advice=said(before.look, MEMORY_SKEW),
        advice_after=said(after.look, MEMORY_SKEW),
        conclusion="goaway-chance moves HTTP/2 clients alone; HTTP/1.1 clients, as Python's are, have to renew theirs",
    )


async def _run(emulated_version: str, *, flags: tuple[str, ...], age_s: float) -> _Run:
    options = PlaneOptions(
        kwok=False, apiservers=2, emulated_version=emulated_version, users=USERS, apiserver_flags=flags
    )
    async with AsyncExitStack() as stack:
        plane = await stack.enter_async_context(stage(options))
        await let_read(plane)
        await fill(plane, secrets=_SECRETS, size_bytes=_SECRET_BYTES)
        await plane.stop(_RESTARTED)
        first, second = [await stack.enter_async_context(Balancer(plane.servers)) for _ in range(2)]
        old = await stack.enter_async_context(ours(_config(plane, first, "ours"), SKEW_CLIENTS, age_s=age_s))
        new = await stack.enter_async_context(
            kubectls(plane.program(KUBECTL), _config(plane, second, "kubectls"), SKEW_CLIENTS)
        )
        clients = [*old, *new]
        await asyncio.gather(*(client.send("/version") for client in clients))
        await plane.start(_RESTARTED)
        observer = await stack.enter_async_context(eyes(plane))
        before = await observer.look()
        await _all_run(clients)
        look = await observer.look()
        return _Run(look, _percent(first), _percent(second), _requests_percent(before, look))


def _config(plane: ControlPlane, balancer: Balancer, name: str) -> Path:
    return write_kubeconfig(
        plane.directory / f"{name}.kubeconfig",
        server=balancer.url,
        ca=plane.ca,
        user=READER,
        token=plane.token(READER),
    )


async def _all_run(clients: Sequence[Client]) -> None:
    async with asyncio.TaskGroup() as tasks:
        for number, client in enumerate(clients):
            first_s = SKEW_SPREAD_S + SKEW_LIST_S * number / len(clients)
            tasks.create_task(client.run(SKEW_S, first_list_s=first_s))


def _percent(balancer: Balancer) -> float:
    every = sum(balancer.open.values())
    return balancer.open[_RESTARTED_INDEX] / every * 100 if every else 0.0


def _requests_percent(before: Look, after: Look) -> float:
    """Of the requests that both answered between two looks."""
    grown = [
        (later.page.requests if later.page else 0.0) - (earlier.page.requests if earlier.page else 0.0)
        for earlier, later in zip(before.replicas, after.replicas, strict=True)
    ]
    return grown[_RESTARTED_INDEX] / sum(grown) * 100 if sum(grown) else 0.0


def _mib(run: _Run, index: int) -> float:
    return run.look.replicas[index].memory_mib
