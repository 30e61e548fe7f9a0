"""Bearer tokens by the OpenID Connect password grant, as the Fsas managers require them.

Routes and fields: CoHDI/composable-resource-operator v0.2.1, internal/cdi/fti/token.go.

A token is kept until shortly before it expires. Its lifetime is the difference of its own `exp` and `iat`, counted from
the time of the request, so the manager's clock need not agree with the local one. The signature is not verified.
"""

import asyncio
import base64
import binascii
import ssl
from pathlib import Path

import httpx
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError

from muster.fabric import bounds
from muster.fabric.driver import FabricNonsenseError, FabricRefusedError, FabricUnavailableError
from muster.fabric.http import Answer, exchange, failure_of, parsed, segment


class CredentialsError(Exception):
    """The credentials file is invalid; the message names the fields, never their values."""


class Credentials(BaseModel):
    """Content of the credentials file; secrets are never shown."""

    model_config = ConfigDict(extra="ignore", frozen=True, hide_input_in_errors=True)

    username: str
    password: SecretStr
    realm: str
    client_id: str
    client_secret: SecretStr = SecretStr("")
    certificate: str = ""
    """CA certificate of the manager in PEM; "" for the CAs of the system."""


def read_credentials(path: Path) -> Credentials:
    """Read the credentials from a JSON file. Raises CredentialsError."""
    try:
        with path.open("rb") as file:
            text = file.read(bounds.CREDENTIALS_BYTES_MAX)
        return Credentials.model_validate_json(text)
    except OSError as error:
        raise CredentialsError(f"credentials {path}: {error.strerror}") from error
    except ValidationError as error:
        wrong = sorted({".".join(map(str, each["loc"])) or "JSON" for each in error.errors(include_input=False)})
        raise CredentialsError(f"credentials {path}: {', '.join(wrong)} missing or wrong") from None


def trust(credentials: Credentials | None) -> ssl.SSLContext:
    """Return the TLS settings that trust the configured CA. Raises CredentialsError."""
    try:
        return ssl.create_default_context(cadata=(credentials.certificate if credentials is not None else "") or None)
    except ssl.SSLError as error:
        raise CredentialsError("credentials: certificate is not a PEM certificate") from error


class PasswordGrant:
    """Tokens of one user of one manager. One token request runs at a time, and concurrent callers share its result."""

    def __init__(self, url: str, client: httpx.AsyncClient, credentials: Credentials) -> None:
        realm = segment(credentials.realm, field="credentials.realm")
        self._url = f"{url.rstrip('/')}/id_manager/realms/{realm}/protocol/openid-connect/token"
        self._client = client
        self._credentials = credentials
        self._token = ""
        self._good_until = 0.0
        self._asking = asyncio.Lock()

    async def token(self, *, until: float) -> str:
        """Return a token. Raises FabricUnavailableError, FabricRefusedError (credentials), FabricNonsenseError."""
        try:
            async with asyncio.timeout_at(until), self._asking:
                now = asyncio.get_running_loop().time()
                if not self._token or now >= self._good_until:
                    self._token, life_s = await self._ask(until=min(until, now + bounds.TOKEN_S))
                    self._good_until = now + life_s - min(bounds.TOKEN_LEEWAY_S, life_s / 2)
                return self._token
        except TimeoutError as error:
            raise FabricUnavailableError("token: the token request of another call took too long") from error

    def reject(self, token: str) -> None:
        """Discard this token, unless a newer one was fetched meanwhile."""
        if token == self._token:
            self._token = ""

    async def _ask(self, *, until: float) -> tuple[str, float]:
        known = self._credentials
        form = {
            "client_id": known.client_id,
            "client_secret": known.client_secret.get_secret_value(),
            "username": known.username,
            "password": known.password.get_secret_value(),
            "scope": "openid",
            "response_type": "id_token token",
            "grant_type": "password",
        }
        request = self._client.build_request("POST", self._url, data=form)
        status, body = await exchange(self._client, request, until=until, changes=False)
        if not httpx.codes.is_success(status):
            failure = failure_of(status, body, what="token", changes=False)
            if isinstance(failure, FabricRefusedError):
                raise FabricRefusedError(f"{failure}: check the fabric's credentials file") from None
            raise failure
        answer = parsed(_TokenAnswer, body, what="token")
        return answer.access_token, _life_s(answer)


class _TokenAnswer(Answer):
    model_config = ConfigDict(extra="ignore", frozen=True, hide_input_in_errors=True)

    access_token: str = Field(min_length=1, max_length=bounds.TOKEN_CHARS_MAX, pattern=r"^[\x21-\x7e]+$")
    expires_in: float | None = Field(default=None, ge=0)


class _Claims(Answer):
    exp: float
    iat: float | None = None


def _life_s(answer: _TokenAnswer) -> float:
    """Return the lifetime of the token, in seconds. Raises FabricNonsenseError."""
    claims = _claims(answer.access_token)
    if claims is not None and claims.iat is not None:
        return max(0.0, claims.exp - claims.iat)
    if answer.expires_in is not None:
        return answer.expires_in
    raise FabricNonsenseError("token: lifetime missing: the token has no exp and iat, and the response no expires_in")


def _claims(token: str) -> _Claims | None:
    """Return the claims of a JWT; None if the token is not a JWT."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        return _Claims.model_validate_json(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValidationError, binascii.Error):
        return None
