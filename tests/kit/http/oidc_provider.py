"""An OpenID Connect provider on loopback: keys, discovery, tokens, and the device flow. PyJWT signs.

async with oidc_provider() as provider:
    token = provider.token(groups=["research"])
    provider.rotate()                       # another key; the old one is gone
    provider.asked("/keys")                 # how often it was fetched
"""

import base64
import json
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import jwt
from aiohttp import web
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from jwt.algorithms import ECAlgorithm

AUDIENCE = "muster"
CLIENT_ID = "muster-cli"


class Key:
    """A signing key. key_id: names it in the key set."""

    def __init__(self, key_id: str) -> None:
        self.id = key_id
        self.private = generate_private_key(SECP256R1())

    @property
    def public(self) -> dict[str, object]:
        return {**ECAlgorithm.to_jwk(self.private.public_key(), as_dict=True), "kid": self.id, "use": "sig"}

    @property
    def public_pem(self) -> bytes:
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        return self.private.public_key().public_bytes(serialization.Encoding.PEM, form)


class OidcProvider:
    """Signs whatever a test asks for. now_s: the clock of the claims; device: answers of the token endpoint in turn."""

    def __init__(self) -> None:
        self.url = ""
        self.key = Key("key-1")
        self.requests: Counter[str] = Counter()
        self.now_s = lambda: int(time.time())
        self.is_down = False
        self.extra_keys: list[dict[str, object]] = []
        self.device_answers: list[tuple[int, dict[str, object]]] = []
        self.forms: list[dict[str, str]] = []
        self.discovery_changes: dict[str, object] = {}
        self._rotations = 1

    def rotate(self) -> None:
        """Sign with a new key, and forget the old one."""
        self._rotations += 1
        self.key = Key(f"key-{self._rotations}")

    def asked(self, path: str) -> int:
        return self.requests[path]

    def claims(self, **changes: object) -> dict[str, object]:
        """Claims of a good token; None leaves one out."""
        now_s = self.now_s()
        claims = {
            "iss": self.url, "aud": AUDIENCE, "sub": "ann", "groups": ["research"], "iat": now_s, "exp": now_s + 300,
            **changes,
        }  # fmt: skip
        return {name: value for name, value in claims.items() if value is not None}

    def token(self, *, key: Key | None = None, headers: dict[str, object] | None = None, **changes: object) -> str:
        """A token that this provider signed."""
        key = key or self.key
        return jwt.encode(
            self.claims(**changes), key.private, algorithm="ES256", headers={"kid": key.id, **(headers or {})}
        )

    async def _answer(self, request: web.Request) -> web.Response:
        self.requests[request.path] += 1
        if self.is_down:
            raise web.HTTPServiceUnavailable
        match request.path:
            case "/.well-known/openid-configuration":
                return web.json_response(
                    {
                        "issuer": self.url,
                        "jwks_uri": f"{self.url}/keys",
                        "token_endpoint": f"{self.url}/token",
                        "device_authorization_endpoint": f"{self.url}/device",
                        **self.discovery_changes,
                    }
                )
            case "/keys":
                return web.json_response({"keys": [*self.extra_keys, self.key.public]})
            case "/device":
                self.forms.append({name: str(value) for name, value in (await request.post()).items()})
                return web.json_response(
                    {
                        "device_code": "device-code",
                        "user_code": "WDJB-MJHT",
                        "verification_uri": f"{self.url}/activate",
                        "interval": 0,
                        "expires_in": 60,
                    }
                )
            case "/token":
                self.forms.append({name: str(value) for name, value in (await request.post()).items()})
                status, body = self.device_answers.pop(0)
                return web.json_response(body, status=status)
            case _:
                raise web.HTTPNotFound


def unsigned(header: dict[str, object], claims: dict[str, object], signature: bytes = b"") -> str:
    """A token put together by hand, as an attacker would."""
    parts = (json.dumps(header).encode(), json.dumps(claims).encode(), signature)
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)


@asynccontextmanager
async def oidc_provider() -> AsyncIterator[OidcProvider]:
    """A provider on a free port while the block runs."""
    provider = OidcProvider()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", provider._answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.01)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        provider.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield provider
    finally:
        await runner.cleanup()
