"""Logging in at an identity provider by the device flow."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kit.clocks import FakeTime
from kit.http.oidc_provider import CLIENT_ID, OidcProvider, oidc_provider
from muster.cli.login import Login, LoginToken, Provider, Wanted, log_in, login_for, store
from muster.client import TokenError

URL = "https://muster.example.com"
PENDING = (400, {"error": "authorization_pending"})


@pytest.fixture
async def provider() -> AsyncIterator[OidcProvider]:
    async with oidc_provider() as made:
        yield made


class PassingTime(FakeTime):
    """Time that only waiting moves."""

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.advance(seconds)

    waits: list[float]


@pytest.fixture
def time() -> PassingTime:
    passing = PassingTime()
    passing.waits = []
    return passing


async def login(provider: OidcProvider, time: PassingTime, *, uses: str = "access_token") -> Login:
    wanted = Wanted(URL, provider.url, CLIENT_ID, "openid", "muster", uses)  # type: ignore[arg-type]
    async with Provider(provider.url) as open_provider:
        return await log_in(open_provider, wanted, show=lambda _: None, time=time, sleep=time.sleep)


async def test_it_asks_until_the_person_has_agreed_and_slows_down_when_told(
    provider: OidcProvider, time: PassingTime
) -> None:
    slow = (400, {"error": "slow_down"})
    provider.device_answers = [PENDING, slow, PENDING, (200, {"access_token": "a", "id_token": "i"})]
    assert (await login(provider, time)).token == "a"
    assert time.waits == [0, 0, 5, 5]
    assert provider.forms[0] == {"client_id": CLIENT_ID, "scope": "openid", "audience": "muster"}
    assert provider.forms[1]["device_code"] == "device-code"


async def test_the_id_token_is_used_where_it_is_wanted(provider: OidcProvider, time: PassingTime) -> None:
    provider.device_answers = [(200, {"access_token": "a", "id_token": "i"})]
    assert (await login(provider, time, uses="id_token")).token == "i"


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ((400, {"error": "access_denied"}), "provider refused the login"),
        ((400, {"error": "expired_token"}), "expired_token"),
        ((500, {}), "provider returned 500"),
        ((200, {}), "gives no token"),
        ((200, {"access_token": 7}), "access_token"),
    ],
)
async def test_a_login_that_cannot_succeed_ends(
    provider: OidcProvider, time: PassingTime, answer: tuple[int, dict[str, object]], told: str
) -> None:
    provider.device_answers = [answer]
    with pytest.raises(TokenError, match=told):
        await login(provider, time)


async def test_a_login_that_nobody_finishes_ends_with_its_code(provider: OidcProvider, time: PassingTime) -> None:
    provider.device_answers = [(400, {"error": "slow_down"})] * 50
    with pytest.raises(TokenError, match="not completed in time"):
        await login(provider, time)
    assert sum(time.waits) < 60


async def test_endpoints_over_plain_http_elsewhere_are_not_used(provider: OidcProvider, time: PassingTime) -> None:
    provider.discovery_changes = {"device_authorization_endpoint": "http://192.0.2.1/device"}
    with pytest.raises(TokenError, match="https"):
        await login(provider, time)


async def test_a_provider_of_another_name_is_refused(provider: OidcProvider, time: PassingTime) -> None:
    provider.discovery_changes = {"issuer": "https://evil.example"}
    with pytest.raises(TokenError, match="is not an OpenID Connect provider"):
        await login(provider, time)


async def test_a_login_that_was_revoked_says_what_to_do(provider: OidcProvider, tmp_path: Path) -> None:
    file = tmp_path / "logins.json"
    ended = provider.token(exp=1)
    store(
        Login(url=URL, issuer=provider.url, client_id=CLIENT_ID, uses="access_token", token=ended, refresh_token="r"),
        file,
    )
    provider.device_answers = [(400, {"error": "invalid_grant"})]
    with pytest.raises(TokenError, match="muster login"):
        await LoginToken(URL, file).token()


def test_each_gateway_has_one_login(tmp_path: Path) -> None:
    file = tmp_path / "muster" / "logins.json"
    one = Login(url=URL, issuer="https://a", client_id="c", uses="access_token", token="1")
    other = one.model_copy(update={"url": "https://other.example.com", "token": "2"})
    for login in (one, other, one.model_copy(update={"token": "3"})):
        store(login, file)
    found = [login_for(url, file) for url in (URL + "/", other.url, "https://third.example.com")]
    assert [login and login.token for login in found] == ["3", "2", None]
    assert file.stat().st_mode & 0o777 == 0o600
    file.write_text("{")
    with pytest.raises(TokenError, match="log in again"):
        login_for(URL, file)
