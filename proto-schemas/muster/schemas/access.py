"""Access to the HTTP API: tokens as the KV bucket `tokens` keeps them, and the endpoints of a stack."""

import hashlib
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from muster.schemas.base import Label, Name, Wire

TOKENS_BUCKET = "tokens"
TOKEN_TEAMS_MAX = 64


class Role(StrEnum):
    """Permissions of a token's principal; each role includes the permissions of the roles before it.

    viewer: read. submitter: submit and cancel for its teams. operator: for every team, change queues, reserve.
    admin: create and revoke tokens.
    """

    VIEWER = "viewer"
    SUBMITTER = "submitter"
    OPERATOR = "operator"
    ADMIN = "admin"


class TokenRecord(Wire):
    """Value in the bucket `tokens` under `token_hash(token)`: the token's principal. The token itself is not stored."""

    principal: Label
    role: Role
    teams: Annotated[tuple[Name, ...], Field(max_length=TOKEN_TEAMS_MAX)] = ()
    expires_at_s: Annotated[int, Field(ge=0)] | None = None
    """Time from which the token is refused, in seconds since the Unix epoch; None: never."""


class TokenView(TokenRecord):
    """A token as an admin sees it. id: the hash it is stored under."""

    id: str


class TokenMade(TokenView):
    """Answer to the creation of a token: the only time that the token itself is shown."""

    token: str


class Allowance(Wire):
    """One rate limit of a principal at one gateway, and its remaining allowance."""

    what: str
    """`requests`, `writes` (jobs submitted and other changes) or `team-jobs`."""

    team: str = ""
    """The team whose members share the limit; "" for a limit of the principal."""

    per_min: int
    """Average number per minute."""

    burst: int
    """Maximum number at once, after a pause."""

    left: int
    """Number that may be made at once now."""


class MeView(TokenRecord):
    """The token's principal, and its rate limits; a role without limits has none."""

    limits: tuple[Allowance, ...] = ()


class Endpoints(Wire):
    """`<state-dir>/run/endpoints.json`: the endpoints of a running stack. http: base URL of the API.

    monitor: nats-server's own HTTP monitoring. websocket: NATS for browsers. metrics: one page per service process.
    ports: by name, so that the next start uses the same ones.
    """

    http: str
    ca_file: str = ""
    """CA certificate with which clients verify the API; "": the system's."""
    nats: str = ""
    redis: str = ""
    monitor: str = ""
    websocket: str = ""
    metrics: tuple[str, ...] = ()
    ports: dict[str, int] = Field(default_factory=dict)


def token_hash(token: str) -> str:
    """Return the key of a token in the bucket: SHA-256 in hex. Tokens have 256 random bits and need no salt."""
    return hashlib.sha256(token.encode()).hexdigest()
