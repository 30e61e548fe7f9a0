"""Log in at an OpenID Connect provider by the device flow (RFC 8628), and store the token."""

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, Self, TypeVar

import httpx
import jwt
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from muster.bus.clock import SystemTime, TimeSource
from muster.bus.gateway_settings import is_protected
from muster.cli.files import config_dir, write_private
from muster.client.tokens import TokenError, checked
from muster.core.instant import NS_PER_S

REQUEST_S = 10.0
ANSWER_BYTES_MAX = 256 * 1024
INTERVAL_S = 5.0
"""Between two questions whether the person has agreed, where the provider does not say; and what `slow_down` adds."""
LOGIN_S_MAX = 1_800.0
"""Time limit of a login, whatever the provider allows."""
EARLY_S = 30.0
"""How long before its end a token is renewed."""
DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"

Model = TypeVar("Model", bound=BaseModel)


class Login(BaseModel):
    """A stored login. Its tokens are sent only to `url` and to the provider."""

    model_config = ConfigDict(frozen=True)

    url: str
    issuer: str
    client_id: str
    uses: Literal["access_token", "id_token"]
    token: str
    refresh_token: str = ""
    ca_file: Path | None = None


class _Logins(BaseModel):
    logins: tuple[Login, ...] = ()


class _Granted(BaseModel):
    access_token: str = ""
    id_token: str = ""
    refresh_token: str = ""

    def token(self, uses: Literal["access_token", "id_token"]) -> str:
        return checked(self.access_token if uses == "access_token" else self.id_token, of=f"the provider's {uses}")


class _Device(BaseModel):
    device_code: str
    user_code: Annotated[str, Field(max_length=100)]
    verification_uri: Annotated[str, Field(max_length=2_048)]
    verification_uri_complete: Annotated[str, Field(max_length=2_048)] = ""
    interval: Annotated[float, Field(ge=0, le=300)] = INTERVAL_S
    expires_in: Annotated[float, Field(gt=0)]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Target of a login. url: the gateway that the token is for. audience: requested from the provider unless "".

    ca_file: verifies the provider's certificate.
    """

    url: str
    issuer: str
    client_id: str
    scope: str
    audience: str = ""
    uses: Literal["access_token", "id_token"] = "access_token"
    ca_file: Path | None = None


class Provider:
    """An OpenID Connect provider, as its discovery document describes it."""

    def __init__(self, issuer: str, *, ca_file: Path | None = None) -> None:
        context = ssl.create_default_context(cafile=None if ca_file is None else str(ca_file))
        self._client = httpx.AsyncClient(verify=context, timeout=REQUEST_S, follow_redirects=False)
        self._issuer = issuer
        self._endpoints: Mapping[str, object] = {}

    async def __aenter__(self) -> Self:
        if not is_protected(self._issuer):
            raise TokenError(f"--issuer: {self._issuer!r} is not an https:// URL; give one")
        status, self._endpoints = await self._asked(
            self._client.stream("GET", f"{self._issuer.rstrip('/')}/.well-known/openid-configuration")
        )
        if status != 200 or self._endpoints.get("issuer") != self._issuer:
            await self._client.aclose()
            raise TokenError(f"{self._issuer} is not an OpenID Connect provider with this issuer; check --issuer")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()

    async def post(self, endpoint: str, form: Mapping[str, str]) -> tuple[int, Mapping[str, object]]:
        """Return status and body of one request to an endpoint of that name. Raises TokenError."""
        url = self._endpoints.get(endpoint)
        if not isinstance(url, str) or not is_protected(url):
            raise TokenError(f"{self._issuer} has no https:// URL for `{endpoint}`")
        sent = {name: value for name, value in form.items() if value}
        return await self._asked(self._client.stream("POST", url, data=sent))

    async def _asked(self, stream: AbstractAsyncContextManager[httpx.Response]) -> tuple[int, Mapping[str, object]]:
        body = bytearray()
        try:
            async with asyncio.timeout(REQUEST_S), stream as answer:
                async for chunk in answer.aiter_bytes():
                    body += chunk
                    if len(body) > ANSWER_BYTES_MAX:
                        raise TokenError(f"{self._issuer} returned more than {ANSWER_BYTES_MAX} bytes")
            found = json.loads(body)
        except (httpx.HTTPError, TimeoutError, ValueError) as error:
            raise TokenError(f"{self._issuer} does not answer: {str(error) or type(error).__name__}") from error
        if not isinstance(found, dict):
            raise TokenError(f"{self._issuer} does not return a JSON object")
        return answer.status_code, found


async def log_in(
    provider: Provider,
    wanted: Wanted,
    *,
    show: Callable[[str], None],
    time: TimeSource,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> Login:
    """Log in by a browser on any machine and return the token. show: prints the URL and code. Raises TokenError."""
    asked = {"client_id": wanted.client_id, "scope": wanted.scope, "audience": wanted.audience}
    device = _read(_Device, await provider.post("device_authorization_endpoint", asked))
    place = device.verification_uri_complete or device.verification_uri
    show(f"Open {_printable(place)} and enter the code {_printable(device.user_code)}")
    granted = await _agreed(provider, wanted, device, time=time, sleep=sleep)
    return Login(
        url=wanted.url,
        issuer=wanted.issuer,
        client_id=wanted.client_id,
        uses=wanted.uses,
        token=granted.token(wanted.uses),
        refresh_token=granted.refresh_token,
        ca_file=wanted.ca_file.resolve() if wanted.ca_file else None,
    )


async def _agreed(
    provider: Provider,
    wanted: Wanted,
    device: _Device,
    *,
    time: TimeSource,
    sleep: Callable[[float], Awaitable[None]],
) -> _Granted:
    """Poll until the user has approved the login, or the time limit is reached. Raises TokenError."""
    form = {"grant_type": DEVICE_GRANT, "device_code": device.device_code, "client_id": wanted.client_id}
    until_s = time.monotonic_s() + min(device.expires_in, LOGIN_S_MAX)
    interval_s = device.interval
    while time.monotonic_s() + interval_s < until_s:
        await sleep(interval_s)
        status, body = await provider.post("token_endpoint", form)
        match body.get("error") if status != 200 else None:
            case None:
                return _read(_Granted, (status, body))
            case "authorization_pending":
                continue
            case "slow_down":
                interval_s += INTERVAL_S
            case "access_denied":
                raise TokenError("the provider refused the login")
            case error:
                raise TokenError(f"the provider aborted the login: {_printable(str(error))}")
    raise TokenError("the login was not completed in time; repeat the command")


class LoginToken:
    """The token of a login, renewed when it expires. url: of the gateway; logins of other gateways are not used."""

    def __init__(self, url: str, file: Path, *, time: TimeSource | None = None) -> None:
        self._url = url.rstrip("/")
        self._file = file
        self._time = time or SystemTime()
        self._using = asyncio.Lock()

    async def token(self, *, refused: str = "") -> str:
        """Return a token that has not expired. Raises TokenError."""
        async with self._using:
            login = login_for(self._url, self._file)
            if login is None:
                raise TokenError(f"no token for {self._url}; log in with `muster login`, or give --token-file")
            ended = _end_s(login.token) - EARLY_S <= self._time.wall() / NS_PER_S
            if (ended or login.token == refused) and login.refresh_token:
                login = await _renewed(login)
                store(login, self._file)
            return login.token


async def _renewed(login: Login) -> Login:
    form = {"grant_type": "refresh_token", "refresh_token": login.refresh_token, "client_id": login.client_id}
    async with Provider(login.issuer, ca_file=login.ca_file) as provider:
        status, body = await provider.post("token_endpoint", form)
    if status != 200:
        raise TokenError(f"the login for {login.url} has expired; log in again with `muster login`")
    granted = _read(_Granted, (status, body))
    refresh = granted.refresh_token or login.refresh_token
    return login.model_copy(update={"token": granted.token(login.uses), "refresh_token": refresh})


def login_file(environment: Mapping[str, str], *, home: Path) -> Path:
    """Return `muster/logins.json` in the user's configuration directory."""
    return config_dir(environment, home=home) / "logins.json"


def login_for(url: str, file: Path) -> Login | None:
    """Return the login for this gateway; None if there is none. Raises TokenError if the file cannot be read."""
    return next((login for login in _stored(file).logins if login.url == url.rstrip("/")), None)


def store(login: Login, file: Path) -> None:
    """Store a login in place of the previous one for its gateway, readable by this user only. Raises TokenError."""
    kept = _Logins(logins=(login, *(one for one in _stored(file).logins if one.url != login.url)))
    try:
        write_private(file, kept.model_dump_json(indent=2))
    except OSError as error:
        raise TokenError(f"{file} cannot be written: {error.strerror}") from error


def _stored(file: Path) -> _Logins:
    try:
        return _Logins.model_validate_json(file.read_bytes())
    except FileNotFoundError:
        return _Logins()
    except (OSError, ValidationError) as error:
        raise TokenError(f"{file} cannot be read: remove it, and log in again") from error


def _end_s(token: str) -> float:
    """Return the expiry of a token by its own claim; infinity if it has none."""
    try:
        ends_s = jwt.decode(token, options={"verify_signature": False}).get("exp")
    except jwt.PyJWTError:
        return float("inf")
    return float(ends_s) if isinstance(ends_s, int | float) else float("inf")


def _read(model: type[Model], answer: tuple[int, Mapping[str, object]]) -> Model:
    status, body = answer
    if status != 200:
        raise TokenError(f"the provider returned {status}: {_printable(str(body.get('error', '')))}")
    try:
        return model.model_validate(body)
    except ValidationError as error:
        field = ".".join(map(str, error.errors()[0]["loc"]))
        raise TokenError(f"the provider's response has no valid `{field}`") from error


def _printable(text: str) -> str:
    """Return text of another program without control characters."""
    return "".join(char if char.isprintable() else "?" for char in text[:2_048])
