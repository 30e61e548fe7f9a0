"""Several clusters for tests: a centre and cells with brokers of their own, and links between them that can be cut."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import httpx

from kit.stack.federated_invariants import violations_across
from kit.stack.links import Link, linked
from kit.stack.living import TEAM, Harness, job
from kit.waiting import PATIENCE_S, until_async
from muster.bus.access import ADMIN_TOOLS
from muster.bus.connection import connect_once
from muster.bus.nats_log import NatsLog
from muster.bus.settings import Settings, load_settings
from muster.client import Muster, UnavailableError
from muster.core.fact import Fact
from muster.schemas.facts.queue import QueueSpec
from muster.schemas.job import JobSpec
from muster.schemas.subjects import LogName, cluster_log
from muster.stack.cells import CELLS, LEAF_PORT
from muster.stack.options import StartOptions
from muster.stack.ports import LOOPBACK, free_port
from muster.stack.up import start

READ_IDLE_S = 0.5
LABEL = "to"
"""A label that `routed_by_label` looks at."""


def routed_by_label(first: str, *others: str) -> dict[str, object]:
    """Rules: jobs that carry the label go to that cluster alone, all others to the first."""
    rules = [{"name": f"to-{name}", "labels": {LABEL: name}, "clusters": [{"cluster": name}]} for name in others]
    return {"policy": {"rules": [*rules, {"name": "others", "clusters": [{"cluster": first}]}]}}


def job_for(cluster: str, name: str, *, run_s: float = 0.5, **fields: object) -> JobSpec:
    """A job that those rules lead there."""
    spec = job(name, run_s=run_s, **fields)
    return spec.model_copy(update={"labels": {**spec.labels, LABEL: cluster}})


@dataclass
class Federation(Harness):
    """A running centre with its cells. links: by cluster."""

    links: dict[str, Link] = field(default_factory=dict)

    def cell(self, cluster: str) -> Settings:
        """The settings of a cell, as its own services read them."""
        return load_settings(self.settings.state_dir / CELLS / cluster, {})

    async def at_cell(self, cluster: str) -> list[Fact]:
        """Every fact of a cluster's log, read where it is written."""
        return await _facts(self.cell(cluster), cluster_log(cluster))

    async def copied(self, cluster: str, *, up_to: int) -> list[Fact]:
        """The facts of a cluster's log as the centre has them, once it has them up to this sequence."""

        async def has_them() -> bool:
            found = await _facts(self.settings, cluster_log(cluster))
            return bool(found) and found[-1].seq >= up_to

        await until_async(has_them)
        return await _facts(self.settings, cluster_log(cluster))

    async def get(self, path: str) -> dict[str, list[dict[str, object]]]:
        """An answer of the HTTP API."""
        headers = {"Authorization": f"Bearer {self.stack.state.token.read_text().strip()}"}
        async with httpx.AsyncClient(base_url=self.stack.endpoints.http, timeout=PATIENCE_S) as client:
            answer = await client.get(path, headers=headers)
        assert answer.status_code == httpx.codes.OK, answer.text
        return cast("dict[str, list[dict[str, object]]]", answer.json())

    async def violations_everywhere(self, accepted: Sequence[str]) -> list[str]:
        """Breaches of the invariants over all clusters, of jobs that have all ended."""
        logs = {cluster: await self.at_cell(cluster) for cluster in self.settings.clusters}
        return violations_across(logs, await self.federation_facts(), accepted=accepted)


async def _facts(settings: Settings, log: LogName) -> list[Fact]:
    connection = await connect_once(settings, ADMIN_TOOLS)
    try:
        reader = await NatsLog(connection, log).reader(after_seq=0)
        facts: list[Fact] = []
        head, seen = await reader.head(), 0
        while seen < head:
            batch = await reader.read(limit=1000, timeout_s=READ_IDLE_S)
            facts += batch.facts
            seen = batch.last_seq
        await reader.close()
        return facts
    finally:
        await connection.close()


@asynccontextmanager
async def open_federation(
    state_dir: Path,
    *clusters: str,
    nodes: int = 8,
    federation: Mapping[str, object] | None = None,
    cells: Mapping[str, dict[str, object]] | None = None,
) -> AsyncIterator[Federation]:
    """A federation of small simulated clusters with the tests' queue in each. federation: fields of its settings."""
    leaf = free_port()
    async with AsyncExitStack() as stack:
        links = {name: await stack.enter_async_context(linked(target=leaf)) for name in clusters}
        options = StartOptions(
            state_dir=state_dir,
            clusters=clusters,
            cells=dict(cells or {}),
            links={name: f"nats-leaf://{LOOPBACK}:{link.port}" for name, link in links.items()},
            any_ports=True,
            ports={LEAF_PORT: leaf},
            settings={
                "fleet": {"nodes": nodes, "gpus_per_node": 8},
                "simulation": {"start_s": 0.05, "run_s": 1.0, "job_failure_share": 0.0, "telemetry_interval_s": 0},
                "bus": {"lease_ttl_s": 1.0},
                "federation": dict(federation or {}),
            },
            sync_interval_s=120.0,
        )
        running = await start(options)
        stack.push_async_callback(running.stop)
        muster = await stack.enter_async_context(Muster.from_state_dir(state_dir))
        await muster.set_queue(QueueSpec(name=TEAM))
        await until_async(lambda: _is_everywhere(muster, clusters))
        yield Federation(running, muster, links)


async def _is_everywhere(muster: Muster, clusters: tuple[str, ...]) -> bool:
    """The queue in every cluster, and every cluster's nodes."""
    try:
        queues = {queue.cluster for queue in await muster.queues() if queue.name == TEAM}
        nodes = {node.cluster for node in await muster.nodes()}
    except UnavailableError:  # no scheduler leads yet
        return False
    return queues == nodes == set(clusters)
