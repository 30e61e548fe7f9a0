"""Who may speak to a simulated Fsas manager: the OpenID Connect password grant, and tokens that expire.

A token is a JWT (RFC 7519) signed with HMAC-SHA256 by a key that follows from the credentials, so it stays good over a
restart until its `exp`.
"""

import base64
import hashlib
import hmac
import json
from dataclasses import dataclass
from pathlib import Path

from muster.core import NS_PER_S, Instant
from muster.fabric.simulator.problems import Refusal
from muster.fabric.token import Credentials


def read_login(path: Path) -> Credentials:
    """From a JSON file. Raises OSError and pydantic.ValidationError, which names the field and never its value."""
    return Credentials.model_validate_json(path.read_bytes())


@dataclass(frozen=True, slots=True)
class Tokens:
    """Gives tokens for one fabric and knows them again. life_s: how long one is good."""

    fabric: str
    login: Credentials
    life_s: float

    def grant(self, realm: str, form: dict[str, str], *, now: Instant) -> dict[str, object]:
        """The answer to a token request. Raises Refusal: 404, no such realm; 400, another grant; 401, wrong login."""
        if realm != self.login.realm:
            raise Refusal(404, "invalid_request", f"realm {realm!r} does not exist")
        if form.get("grant_type") != "password":
            raise Refusal(400, "unsupported_grant_type", "grant_type: only password is served")
        for field, known in self._known().items():
            if not hmac.compare_digest(form.get(field, "").encode(), known.encode()):
                client = field.startswith("client")
                code = "invalid_client" if client else "invalid_grant"
                raise Refusal(401, code, "the client is not known" if client else "username or password is wrong")
        token = self._token(now)
        return {
            "access_token": token,
            "id_token": token,
            "token_type": "Bearer",
            "expires_in": self.life_s,
            "scope": "openid",
        }

    def check(self, authorization: str | None, *, now: Instant) -> None:
        """Raises Refusal (401) unless the header carries a token of ours that has not expired."""
        scheme, _, token = (authorization or "").partition(" ")
        signed, _, signature = token.rpartition(".")
        if scheme.lower() != "bearer" or not hmac.compare_digest(signature.encode(), self._sign(signed).encode()):
            raise Refusal(401, "Unauthorized", "Authorization: a bearer token of this manager is needed")
        claims = json.loads(_decoded(signed.partition(".")[2]))
        if now >= claims["exp"] * NS_PER_S:
            raise Refusal(401, "Unauthorized", "the token has expired")

    def _known(self) -> dict[str, str]:
        """Fields of the form, in the order in which they are compared."""
        return {
            "client_id": self.login.client_id,
            "client_secret": self.login.client_secret.get_secret_value(),
            "username": self.login.username,
            "password": self.login.password.get_secret_value(),
        }

    def _token(self, now: Instant) -> str:
        begun_s = now / NS_PER_S
        claims = {
            "iss": f"fabric-simulator/{self.fabric}",
            "preferred_username": self.login.username,
            "iat": round(begun_s, 3),
            "exp": round(begun_s + self.life_s, 3),
        }
        head = _encoded(json.dumps({"alg": "HS256", "typ": "JWT"}).encode())
        signed = f"{head}.{_encoded(json.dumps(claims).encode())}"
        return f"{signed}.{self._sign(signed)}"

    def _sign(self, signed: str) -> str:
        known = self._known()
        key = "\x1f".join((self.fabric, self.login.realm, known["password"], known["client_secret"])).encode()
        return _encoded(hmac.digest(hashlib.sha256(key).digest(), signed.encode(), "sha256"))


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
