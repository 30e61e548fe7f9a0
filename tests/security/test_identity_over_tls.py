"""A gateway with TLS and an identity provider: who listens on the wire, or connects with less, gets nothing."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

from kit.http.certificates import Authority
from kit.http.gateway import FakeHarness
from kit.http.oidc_provider import AUDIENCE, CLIENT_ID, OidcProvider, oidc_provider
from kit.ports import own_port
from kit.stack.distant_commands import Ended, distant_command
from kit.waiting import until_async
from muster.bus.clock import SystemTime
from muster.bus.gateway_settings import GroupRoleSettings, IdentitySettings, OidcSettings, TlsSettings
from muster.bus.settings import Settings
from muster.client import Muster, Retry, UnreachableError
from muster.gateway.app import serve_http
from muster.gateway.identity import opened_identities
from muster.gateway.tls import Certificate
from muster.schemas.access import Role, TokenRecord
from muster.stack.probes import http_ok

pytestmark = pytest.mark.asyncio(loop_scope="module")


@dataclass
class Stage:
    """A gateway that listens, its authority, and the provider that it trusts."""

    port: int
    authority: Authority
    provider: OidcProvider
    certificate: Certificate
    home: Path

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    async def served_name(self, **limits: ssl.TLSVersion) -> str:
        """Common name of the certificate that the gateway shows. limits: fields of the client's context."""
        context = ssl.create_default_context(cafile=str(self.authority.ca_file))
        for name, value in limits.items():
            setattr(context, name, value)
        _, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=context)
        try:
            subject = writer.get_extra_info("peercert")["subject"]
            return str(dict(part[0] for part in subject)["commonName"])
        finally:
            writer.close()

    async def command(self, *words: str, **variables: str) -> Ended:
        """A `muster` command of somebody on another machine."""
        return await distant_command(self.home, *words, **variables)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    folder = tmp_path_factory.mktemp("tls")
    authority = Authority.make(folder)
    certificate, key = authority.issue()
    async with oidc_provider() as provider, AsyncExitStack() as closing:
        settings = Settings(
            state_dir=folder,
            credentials_dir=folder,
            http_port=own_port(),
            tls=TlsSettings(certificate=certificate, key=key, reload_s=0.1),
            identity=IdentitySettings(
                oidc=OidcSettings(issuer=provider.url, audience=AUDIENCE),
                groups=(GroupRoleSettings(group="oidc:research", role=Role.SUBMITTER, teams=("physics",)),),
            ),
        )
        harness = FakeHarness().harness
        identities = await opened_identities(settings.identity, closing, time=SystemTime(), metrics=harness.metrics)
        shown = Certificate(settings.tls)
        serving = asyncio.create_task(serve_http(replace(harness, identities=identities), settings, shown))
        renewing = asyncio.create_task(shown.keep_fresh())
        await until_async(partial(http_ok, settings.http_port, "/healthz", tls=True))
        try:
            yield Stage(settings.http_port, authority, provider, shown, folder)
        finally:
            serving.cancel()
            renewing.cancel()
            await asyncio.wait([serving, renewing])


async def test_plain_http_gets_nothing_from_the_port(stage: Stage) -> None:
    async with httpx.AsyncClient() as client:
        with pytest.raises(httpx.TransportError):
            await client.get(f"http://127.0.0.1:{stage.port}/healthz")


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1 is deprecated")
async def test_versions_before_1_2_are_refused(stage: Stage) -> None:
    assert await stage.served_name(maximum_version=ssl.TLSVersion.TLSv1_2) == "gateway"
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await stage.served_name(minimum_version=ssl.TLSVersion.TLSv1_1, maximum_version=ssl.TLSVersion.TLSv1_1)


async def test_a_client_that_does_not_trust_the_authority_sends_no_token(stage: Stage) -> None:
    context = ssl.create_default_context()
    with pytest.raises(ssl.SSLCertVerificationError):
        await asyncio.open_connection("127.0.0.1", stage.port, ssl=context)
    async with Muster(stage.url, stage.provider.token(), retry=Retry(attempts=1)) as muster:
        with pytest.raises(UnreachableError, match="certificate"):
            await muster.me()


async def test_a_renewed_certificate_holds_for_new_connections_and_half_a_pair_changes_nothing(stage: Stage) -> None:
    stage.authority.issue("renewed")

    async def is_renewed() -> bool:
        return await stage.served_name() == "renewed"

    await until_async(is_renewed)
    key = stage.authority.folder / "tls.key"
    whole = key.read_bytes()
    key.write_bytes(b"half of")
    with pytest.raises(ssl.SSLError):
        await stage.certificate.reload()
    assert await stage.served_name() == "renewed"
    key.write_bytes(whole)


async def test_a_user_of_the_provider_works_with_a_program_that_prints_the_token(stage: Stage) -> None:
    token = stage.home / "token"
    token.write_text(stage.provider.token(sub="ann"))
    words = ("--url", stage.url, "--ca-file", str(stage.authority.ca_file), "--token-command", f"cat '{token}'")
    shown = await stage.command(*words, "whoami", "-o", "json")
    assert shown.returncode == 0, shown.stderr
    found = TokenRecord.model_validate_json(shown.stdout)
    assert (found.principal, found.role.value, found.teams) == ("oidc:ann", "submitter", ("physics",))
    forbidden = await stage.command(*words, "token", "list")
    assert forbidden.returncode == 3


async def test_a_token_command_is_no_shell(stage: Stage) -> None:
    made = stage.home / "made"
    words = ("--url", stage.url, "--ca-file", str(stage.authority.ca_file))
    answer = await stage.command(*words, "--token-command", f"echo x; touch {made}", "whoami")
    assert (answer.returncode, made.exists()) == (3, False)


async def test_a_login_by_device_code_is_kept_for_its_gateway_alone_and_renewed(stage: Stage) -> None:
    provider = stage.provider
    pending = (400, {"error": "authorization_pending"})
    ended = provider.token(exp=provider.now_s() - 60)
    provider.device_answers = [pending, (200, {"access_token": ended, "refresh_token": "refresh-1"})]
    access = ("--url", stage.url, "--ca-file", str(stage.authority.ca_file))
    login = await stage.command(*access, "login", "--issuer", provider.url, "--client-id", CLIENT_ID)
    assert login.returncode == 0, login.stderr
    assert "WDJB-MJHT" in login.stderr
    assert ended not in login.stdout + login.stderr
    kept = stage.home / ".config" / "muster" / "logins.json"
    assert (kept.stat().st_mode & 0o777, kept.parent.stat().st_mode & 0o777) == (0o600, 0o700)

    provider.device_answers = [(200, {"access_token": provider.token(sub="ann"), "refresh_token": "refresh-2"})]
    shown = await stage.command(*access, "whoami", "-o", "json")
    assert (shown.returncode, json.loads(shown.stdout)["principal"]) == (0, "oidc:ann"), shown.stderr
    assert provider.forms[-1] == {"grant_type": "refresh_token", "refresh_token": "refresh-1", "client_id": CLIENT_ID}
    again = await stage.command(*access, "whoami")
    assert again.returncode == 0, "the renewed token was kept"
    elsewhere = await stage.command("--url", "https://127.0.0.1:1", "whoami")
    assert (elsewhere.returncode, "muster login" in elsewhere.stderr) == (3, True)
