"""Who may use the HTTP API: tokens as the KV bucket `tokens` keeps them, and where a stack listens."""

import hashlib
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from muster.schemas.base import Label, Name, Wire

TOKENS_BUCKET = "tokens"
TOKEN_TEAMS_MAX = 64


class Role(StrEnum):
    """What a token's bearer may do; each role may also do what the ones before it may.

    viewer: read. submitter: submit and cancel for its teams. operator: for every team, change queues, reserve.
    admin: make and revoke tokens.
    """

    VIEWER = "viewer"
    SUBMITTER = "submitter"
    OPERATOR = "operator"
    ADMIN = "admin"


class TokenRecord(Wire):
    """Value in the bucket `tokens` under `token_hash(token)`: whose token it is. The token itself is stored nowhere."""

    principal: Label
    role: Role
    teams: Annotated[tuple[Name, ...], Field(max_length=TOKEN_TEAMS_MAX)] = ()
    expires_at_s: Annotated[int, Field(ge=0)] | None = None
    """Seconds since the Unix epoch, from which on the token is refused; None: never."""


class TokenView(TokenRecord):
    """A token as an admin sees it. id: the hash it is stored under."""

    id: str


class TokenMade(TokenView):
    """Answer to making a token: the only time that the token itself is shown."""

    token: str


class Allowance(Wire):
    """One limit of a principal at one gateway, and what is left of it."""

    what: str
    """`requests`, `writes` (jobs submitted and other changes) or `team-jobs`."""

    team: str = ""
    """The team whose members share the limit; "" for a limit of the principal."""

    per_min: int
    """How many per minute, on average."""

    burst: int
    """How many at once, after a pause."""

    left: int
    """How many at once now."""


class MeView(TokenRecord):
    """Answer to who asks: the token's bearer, and the limits that hold for it; a role without limits has none."""

    limits: tuple[Allowance, ...] = ()


class Endpoints(Wire):
    """`<state-dir>/run/endpoints.json`: where a running stack listens. http: base URL of the API.

    monitor: nats-server's own HTTP monitoring. websocket: NATS for browsers. metrics: one page per service process.
    ports: by name, so that the next start takes the same ones.
    """

    http: str
    ca_file: str = ""
    """Certificate of the authority that clients verify the API with; "": those that the system trusts."""
    nats: str = ""
    redis: str = ""
    monitor: str = ""
    websocket: str = ""
    metrics: tuple[str, ...] = ()
    ports: dict[str, int] = Field(default_factory=dict)


def token_hash(token: str) -> str:
    """Key of a token in the bucket: SHA-256 in hex. Tokens are 256 random bits, so no salt or stretching is needed."""
    return hashlib.sha256(token.encode()).hexdigest()
