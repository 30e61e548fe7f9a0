"""Parse a bearer token before it is verified: enough to choose the identity provider, and no more."""

from collections.abc import Mapping
from dataclasses import dataclass

import jwt

from muster.bus.gateway_settings import TOKEN_BYTES_MAX


@dataclass(frozen=True, slots=True)
class UnverifiedToken:
    """A bearer token in the form of a JWT. Header and claims are not verified yet."""

    text: str
    header: Mapping[str, object]
    claims: Mapping[str, object]

    @property
    def issuer(self) -> str:
        """Return the claimed issuer; "" if there is none."""
        issuer = self.claims.get("iss")
        return issuer if isinstance(issuer, str) else ""

    def is_for(self, audience: str) -> bool:
        """Return whether the token claims this audience, among others or alone."""
        said = self.claims.get("aud")
        return said == audience or (isinstance(said, list) and audience in said)


def parse_unverified(text: str) -> UnverifiedToken | None:
    """Return the token's parts, or None if it is too long or not a JWT."""
    if len(text) > TOKEN_BYTES_MAX or text.count(".") != 2:
        return None
    try:
        parts = jwt.decode_complete(text, options={"verify_signature": False})
    except (jwt.PyJWTError, ValueError, RecursionError):  # deeply nested documents, long numbers
        return None
    return UnverifiedToken(text, parts["header"], parts["payload"])
