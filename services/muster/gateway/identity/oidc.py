"""Verify JWTs of an OpenID Connect provider. PyJWT checks signatures with its keys; the claims are checked here."""

import asyncio
import json
import logging
import ssl
from collections.abc import Mapping

import httpx
import jwt
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from jwt.types import Options

from muster.bus.clock import TimeSource
from muster.bus.gateway_settings import OidcSettings, is_protected
from muster.core.instant import NS_PER_S, Instant
from muster.gateway.identity.mapping import RejectedTokenError, User
from muster.gateway.identity.unverified import UnverifiedToken
from muster.gateway.ports import UnreachableError

DISCOVERY_PATH = "/.well-known/openid-configuration"
DOCUMENT_BYTES_MAX = 256 * 1024
KEYS_MAX = 100
RSA_BITS_MIN = 2_048

_log = logging.getLogger(__name__)

TYPES = frozenset({"jwt", "at+jwt", "application/at+jwt"})
"""Accepted `typ` of access and ID tokens; a provider signs other tokens with the same keys, such as logout tokens."""
_OPTIONS: Options = {
    "require": ["iss", "aud", "sub", "exp"],
    "verify_aud": True,
    "verify_iss": True,
    "verify_exp": False,  # times are compared with the gateway's clock, below
    "verify_nbf": False,
    "verify_iat": False,
}
_EXP_MAX_S = 2**33
"""Maximum of `exp` and `nbf`, in the year 2242; a larger number is a mistake, or in milliseconds."""


class ProviderKeys:
    """The provider's public keys by id. Unknown ids cause at most one fetch per `keys_fetch_s_min`."""

    def __init__(self, settings: OidcSettings, client: httpx.AsyncClient, time: TimeSource) -> None:
        self._settings = settings
        self._client = client
        self._time = time
        self._keys: Mapping[str, jwt.PyJWK] = {}
        self._fetched_s = float("-inf")
        self._tried_s = float("-inf")
        self._fetching = asyncio.Lock()

    async def key(self, key_id: str) -> jwt.PyJWK | None:
        """Return the key of this id, or None if the provider has none. Raises UnreachableError without any keys."""
        known = self._usable().get(key_id)
        if known is not None and (not self._is_due() or self._fetching.locked()):
            return known
        async with self._fetching:  # all other callers wait for this fetch
            if (key_id not in self._usable() or self._is_due()) and self._may_fetch():
                await self._fetch()
        if not self._usable():
            raise UnreachableError(f"the keys of {self._settings.issuer} could not be fetched")
        return self._usable().get(key_id)

    def _usable(self) -> Mapping[str, jwt.PyJWK]:
        age_s = self._time.monotonic_s() - self._fetched_s
        return self._keys if age_s < self._settings.keys_kept_s else {}

    def _is_due(self) -> bool:
        return self._time.monotonic_s() - self._fetched_s >= self._settings.keys_refresh_s

    def _may_fetch(self) -> bool:
        return self._time.monotonic_s() - self._tried_s >= self._settings.keys_fetch_s_min

    async def _fetch(self) -> None:
        """Fetch the keys; after a failure, keep the present ones."""
        self._tried_s = self._time.monotonic_s()
        try:
            async with asyncio.timeout(self._settings.timeout_s):
                discovery = await self._document(self._settings.issuer.rstrip("/") + DISCOVERY_PATH)
                keys = keys_of(await self._document(self._keys_url(discovery)), self._settings)
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, ValueError, RecursionError) as error:
            told = str(error) or type(error).__name__
            _log.warning("fetching the keys of %s failed: %s", self._settings.issuer, told)
            return
        self._keys, self._fetched_s = keys, self._time.monotonic_s()

    def _keys_url(self, discovery: Mapping[str, object]) -> str:
        if discovery.get("issuer") != self._settings.issuer:
            raise ValueError(f"the discovery document names another issuer: {str(discovery.get('issuer'))[:200]!r}")
        url = discovery.get("jwks_uri")
        if not isinstance(url, str) or not is_protected(url):
            raise ValueError(f"jwks_uri of the discovery document is not an https:// URL: {str(url)[:200]!r}")
        return url

    async def _document(self, url: str) -> Mapping[str, object]:
        body = bytearray()
        async with self._client.stream("GET", url) as answer:
            if answer.status_code != 200:
                raise ValueError(f"{url} returned status {answer.status_code}")
            async for chunk in answer.aiter_bytes():
                body += chunk
                if len(body) > DOCUMENT_BYTES_MAX:
                    raise ValueError(f"{url} returned more than {DOCUMENT_BYTES_MAX} bytes")
        document = json.loads(body)
        if not isinstance(document, dict):
            raise ValueError(f"{url} did not return a JSON object")  # noqa: TRY004 - the document is wrong, not a caller
        return document


def http_client(settings: OidcSettings) -> httpx.AsyncClient:
    """Return the client that fetches keys. Raises OSError if the CA file cannot be read."""
    context = ssl.create_default_context(cafile=None if settings.ca_file is None else str(settings.ca_file))
    return httpx.AsyncClient(verify=context, follow_redirects=False, timeout=settings.timeout_s)


def keys_of(document: Mapping[str, object], settings: OidcSettings) -> Mapping[str, jwt.PyJWK]:
    """Return the keys that may verify signatures, by id. Raises ValueError if there are none."""
    listed = document.get("keys")
    if not isinstance(listed, list) or len(listed) > KEYS_MAX:
        raise ValueError(f"the key set has no list `keys` of at most {KEYS_MAX}")
    keys: dict[str, jwt.PyJWK] = {}
    for entry in listed:
        found = _key(entry, settings) if isinstance(entry, dict) else None
        if found is not None:
            keys.setdefault(str(found.key_id), found)
    if not keys:
        raise ValueError(f"the key set has no signature key for {', '.join(settings.algorithms)} with a `kid`")
    return keys


def _key(entry: dict[str, object], settings: OidcSettings) -> jwt.PyJWK | None:
    """Return a usable key: asymmetric, for signatures, of an accepted algorithm; None for any other."""
    key_id = entry.get("kid")
    if entry.get("kty") not in ("RSA", "EC", "OKP") or entry.get("use", "sig") != "sig" or not isinstance(key_id, str):
        return None
    try:
        key = jwt.PyJWK.from_dict(entry)
    except (jwt.PyJWTError, ValueError, TypeError, KeyError) as error:
        _log.warning("key %.80r of %s cannot be used: %s", key_id, settings.issuer, type(error).__name__)
        return None
    weak = isinstance(key.key, RSAPublicKey) and key.key.key_size < RSA_BITS_MIN
    return None if weak or key.algorithm_name not in settings.algorithms else key


class OidcVerifier:
    """Verifies the tokens of one provider."""

    def __init__(self, settings: OidcSettings, keys: ProviderKeys, time: TimeSource) -> None:
        self._settings = settings
        self._keys = keys
        self._time = time
        self.name = "oidc"
        self.prefix = settings.prefix
        self.cache_s = settings.cache_s

    def takes(self, token: UnverifiedToken) -> bool:
        """Return whether the token names this provider as its issuer."""
        return token.issuer == self._settings.issuer

    async def verify(self, token: UnverifiedToken) -> User:
        """Return the token's user. Raises RejectedTokenError; UnreachableError without the provider's keys."""
        algorithm, key_id = self._header(token)
        key = await self._keys.key(key_id)
        if key is None:
            raise RejectedTokenError("the token names a signature key that its issuer does not have", remember=False)
        if key.algorithm_name != algorithm:
            raise RejectedTokenError(f"the token's key is not for {algorithm}")
        try:
            claims: dict[str, object] = jwt.decode(
                token.text,
                key.key,
                algorithms=[algorithm],
                audience=self._settings.audience,
                issuer=self._settings.issuer,
                options=_OPTIONS,
            )
        except (jwt.PyJWTError, ValueError, TypeError) as error:
            raise RejectedTokenError(f"the token was not accepted: {_told(error)}") from error
        expires_at = self._checked_times(claims)
        return User(self._name(claims), _groups(claims.get(self._settings.groups_claim)), expires_at)

    def _header(self, token: UnverifiedToken) -> tuple[str, str]:
        """Return algorithm and id of the key. Raises RejectedTokenError for a header that is never accepted."""
        algorithm, key_id, kind = (token.header.get(name) for name in ("alg", "kid", "typ"))
        if not isinstance(algorithm, str) or algorithm not in self._settings.algorithms:
            allowed = ", ".join(self._settings.algorithms)
            raise RejectedTokenError(f"the token's signature algorithm is not accepted; use one of {allowed}")
        if not isinstance(key_id, str) or not key_id:
            raise RejectedTokenError("the token does not name its signature key (`kid`)")
        if kind is not None and (not isinstance(kind, str) or kind.lower() not in TYPES):
            raise RejectedTokenError("the token is neither an access token nor an ID token (`typ`)")
        if "crit" in token.header:
            raise RejectedTokenError("the token requires extensions (`crit`); none is supported")
        return algorithm, key_id

    def _checked_times(self, claims: dict[str, object]) -> Instant:
        """Return the expiry of the token. Raises RejectedTokenError if it has expired or is not valid yet."""
        now_s, leeway_s = self._time.wall() / NS_PER_S, self._settings.leeway_s
        ends_s = _seconds(claims, "exp")
        if now_s >= ends_s + leeway_s:
            raise RejectedTokenError("the token has expired")
        begins_s = max((_seconds(claims, name) for name in ("nbf", "iat") if name in claims), default=now_s)
        if now_s < begins_s - leeway_s:
            raise RejectedTokenError("the token is not valid yet", remember=False)
        return Instant(round((ends_s + leeway_s) * NS_PER_S))

    def _name(self, claims: dict[str, object]) -> str:
        claim = self._settings.name_claim
        name = claims.get(claim)
        if not isinstance(name, str):
            raise RejectedTokenError(f"the claim `{claim}`, which names the user, is missing or not a string")
        if claim == "email" and claims.get("email_verified") is not True:
            raise RejectedTokenError("the token's email address was not verified by its issuer (`email_verified`)")
        return name


def _told(error: Exception) -> str:
    """Describe the error without quoting the token."""
    match error:
        case jwt.InvalidAudienceError():
            return "the audience is not accepted"
        case jwt.MissingRequiredClaimError():
            return f"the claim `{error.claim}` is missing"
        case jwt.InvalidSignatureError():
            return "the signature is invalid"
        case _:
            return type(error).__name__.removesuffix("Error")


def _seconds(claims: dict[str, object], name: str) -> float:
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _EXP_MAX_S:
        raise RejectedTokenError(f"the claim `{name}` is not a time in seconds")
    return float(value)


def _groups(claim: object) -> tuple[str, ...]:
    if claim is None:
        return ()
    listed = [claim] if isinstance(claim, str) else claim
    if not isinstance(listed, list) or not all(isinstance(group, str) for group in listed):
        raise RejectedTokenError("the claim with the user's groups is not a list of strings")
    return tuple(listed)
