"""JWTs of an OpenID Connect provider, verified. Signatures are PyJWT's; what counts of the claims is said here."""

import jwt
from jwt.types import Options

from muster.bus.clock import TimeSource
from muster.bus.gateway_settings import OidcSettings
from muster.core.instant import NS_PER_S, Instant
from muster.gateway.identity.mapping import RejectedTokenError, User
from muster.gateway.identity.provider_keys import ProviderKeys
from muster.gateway.identity.unverified import UnverifiedToken

TYPES = frozenset({"jwt", "at+jwt", "application/at+jwt"})
"""Of access and ID tokens (`typ`); a provider signs other things with the same keys, such as logout tokens."""
_OPTIONS: Options = {
    "require": ["iss", "aud", "sub", "exp"],
    "verify_aud": True,
    "verify_iss": True,
    "verify_exp": False,  # times are compared with the gateway's clock, below
    "verify_nbf": False,
    "verify_iat": False,
}
_EXP_MAX_S = 2**33
"""Of `exp` and `nbf`: the year 2242. More is a mistake, or milliseconds."""


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
        """Return whether the token says that this provider made it."""
        return token.issuer == self._settings.issuer

    async def verify(self, token: UnverifiedToken) -> User:
        """Return whose token it is. Raises RejectedTokenError; UnreachableError without the provider's keys."""
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
        """Return algorithm and id of the key. Raises RejectedTokenError for what is not accepted from anybody."""
        algorithm, key_id, kind = (token.header.get(name) for name in ("alg", "kid", "typ"))
        if not isinstance(algorithm, str) or algorithm not in self._settings.algorithms:
            allowed = ", ".join(self._settings.algorithms)
            raise RejectedTokenError(f"the token's signature algorithm is not accepted; accepted are {allowed}")
        if not isinstance(key_id, str) or not key_id:
            raise RejectedTokenError("the token does not name its signature key (`kid`)")
        if kind is not None and (not isinstance(kind, str) or kind.lower() not in TYPES):
            raise RejectedTokenError("the token is neither an access token nor an ID token (`typ`)")
        if "crit" in token.header:
            raise RejectedTokenError("the token demands extensions (`crit`), and none is supported")
        return algorithm, key_id

    def _checked_times(self, claims: dict[str, object]) -> Instant:
        """Return when the token ends. Raises RejectedTokenError if it has ended or did not begin."""
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
            raise RejectedTokenError(f"the token has no text in the claim `{claim}`, which names the user")
        if claim == "email" and claims.get("email_verified") is not True:
            raise RejectedTokenError("the token's email address was not verified by its issuer (`email_verified`)")
        return name


def _told(error: Exception) -> str:
    """Return what is wrong, without anything that the token said."""
    match error:
        case jwt.InvalidAudienceError():
            return "it is for another audience"
        case jwt.MissingRequiredClaimError():
            return f"it has no claim `{error.claim}`"
        case jwt.InvalidSignatureError():
            return "its signature is wrong"
        case _:
            return type(error).__name__.removesuffix("Error")


def _seconds(claims: dict[str, object], name: str) -> float:
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _EXP_MAX_S:
        raise RejectedTokenError(f"the claim `{name}` is no time in seconds")
    return float(value)


def _groups(claim: object) -> tuple[str, ...]:
    if claim is None:
        return ()
    listed = [claim] if isinstance(claim, str) else claim
    if not isinstance(listed, list) or not all(isinstance(group, str) for group in listed):
        raise RejectedTokenError("the claim with the user's groups is no list of texts")
    return tuple(listed)
