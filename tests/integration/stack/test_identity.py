"""A whole stack with TLS whose users an OpenID Connect provider vouches for: from the login to the end of a job."""

import base64
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import httpx
import nats
import pytest
import pytest_asyncio
from nats.aio.client import Client
from nats.aio.msg import Msg

from kit.http.certificates import Authority
from kit.http.oidc_provider import AUDIENCE, CLIENT_ID, OidcProvider, oidc_provider
from kit.stack.distant_commands import Ended, distant_command
from kit.stack.living import TEAM, Harness, open_harness, options
from kit.waiting import until
from muster.bus.jwt import key_of_seed
from muster.client import QueueSpec
from muster.schemas.job import Phase
from muster.schemas.live import LiveCredential, LiveSlice

pytestmark = [pytest.mark.connected, pytest.mark.timeout(240), pytest.mark.asyncio(loop_scope="module")]

OTHER_TEAM = "chemistry"
DENIED = 3


@dataclass
class Stage:
    """The stack, the provider that it trusts, and the home of a user who has nothing but an account there."""

    harness: Harness
    provider: OidcProvider
    ca_file: Path
    home: Path

    @property
    def url(self) -> str:
        return self.harness.stack.endpoints.http

    async def command(self, *words: str) -> Ended:
        return await distant_command(self.home, "--url", self.url, "--ca-file", str(self.ca_file), *words)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    folder, home = tmp_path_factory.mktemp("tls"), tmp_path_factory.mktemp("home")
    authority = Authority.make(folder)
    certificate, key = authority.issue()
    async with oidc_provider() as provider:
        start = options(Path(tmp_path_factory.mktemp("harness")), nodes=2)
        sections = {
            "tls": {"certificate": str(certificate), "key": str(key), "ca_file": str(authority.ca_file)},
            "identity": {
                "oidc": {"issuer": provider.url, "audience": AUDIENCE},
                "groups": [{"group": "oidc:research", "role": "submitter", "teams": [TEAM]}],
            },
        }
        start = start.model_copy(update={"settings": {**start.settings, **sections}})
        async with open_harness(start) as harness:
            yield Stage(harness, provider, authority.ca_file, home)


async def test_who_logs_in_at_the_provider_runs_jobs_for_their_team_and_for_no_other(stage: Stage) -> None:
    provider = stage.provider
    provider.device_answers = [
        (400, {"error": "authorization_pending"}),
        (200, {"access_token": provider.token(sub="ann", groups=["research"])}),
    ]
    login = await stage.command("login", "--issuer", provider.url, "--client-id", CLIENT_ID)
    assert login.returncode == 0, login.stderr

    words = ("submit", "--gpus", "1", "--label", "sim.muster.dev/run-s=0.5")
    ended = await stage.command(*words, "--name", "hers", "--team", TEAM, "--watch")
    assert ended.returncode == 0, ended.stderr
    (job,) = [row for row in await stage.harness.muster.list() if row.name == "hers"]
    assert (job.phase, job.principal, job.team) == (Phase.SUCCEEDED, "oidc:ann", TEAM)

    await stage.harness.muster.set_queue(QueueSpec(name=OTHER_TEAM))
    refused = await stage.command(*words, "--name", "theirs", "--team", OTHER_TEAM)
    assert (refused.returncode, OTHER_TEAM in refused.stderr) == (DENIED, True), refused.stderr
    assert "theirs" not in [row.name for row in await stage.harness.muster.list()]


async def test_a_page_over_https_gets_the_live_view_of_its_users_team(stage: Stage) -> None:
    verified = ssl.create_default_context(cafile=str(stage.ca_file))
    token = stage.provider.token(sub="ben", groups=["research"])
    async with httpx.AsyncClient(base_url=stage.url, verify=verified) as api:
        answer = await api.post("/v1/live/credential", headers={"Authorization": f"Bearer {token}"})
    given = LiveCredential.model_validate_json(answer.content)
    assert TEAM in given.audiences
    names: set[str] = set()

    async def hear(message: Msg) -> None:
        names.update(row.name for row in LiveSlice.model_validate_json(message.data).jobs)

    client = await listening(given)
    try:
        for audience in given.audiences:
            await client.subscribe(f"view.{given.clusters[0]}.{audience}.slice", cb=hear)
        await client.flush()
        words = ("--gpus", "1", "--name", "watched", "--team", TEAM, "--label", "sim.muster.dev/run-s=0.5")
        submitted = await stage.command("--token-command", f"echo {token}", "submit", *words)
        assert submitted.returncode == 0, submitted.stderr
        await until(lambda: "watched" in names)
    finally:
        await client.close()


async def test_the_broker_takes_pages_of_the_gateways_own_scheme_alone(stage: Stage) -> None:
    url = stage.harness.stack.endpoints.websocket
    async with aiohttp.ClientSession() as browser:
        async with browser.ws_connect(url, origin=stage.url) as own:
            assert not own.closed
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await browser.ws_connect(url, origin=stage.url.replace("https:", "http:"))
        assert refused.value.status == 403


async def listening(given: LiveCredential) -> Client:
    """Connect to the broker as a dashboard does."""
    key = key_of_seed(given.seed)
    return await nats.connect(
        given.url,
        inbox_prefix=given.inbox_prefix,
        user_jwt_cb=lambda: bytearray(given.jwt.encode()),
        signature_cb=lambda nonce: base64.b64encode(key.sign(nonce.encode())),
    )
