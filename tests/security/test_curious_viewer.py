"""A token of one team, held by somebody who wants to know what other teams run, and with which secrets."""

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass

import httpx
import pytest
import pytest_asyncio

from kit.stack.living import Harness, job, open_harness, options
from muster.gateway.http import document
from muster.schemas.access import Role, TokenRecord
from muster.schemas.job import PodOptions

pytestmark = [pytest.mark.connected, pytest.mark.timeout(240), pytest.mark.asyncio(loop_scope="module")]

MARKER = "hunter2"
NAME = "secret-project"
READS = sorted(path for path, routes in document()["paths"].items() if "get" in routes)  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Stage:
    """A stack where team physics ran a job with a secret in its command and in its environment."""

    harness: Harness
    job_id: str
    tokens: dict[str, str]

    def client(self, whose: str) -> httpx.AsyncClient:
        headers = {"Authorization": f"Bearer {self.tokens[whose]}"}
        return httpx.AsyncClient(base_url=self.harness.stack.endpoints.http, headers=headers, timeout=30)

    async def read(self, whose: str, path: str) -> httpx.Response:
        async with self.client(whose) as client:
            return await client.get(path)

    async def followed(self, whose: str, path: str) -> bytes:
        """What a stream of facts says until the job has ended."""
        found = b""
        async with self.client(whose) as client, client.stream("GET", path) as answer:
            async for chunk in answer.aiter_bytes():
                found += chunk
                if b"succeeded" in found or b"event: end" in found:
                    break
        return found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    asked = options(tmp_path_factory.mktemp("stack"), nodes=2)
    limits = {"access": {"submitter": {"other_teams": "nothing"}}}
    async with open_harness(asked.model_copy(update={"settings": {**asked.settings, **limits}})) as harness:
        secret = PodOptions(env={"TOKEN": MARKER})
        spec = job(NAME).model_copy(update={"command": ("run", f"--key={MARKER}"), "pod": secret})
        submitted = await harness.muster.submit(spec)
        await harness.ended([submitted.id])
        records = {
            "stranger": TokenRecord(principal="stranger", role=Role.VIEWER, teams=("chemistry",)),
            "colleague": TokenRecord(principal="colleague", role=Role.VIEWER, teams=(spec.team,)),
            "operator": TokenRecord(principal="operator", role=Role.OPERATOR),
            "outsider": TokenRecord(principal="outsider", role=Role.SUBMITTER, teams=("chemistry",)),
        }
        tokens = {name: (await harness.muster.make_token(record)).token for name, record in records.items()}
        yield Stage(harness, submitted.id, tokens)


def filled(path: str, job_id: str) -> str:
    return re.sub(r"\{\w+\}", "x", path.replace("{job_id}", job_id))


async def test_a_viewer_of_another_team_finds_no_command_and_no_environment(stage: Stage) -> None:
    """Over every way to read that there is; a route that is added is walked, too."""
    for path in READS:
        answer = await stage.read("stranger", filled(path, stage.job_id))
        assert MARKER.encode() not in answer.content, path
    trail = f"/v1/jobs/{stage.job_id}/events"
    for path in (f"{trail}?follow=true", "/v1/events?follow=true&after=FED:0", "/v1/events?limit=2000&follow=true"):
        followed = await stage.followed("stranger", path)
        assert stage.job_id.encode() in followed, path
        assert MARKER.encode() not in followed, path

    shown = (await stage.read("stranger", f"/v1/jobs/{stage.job_id}")).json()
    assert (shown["name"], shown["phase"]) == (NAME, "succeeded"), "the outline is visible"


async def test_its_own_team_and_operators_see_both(stage: Stage) -> None:
    """Else the walk above would find nothing anywhere."""
    for whose in ("colleague", "operator"):
        for path in (f"/v1/jobs/{stage.job_id}/events", "/v1/events?limit=2000"):
            assert (await stage.read(whose, path)).text.count(MARKER) >= 2, (whose, path)


async def test_who_sees_nothing_of_other_teams_finds_no_trace_of_a_job(stage: Stage) -> None:
    """`access.submitter.other_teams: nothing`."""
    told = (stage.job_id.encode(), NAME.encode(), MARKER.encode())
    for path in READS:
        asked = filled(path, stage.job_id)
        answer = await stage.read("outsider", asked)
        found = answer.content.replace(
            stage.job_id.encode(), b"", asked.count(stage.job_id)
        )  # an error repeats the path
        assert not [word for word in told if word in found], path
    never = stage.job_id[::-1]
    for path in (path for path in READS if "{job_id}" in path):
        hidden, unknown = [await stage.read("outsider", filled(path, job_id)) for job_id in (stage.job_id, never)]
        assert hidden.status_code in (403, 404), path
        assert hidden.text.replace(stage.job_id, never) == unknown.text, path


async def test_who_sees_nothing_of_other_teams_gets_no_live_view(stage: Stage) -> None:
    async with stage.client("outsider") as client:
        assert (await client.post("/v1/live/credential")).status_code == 403
        assert (await client.delete(f"/v1/jobs/{stage.job_id}")).status_code == 404
    for path in ("/v1/snapshot", "/v1/nodes", "/v1/jobs/{job_id}/assignment"):
        assert (await stage.read("outsider", filled(path, stage.job_id))).status_code == 403, path
    assert (await stage.read("outsider", "/v1/jobs")).json()["jobs"] == []
