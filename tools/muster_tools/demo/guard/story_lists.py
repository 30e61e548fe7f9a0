"""Excessive LISTs: the guard names a program that polls secrets by its user agent; then the program watches instead."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp

from muster.cli.guard_audit import TOKEN, files
from muster.guard.core.checks import LISTS
from muster.guard.core.look import Look
from muster_tools.demo.guard.limits import AUDIT_WAIT_S, POLLED_SECRETS, POLLS_PER_S, POLLS_S, READ_BYTES
from muster_tools.demo.guard.result import Measure, Story
from muster_tools.demo.guard.stage import READER, USERS, fill, let_read, observing, said, stage
from muster_tools.local_kubernetes.options import PlaneOptions
from muster_tools.local_kubernetes.plane import ControlPlane
from muster_tools.local_kubernetes.ports import LOOPBACK, free_ports

AGENT = "fleet-doctor/1.2"
_PATH = "/api/v1/secrets"
_APART = 5_000  # from where the control plane looks for its own ports
_SECRETS, _SECRET_BYTES = POLLED_SECRETS
_HASTE = ("--audit-webhook-batch-max-wait=500ms", "--audit-webhook-initial-backoff=500ms")


async def listing(folder: Path, *, seed: int) -> Story:
    """Measure a LIST ten times a second, then one LIST and a watch. folder: for the audit policy."""
    (port,) = free_ports(1, seed=seed + _APART)
    flags = (*files(folder, url=f"http://{LOOPBACK}:{port}", token=os.urandom(16).hex()), *_HASTE)
    token = folder / TOKEN
    async with stage(PlaneOptions(kwok=False, users=USERS, apiserver_flags=flags)) as plane:
        await let_read(plane)
        await fill(plane, secrets=_SECRETS, size_bytes=_SECRET_BYTES)
        before, sent_before = await _seen_during(plane, _poll, port, token)
        after, sent_after = await _seen_during(plane, _watch, port, token)
    return Story(
        name="lists",
        title="Excessive LISTs",
        before=f"{AGENT} lists all secrets {POLLS_PER_S:.0f} times a second",
        after=f"{AGENT} lists once and watches",
        measures=(
            Measure("lists_per_minute", "its LISTs a minute", _rate(before), _rate(after)),
            Measure("sent_mib_per_minute", "sent to it, MiB a minute", sent_before, sent_after),
            Measure("cpu_cores", "processor of the API server, cores", _cpu(before), _cpu(after)),
        ),
        advice=said(before, LISTS),
        advice_after=said(after, LISTS),
    )


_Client = Callable[[aiohttp.ClientSession], Awaitable[int]]


async def _seen_during(plane: ControlPlane, run: _Client, port: int, token: Path) -> tuple[Look, float]:
    """Return the guard's observation while a client runs, and MiB per minute sent to it."""
    async with observing(plane, audit_port=port, audit_token=token) as observer, plane.client(READER) as client:
        client.headers["User-Agent"] = AGENT
        await observer.look()
        received = await run(client)
        await asyncio.sleep(AUDIT_WAIT_S)
        return await observer.look(), received / 2**20 * 60 / POLLS_S


async def _poll(client: aiohttp.ClientSession) -> int:
    """Poll for POLLS_S and return the bytes received."""
    received, loop = 0, asyncio.get_running_loop()
    end_s = loop.time() + POLLS_S
    while (began_s := loop.time()) < end_s:
        async with client.get(_PATH) as answer:
            received += len(await answer.read())
        await asyncio.sleep(max(0.0, began_s + 1 / POLLS_PER_S - loop.time()))
    return received


async def _watch(client: aiohttp.ClientSession) -> int:
    """Send one LIST, watch from its version for POLLS_S, and return the bytes received."""
    async with client.get(_PATH) as answer:
        body = await answer.read()
        version = (await answer.json())["metadata"]["resourceVersion"]
    received = len(body)
    query = {"watch": "1", "resourceVersion": version, "timeoutSeconds": str(int(POLLS_S))}
    async with client.get(_PATH, params=query) as answer:
        async for chunk in answer.content.iter_chunked(READ_BYTES):
            received += len(chunk)
    return received


def _rate(look: Look) -> float:
    return sum(client.per_minute for client in look.clients if client.agent == AGENT)


def _cpu(look: Look) -> float:
    return sum(replica.cpu_cores for replica in look.up)
