"""What a bearer token says of itself before anything is verified: enough to know who is to be asked, and no more."""

from collections.abc import Mapping
from dataclasses import dataclass

import jwt

from muster.bus.gateway_settings import TOKEN_BYTES_MAX


@dataclass(frozen=True, slots=True)
class UnverifiedToken:
    """A bearer token of the form of a JWT. Nothing in header and claims may be believed yet."""

    text: str
    header: Mapping[str, object]
    claims: Mapping[str, object]

    @property
    def issuer(self) -> str:
        """Return who is said to have made it; "" if nobody is."""
        issuer = self.claims.get("iss")
        return issuer if isinstance(issuer, str) else ""

    def is_for(self, audience: str) -> bool:
        """Return whether it is said to be for this audience, among others or alone."""
        said = self.claims.get("aud")
        return said == audience or (isinstance(said, list) and audience in said)


def parse_unverified(text: str) -> UnverifiedToken | None:
    """Return the token's parts, or None if it is too long or no JWT."""
    if len(text) > TOKEN_BYTES_MAX or text.count(".") != 2:
        return None
    try:
        parts = jwt.decode_complete(text, options={"verify_signature": False})
    except (jwt.PyJWTError, ValueError, RecursionError):  # documents nested too deeply, numbers too long
        return None
    return UnverifiedToken(text, parts["header"], parts["payload"])
