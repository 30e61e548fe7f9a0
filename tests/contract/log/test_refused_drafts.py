"""Drafts that a log refuses one by one: which they are is told, nothing of their batch stands, the others can go on."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from contract.log.suite import fold
from kit.memory_log import MemoryLog
from kit.servers import CLUSTER, DECLARATIONS, NatsServer, running_nats
from muster.bus.clock import SystemTime
from muster.bus.connection import WatchingClient
from muster.bus.dead import HEADER_ERROR, HEADER_SUBJECT
from muster.bus.jsapi import message_at, stream_info
from muster.bus.nats_log import NatsLog
from muster.bus.ports import DraftsRefusedError, Log, Refusal
from muster.bus.settings import Settings
from muster.bus.streams import bootstrap
from muster.core.fact import Draft
from muster.schemas.facts.health import HealthMoved
from muster.schemas.facts.node import WithholdRequested
from muster.schemas.subjects import DEAD_STREAM, cluster_log, fact_subject

pytestmark = pytest.mark.connected

LOG = cluster_log(CLUSTER)
DECLARED = tuple(replace(one, withholds=False) if one.service == "health" else one for one in DECLARATIONS)
"""The broker knows a health that withholds nothing."""


def suspect(node: str) -> Draft:
    return Draft("node", node, "suspect", HealthMoved(node=node))


def forbidden(node: str) -> Draft:
    return Draft("node", node, "withhold-requested", WithholdRequested(request_id=f"w-{node}"))


class Bench:
    """A log on which health may not publish `withhold-requested`."""

    def __init__(self, log: Log, server: NatsServer | None) -> None:
        self.log = log
        self._server = server

    async def letters(self) -> list[tuple[str, str]]:
        """Subject and error of the dead letters of drafts."""
        if self._server is None:
            assert isinstance(self.log, MemoryLog)
            return list(self.log.refused.items())
        client = await self._server.connect("admin-tools")
        try:
            info = await stream_info(client, DEAD_STREAM)
            assert info is not None
            found = [await message_at(client, DEAD_STREAM, seq) for seq in range(1, info.state.last_seq + 1)]
            return [(one.headers[HEADER_SUBJECT], one.headers[HEADER_ERROR]) for one in found if one is not None]
        finally:
            await client.close()


@pytest.fixture(scope="module")
def server() -> Iterator[NatsServer]:
    with running_nats(declarations=DECLARED) as server:
        yield server


@asynccontextmanager
async def nats_bench(server: NatsServer, directory: Path) -> AsyncIterator[Bench]:
    connection = await server.connect("bootstrap")
    await bootstrap(connection, Settings(state_dir=directory, credentials_dir=server.credentials_dir, cluster=CLUSTER))
    await connection.close()
    health, reader = WatchingClient(), await server.connect("reader")

    async def told(error: Exception) -> None:
        health.refused.saw(error)

    await health.connect(
        server.url,
        user_credentials=str(server.credentials("health")),
        inbox_prefix="_INBOX.health",
        allow_reconnect=False,
        error_cb=told,
    )
    try:
        yield Bench(NatsLog(reader, LOG, connections={"health": health}), server)
    finally:
        await health.close()
        await reader.close()


@pytest.fixture(params=["memory", "nats"])
async def bench(request: pytest.FixtureRequest, server: NatsServer, tmp_path: Path) -> AsyncIterator[Bench]:
    if request.param == "nats":
        async with nats_bench(server, tmp_path) as bench:
            yield bench
        return
    log = MemoryLog(LOG, clock=SystemTime().wall)
    log.forbidden = {
        fact_subject(LOG, writer="health", kind="node", subject_id=node, name="withhold-requested")
        for node in ("n1", "n2", "n3")
    }
    yield Bench(log, None)


async def test_it_is_told_which_drafts_are_refused_and_the_others_can_go_on(bench: Bench) -> None:
    before = len(await fold(bench.log))
    pen = bench.log.appender("health")
    term = before + 1
    started = await pen.start_term(term=term, holder="test")
    drafts = [suspect("n1"), forbidden("n1"), suspect("n2"), forbidden("n2")]

    with pytest.raises(DraftsRefusedError) as refusal:
        await pen.append(drafts, folded_seq=started.last_seq)
    refused = [(one.index, one.reason) for one in refusal.value.refused]
    await pen.append([suspect("n1"), suspect("n2")], folded_seq=started.last_seq)

    assert refused == [(1, Refusal.PERMISSION), (3, Refusal.PERMISSION)]
    facts = await fold(bench.log, after_seq=started.last_seq)
    assert [(fact.subject_id, fact.name) for fact in facts[1:]] == [("n1", "suspect"), ("n2", "suspect")]


async def test_a_refused_draft_has_one_dead_letter_however_often_it_is_reported(bench: Bench) -> None:
    pen = bench.log.appender("health")
    already = len(await bench.letters())
    for _ in range(3):
        await pen.report_refused(forbidden("n3"), "nobody may\npublish there")
    ((subject, error),) = (await bench.letters())[already:]
    assert subject.endswith(".health.node.n3.withhold-requested")
    assert error.split() == ["nobody", "may", "publish", "there"]
