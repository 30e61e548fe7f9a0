"""Every query of dashboards, rules and alerts against what a running stack exposes, and against Prometheus itself."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
import yaml

from kit.observe.promql import Selector, selectors
from kit.observe.queries import PROMETHEUS, RULES, Query, board_queries, recorded, rule_queries
from kit.ports import own_port
from kit.stack.observed import Exposed, ObservedStack, observed_stack
from kit.waiting import until_async

pytestmark = [pytest.mark.connected, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(240)]

SCRAPED = {"job", "instance"}
OF_PROMETHEUS = {
    "up": SCRAPED,
    "ALERTS": {"alertname", "alertstate", "severity", "tier"},
}
UNSEEN = {
    ("outcome", "failed"),  # of a scale choice
    ("outcome", "dead"),
    ("outcome", "lost"),
    ("alertstate", "firing"),
}
"""Values of fixed vocabularies that a stack in which all goes well does not show."""

QUIET = (
    "ALERTS{",
    "muster_append_refused_total",
    "muster_append_backoff_seconds",
    "muster_attachments_failed_total",
    "muster_drafts_in_quarantine",
)
"""In panels that show trouble alone: nothing, where there is none."""

ANSWERS_S_MAX = 90.0


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stack(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ObservedStack]:
    async with observed_stack(Path(tmp_path_factory.mktemp("observed")) / "state") as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def exposed(stack: ObservedStack) -> Exposed:
    async def is_looked_at() -> bool:  # stores and durable consumers are looked at every few seconds
        return "muster_consumer_pending_messages" in (await stack.exposed()).labels

    await until_async(is_looked_at)
    return await stack.exposed()


def faults(query: Query, exposed: Exposed) -> list[str]:
    """What a query names that there is not."""
    made = recorded()
    found = []
    for one in selectors(query.expr):
        if one.metric == "vector":
            continue
        labels = OF_PROMETHEUS.get(one.metric) or made.get(one.metric) or exposed.labels.get(one.metric)
        if labels is None:
            found.append(f"{query.where}: nobody exposes {one.metric}")
            continue
        known = labels if one.metric in made else labels | SCRAPED
        asked = one.wanted | {label for label, _, _ in one.matchers}
        found += [f"{query.where}: {one.metric} has no label {label}" for label in asked - known]
        found += [f"{query.where}: {one.metric} never had {value}" for value in _unknown_values(one, exposed)]
    return found


def _unknown_values(one: Selector, exposed: Exposed) -> list[str]:
    """Values that are asked for literally (one, or several with `|`) and that nothing shows."""
    if one.metric in OF_PROMETHEUS or one.metric in recorded():
        return []
    jobs = {job["job_name"] for job in yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text())["scrape_configs"]}
    unknown = []
    for label, operator, value in one.matchers:
        if operator not in ("=", "=~") or not value.replace("|", "").replace("-", "").replace(".", "").isalnum():
            continue
        if operator == "=~" and "." in value:
            continue
        seen = jobs if label == "job" else exposed.values.get((one.metric, label), set())
        wanted = value.split("|") if operator == "=~" else [value]
        unknown += [f'{label}="{each}"' for each in wanted if each not in seen and (label, each) not in UNSEEN]
    return unknown


async def test_every_query_names_what_is_exposed(exposed: Exposed) -> None:
    assert [fault for query in (*board_queries(), *rule_queries()) for fault in faults(query, exposed)] == []


async def test_a_query_that_names_nothing_that_is_there_is_found(exposed: Exposed) -> None:
    wrong = {
        "muster_nowhere": "nobody exposes muster_nowhere",
        "sum by (team) (muster_leading)": "muster_leading has no label team",
        'muster_leading{service="schedular"}': 'muster_leading never had service="schedular"',
        'muster_decide_seconds_bucket{le="0.06"}': 'muster_decide_seconds_bucket never had le="0.06"',
    }
    for expr, fault in wrong.items():
        assert faults(Query("here", expr), exposed) == [f"here: {fault}"]


async def test_durations_lead_to_traces(exposed: Exposed) -> None:
    assert exposed.traces
    assert all(len(trace) == 32 for trace in exposed.traces)


async def test_labels_stay_few(exposed: Exposed) -> None:
    for (metric, label), values in exposed.values.items():
        assert len(values) <= 40, f"{metric} has {len(values)} values of {label}"
    series = sum(len(values) for (_, label), values in exposed.values.items() if label not in ("le", "route"))
    assert series < 1_500


async def test_prometheus_works_out_every_query_and_rule(stack: ObservedStack, tmp_path: Path) -> None:
    async with prometheus(stack, tmp_path) as server:

        async def is_worked_out() -> bool:
            groups = (await server.get("/api/v1/rules")).json()["data"]["groups"]
            return all(rule["lastEvaluation"] > "0002" for group in groups for rule in group["rules"])

        await until_async(is_worked_out)
        rules = (await server.get("/api/v1/rules")).json()["data"]["groups"]
        assert [rule["name"] for group in rules for rule in group["rules"] if rule["health"] != "ok"] == []
        unanswered = [query for query in board_queries() if not any(word in query.expr for word in QUIET)]

        async def are_answered() -> bool:  # rates need two pages, gauges a leader that was looked at
            unanswered[:] = [query for query in unanswered if not await _result(server, query)]
            return not unanswered

        with suppress(TimeoutError):
            await until_async(are_answered, patience_s=ANSWERS_S_MAX)
        assert unanswered == []


def _at_once(file: Path, folder: Path) -> Path:
    """The rules of a file, all worked out every second."""
    rules = yaml.safe_load(file.read_text())
    for group in rules["groups"]:
        group.pop("interval", None)
    copy = folder / file.name
    copy.write_text(yaml.safe_dump(rules))
    return copy


async def _result(server: httpx.AsyncClient, query: Query) -> list[Any]:
    answer = await server.get("/api/v1/query", params={"query": query.expr})
    assert answer.status_code == 200, f"{query.where}: {answer.text}"
    result: list[Any] = answer.json()["data"]["result"]
    return result


@asynccontextmanager
async def prometheus(stack: ObservedStack, folder: Path) -> AsyncIterator[httpx.AsyncClient]:
    """Prometheus with the shipped rules, that scrapes this stack every second."""
    program = shutil.which("prometheus")
    assert program, "prometheus is needed: on Debian `apt-get install prometheus`; .ci/run does that"
    config = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text())
    targets = {"muster": stack.service_pages, "muster-api": (stack.api_page,)}
    config["global"] = {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}
    config["rule_files"] = [str(_at_once(file, folder)) for file in RULES]
    config["scrape_configs"] = [
        {"job_name": job, "static_configs": [{"targets": [url.split("/")[2] for url in urls]}]}
        for job, urls in targets.items()
    ]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    port = own_port()
    with (folder / "said.log").open("wb") as said:
        process = await asyncio.create_subprocess_exec(
            program, f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}", "--enable-feature=exemplar-storage",
            stdout=said, stderr=said,
        )  # fmt: skip
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:

            async def is_up() -> bool:
                assert process.returncode is None, (folder / "said.log").read_text()[-2000:]
                try:
                    return (await client.get("/-/ready")).status_code == 200
                except httpx.TransportError:
                    return False

            await until_async(is_up)
            yield client
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
