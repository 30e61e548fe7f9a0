"""The keys of an OpenID Connect provider: fetched when they are needed, seldom enough, and kept while it is away."""

import asyncio
import json
import logging
import ssl
from collections.abc import Mapping

import httpx
import jwt
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from muster.bus.clock import TimeSource
from muster.bus.gateway_settings import OidcSettings, is_protected
from muster.gateway.ports import UnreachableError

DISCOVERY_PATH = "/.well-known/openid-configuration"
DOCUMENT_BYTES_MAX = 256 * 1024
KEYS_MAX = 100
RSA_BITS_MIN = 2_048

_log = logging.getLogger(__name__)


class ProviderKeys:
    """Public keys by their id. Unknown ids make at most one fetch in `keys_fetch_s_min`, however many there are."""

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
        async with self._fetching:  # all others wait for the one fetch
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
        """Fetch the keys, or keep the ones that there are."""
        self._tried_s = self._time.monotonic_s()
        try:
            async with asyncio.timeout(self._settings.timeout_s):
                discovery = await self._document(self._settings.issuer.rstrip("/") + DISCOVERY_PATH)
                keys = keys_of(await self._document(self._keys_url(discovery)), self._settings)
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, ValueError, RecursionError) as error:
            told = str(error) or type(error).__name__
            _log.warning("the keys of %s were not fetched: %s", self._settings.issuer, told)
            return
        self._keys, self._fetched_s = keys, self._time.monotonic_s()

    def _keys_url(self, discovery: Mapping[str, object]) -> str:
        if discovery.get("issuer") != self._settings.issuer:
            raise ValueError(f"the discovery document is of issuer {str(discovery.get('issuer'))[:200]!r}")
        url = discovery.get("jwks_uri")
        if not isinstance(url, str) or not is_protected(url):
            raise ValueError(f"jwks_uri of the discovery document is no https:// address: {str(url)[:200]!r}")
        return url

    async def _document(self, url: str) -> Mapping[str, object]:
        body = bytearray()
        async with self._client.stream("GET", url) as answer:
            if answer.status_code != 200:
                raise ValueError(f"{url} answers {answer.status_code}")
            async for chunk in answer.aiter_bytes():
                body += chunk
                if len(body) > DOCUMENT_BYTES_MAX:
                    raise ValueError(f"{url} answers more than {DOCUMENT_BYTES_MAX} bytes")
        document = json.loads(body)
        if not isinstance(document, dict):
            raise ValueError(f"{url} answers no JSON object")  # noqa: TRY004 - the document is wrong, not a caller
        return document


def http_client(settings: OidcSettings) -> httpx.AsyncClient:
    """Return the client that keys are fetched with. Raises OSError if the CA file cannot be read."""
    context = ssl.create_default_context(cafile=None if settings.ca_file is None else str(settings.ca_file))
    return httpx.AsyncClient(verify=context, follow_redirects=False, timeout=settings.timeout_s)


def keys_of(document: Mapping[str, object], settings: OidcSettings) -> Mapping[str, jwt.PyJWK]:
    """Return the keys that may verify signatures, by id. Raises ValueError if there is none among them."""
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
    """Return one usable key: asymmetric, for signatures, of an accepted algorithm; None for any other."""
    key_id = entry.get("kid")
    if entry.get("kty") not in ("RSA", "EC", "OKP") or entry.get("use", "sig") != "sig" or not isinstance(key_id, str):
        return None
    try:
        key = jwt.PyJWK.from_dict(entry)
    except (jwt.PyJWTError, ValueError, TypeError, KeyError) as error:
        _log.warning("key %.80r of %s is not usable: %s", key_id, settings.issuer, type(error).__name__)
        return None
    weak = isinstance(key.key, RSAPublicKey) and key.key.key_size < RSA_BITS_MIN
    return None if weak or key.algorithm_name not in settings.algorithms else key
