"""What a TokenReview says of tokens that the fake API server knows."""

from collections.abc import Mapping
from dataclasses import dataclass

from muster.kube.objects import JsonObject, sequence, text


@dataclass(frozen=True)
class Bearer:
    """Whose a token is, and which audiences it was made for; None: of an authenticator that knows no audiences."""

    username: str
    groups: tuple[str, ...] = ()
    audiences: tuple[str, ...] | None = ()


def reviewed(spec: JsonObject, bearers: Mapping[str, Bearer]) -> JsonObject:
    """Return the status of a review, as a real server fills it in."""
    bearer = bearers.get(text(spec, "token"))
    if bearer is None:
        return {"authenticated": False, "user": {}, "error": "invalid bearer token"}
    user: JsonObject = {"username": bearer.username, "uid": "u-1", "groups": list(bearer.groups)}
    if bearer.audiences is None:
        return {"authenticated": True, "user": user}
    wanted = sequence(spec, "audiences")
    common: list[object] = [one for one in wanted if one in bearer.audiences]
    if not common:
        told = f"token audiences {list(bearer.audiences)} is invalid for the target audiences {wanted}"
        return {"authenticated": False, "user": {}, "error": told}
    return {"authenticated": True, "user": user, "audiences": common}
