"""Settings of the gateway: its HTTP server and TLS, permissions of roles, and identity providers.

The sections are `http`, `access`, `identity` and `tls`.
"""

from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from muster.schemas.access import TOKEN_TEAMS_MAX, Role
from muster.schemas.base import Name
from muster.schemas.job import PRIORITY_MAX, Priority

KUBERNETES_OBJECTS_PREFIX = "kubernetes:"
"""Prefix of the principals of jobs from Kubernetes objects; no other principal may have it."""
TOKEN_BYTES_MAX = 16 * 1024
"""Maximum length of a bearer token. Providers that list many groups issue tokens of several KiB."""
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


def _network(text: str) -> str:
    ip_network(text)  # raises ValueError
    return text


Network = Annotated[str, AfterValidator(_network)]
"""An address or a network, `10.0.0.0/8` or `192.0.2.7`, without host bits."""


class HttpSettings(_Section):
    """Limits that apply before a token is read, so also to anonymous clients."""

    connections_max: Annotated[int, Field(ge=1, le=65_536)] = 4_096
    """Open connections of all clients, also those whose TLS handshake is under way. Above it the connection that was
    idle longest is closed; where none is idle, new connections may ask for `/healthz` and `/readyz` alone."""

    connections_per_address_max: Annotated[int, Field(ge=1, le=65_536)] = 256
    """Open connections of one IPv4 address or one IPv6 /64 network. Above it the connection of the same address that
    was idle longest is closed; where none is idle, new connections are refused (429; with TLS, closed before the
    handshake)."""

    proxies: tuple[Network, ...] = ()
    """Addresses and networks of ingresses, load balancers and NAT gateways in front of the gateway. Their connections
    are not limited by address, since many clients share them."""

    header_s_max: Annotated[float, Field(gt=0, le=3_600)] = 10.0
    """Time for the first request's header after connecting, with the TLS handshake if there is one, and for each header
    from its first byte."""

    body_s_max: Annotated[float, Field(gt=0, le=3_600)] = 30.0
    """Time for a request's body, from the end of its header."""

    idle_s_max: Annotated[float, Field(gt=0, le=3_600)] = 75.0
    """Time that a connection is kept open between two requests."""

    write_s_max: Annotated[float, Field(gt=0, le=3_600)] = 30.0
    """Time that a client may leave an answer unread once the buffers are full."""

    header_bytes_max: Annotated[int, Field(ge=1_024, le=1024 * 1024)] = 65_536
    """Bytes of a request's header, and of what follows a body (trailers)."""

    live_credential_s: Annotated[int, Field(ge=5, le=900)] = 20
    """Time for which the broker accepts a credential of the live view. A dashboard renews it before that; the broker
    ends the connection of a revoked or expired token after so long at most. Longer for programs that listen without
    renewing, shorter where dashboards are near the gateway."""


OtherTeams = Literal["all", "outline", "nothing"]
"""all: complete jobs of other teams. outline: without command and environment. nothing: no jobs of other teams."""


PerTime = Annotated[float, Field(gt=0, le=1_000_000)]
Burst = Annotated[int, Field(ge=1, le=10_000_000)]


class RoleSettings(_Section):
    """Limits of one role. They hold for each principal by itself, whatever the number of its tokens.

    A gateway counts what it answers itself, so that N replicas together allow up to N times as much.
    """

    priority_max: Priority = 100
    """Highest priority that a job may be given. Objects of Kubernetes may ask for as much as a submitter."""

    other_teams: OtherTeams = "outline"
    """What is shown of jobs of teams that the token does not name: `all`; `outline`, without command and environment;
    `nothing`."""

    requests_per_s: PerTime | None = None
    """HTTP requests per second, on average; None: any number."""

    requests_burst: Burst = 200
    """HTTP requests at once, while `requests_per_s` is set."""

    open_requests_max: Annotated[int, Field(ge=1)] | None = None
    """HTTP requests under way at one time, streams of facts (SSE) among them; None: any number."""

    writes_per_min: PerTime | None = None
    """Jobs submitted and other changes per minute, on average; None: any number. Each job of a batch counts as one, and
    each further 8 KiB of a job as one more."""

    writes_burst: Burst = 2_000
    """Jobs and other changes at once, while `writes_per_min` is set."""

    team_jobs_per_min: PerTime | None = None
    """Jobs per minute, on average, that all principals of the role together submit for one team; None: any number."""

    team_jobs_burst: Burst = 10_000
    """Jobs of one team at once, while `team_jobs_per_min` is set."""


class ViewerSettings(RoleSettings):
    """Limits of viewers."""

    requests_per_s: PerTime | None = 50
    open_requests_max: Annotated[int, Field(ge=1)] | None = 128
    writes_per_min: PerTime | None = 60
    writes_burst: Burst = 60


class SubmitterSettings(RoleSettings):
    """Limits of submitters."""

    requests_per_s: PerTime | None = 50
    open_requests_max: Annotated[int, Field(ge=1)] | None = 128
    writes_per_min: PerTime | None = 600
    team_jobs_per_min: PerTime | None = 3_000


class OperatorSettings(RoleSettings):
    """Limits of a role that acts for every team."""

    priority_max: Priority = PRIORITY_MAX
    other_teams: OtherTeams = "all"


class AccessSettings(_Section):
    """One section for each role, so that an administrator changes one without repeating the others.

    Operators and admins may ask for any number of things unless it is set.
    """

    viewer: ViewerSettings = ViewerSettings()
    """Limits of each viewer."""

    submitter: SubmitterSettings = SubmitterSettings()
    """Limits of each submitter, and of the teams that submitters submit for."""

    operator: OperatorSettings = OperatorSettings()
    """Limits of each operator."""

    admin: OperatorSettings = OperatorSettings()
    """Limits of each admin."""

    def of(self, role: Role) -> RoleSettings:
        """Return the section of a role."""
        sections: dict[Role, RoleSettings] = {
            Role.VIEWER: self.viewer,
            Role.SUBMITTER: self.submitter,
            Role.OPERATOR: self.operator,
            Role.ADMIN: self.admin,
        }
        return sections[role]


def is_protected(url: str) -> bool:
    """Return whether answers of this URL cannot be changed on the network: https, or this machine."""
    parts = urlsplit(url)
    return bool(parts.hostname) and (
        parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK)
    )


def _protected(url: str) -> str:
    if not is_protected(url):
        raise ValueError(f"{url!r}: give an https:// address (http:// is allowed on this machine alone)")
    return url


Prefix = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,30}:$")]
"""Prefix of all names and groups of one identity provider, so that providers cannot name each other's users."""


class GroupRoleSettings(_Section):
    """Permissions of the members of one group."""

    group: Annotated[str, Field(min_length=1, max_length=512)]
    """The group's name with the prefix of its source: `oidc:research`, `k8s:system:serviceaccounts:research`."""
    role: Role
    """The highest role of all groups of a user counts."""
    teams: Annotated[tuple[Name, ...], Field(max_length=TOKEN_TEAMS_MAX)] = ()
    """Teams that a submitter acts for; the teams of all groups of a user count."""

    @model_validator(mode="after")
    def _teams_where_they_count(self) -> Self:
        if self.role is Role.SUBMITTER and not self.teams:
            raise ValueError(f"teams: group {self.group!r}: a submitter needs at least one team")
        if self.role is Role.VIEWER and self.teams:  # another group's role would make them teams to submit for
            raise ValueError(f"teams: group {self.group!r}: a viewer acts for no team; leave out `teams`")
        return self


class OidcSettings(_Section):
    """Bearer tokens (JWTs) that an OpenID Connect provider signed."""

    issuer: Annotated[str, AfterValidator(_protected)]
    """The provider's issuer, exactly as its tokens write it (`iss`)."""
    audience: Annotated[str, Field(min_length=1, max_length=512)]
    """A token is accepted only if its `aud` names this audience."""
    prefix: Prefix = "oidc:"
    """Prefix of every name and group of this provider."""
    name_claim: Annotated[str, Field(min_length=1, max_length=128)] = "sub"
    """Claim that names the principal. `email` counts only where `email_verified` is true. Never choose a claim that
    users can change themselves."""
    groups_claim: Annotated[str, Field(min_length=1, max_length=128)] = "groups"
    """Claim with the list of the user's groups."""
    algorithms: Annotated[tuple[Literal["RS256", "ES256", "EdDSA"], ...], Field(min_length=1)] = (
        "RS256",
        "ES256",
        "EdDSA",
    )
    """Signature algorithms that are accepted."""
    ca_file: Path | None = None
    """CA certificates that the provider's certificate is verified with; None: the system's."""
    leeway_s: Annotated[float, Field(ge=0, le=120)] = 30.0
    """Maximum deviation of the provider's clock, in seconds."""
    cache_s: Annotated[float, Field(gt=0, le=3_600)] = 60.0
    """Time after which a verified token is verified again, in seconds; at most its remaining validity."""
    keys_refresh_s: Annotated[float, Field(gt=0, le=86_400)] = 3_600.0
    """Age at which the provider's keys are fetched again."""
    keys_fetch_s_min: Annotated[float, Field(gt=0, le=3_600)] = 30.0
    """Minimum time between two fetches, in seconds, however many tokens name an unknown key."""
    keys_kept_s: Annotated[float, Field(gt=0, le=2_592_000)] = 86_400.0
    """Time for which keys are used while the provider does not answer, in seconds."""
    timeout_s: Annotated[float, Field(gt=0, le=60)] = 5.0
    """Timeout of one fetch of the provider's keys, in seconds."""


class TokenReviewSettings(_Section):
    """Bearer tokens of a Kubernetes API server, verified by TokenReview."""

    audience: Annotated[str, Field(min_length=1, max_length=512)] = "muster"
    """A token is accepted only if it was made for this audience (`serviceAccountToken.audience`)."""
    prefix: Prefix = "k8s:"
    """Prefix of every name and group of this cluster."""
    kubeconfig: Path | None = None
    """Kubeconfig of the API server; None: the service account of the pod."""
    context: str = ""
    """Context of the kubeconfig; "": its current one."""
    cache_s: Annotated[float, Field(gt=0, le=300)] = 30.0
    """Time for which an answer is cached, in seconds: a deleted service account keeps access for this long."""
    per_s: Annotated[float, Field(gt=0, le=1_000)] = 5.0
    """Reviews a second of tokens that were not accepted before; those that were have as many of their own."""
    burst: Annotated[int, Field(ge=1, le=1_000)] = 20
    """Reviews at once after an idle time."""
    timeout_s: Annotated[float, Field(gt=0, le=60)] = 5.0
    """Timeout of one review, in seconds."""


class IdentitySettings(_Section):
    """Identity providers, and the permissions of each group."""

    oidc: OidcSettings | None = None
    """An OpenID Connect provider whose tokens are accepted; None: no provider."""
    token_review: TokenReviewSettings | None = None
    """A Kubernetes cluster whose tokens are accepted; None: no cluster."""
    groups: Annotated[tuple[GroupRoleSettings, ...], Field(max_length=1_024)] = ()
    """Permissions of the members of each group."""
    no_group: Literal["refuse", "viewer"] = "refuse"
    """Users without a listed group: refused, or viewers."""
    cached_max: Annotated[int, Field(ge=1, le=1_000_000)] = 10_000
    """Maximum number of accepted tokens that are remembered, by hash."""
    refused_max: Annotated[int, Field(ge=1, le=1_000_000)] = 10_000
    """Maximum number of refused tokens that are remembered, by hash."""
    refused_s: Annotated[float, Field(gt=0, le=300)] = 10.0
    """Time for which a refused token is refused without another check, in seconds."""
    checks_max: Annotated[int, Field(ge=1, le=10_000)] = 256
    """Maximum number of tokens that are checked at a time; further requests get 503."""

    @model_validator(mode="after")
    def _prefixes_are_apart(self) -> Self:
        used = [source.prefix for source in (self.oidc, self.token_review) if source is not None]
        if KUBERNETES_OBJECTS_PREFIX in used:
            raise ValueError(f"prefix: {KUBERNETES_OBJECTS_PREFIX!r} names jobs of objects of Kubernetes; use another")
        if len(set(used)) < len(used):
            raise ValueError(f"prefix: oidc and token_review both have {used[0]!r}; give each one of its own")
        return self

    @model_validator(mode="after")
    def _groups_are_of_a_source(self) -> Self:
        prefixes = tuple(source.prefix for source in (self.oidc, self.token_review) if source is not None)
        for entry in self.groups:
            if not entry.group.startswith(prefixes):
                allowed = " or ".join(map(repr, prefixes)) or "the prefix of a source, and there is none"
                raise ValueError(f"groups: {entry.group!r} begins with no source's prefix; begin it with {allowed}")
        names = [entry.group for entry in self.groups]
        twice = next((name for name in names if names.count(name) > 1), None) if len(set(names)) < len(names) else None
        if twice is not None:
            raise ValueError(f"groups: {twice!r} is listed twice; list each group once")
        return self


class TlsSettings(_Section):
    """TLS of the gateway's port; without a certificate it speaks plain HTTP."""

    certificate: Path | None = None
    """PEM file: the gateway's certificate, then those of intermediate authorities."""
    key: Path | None = None
    """PEM file: the certificate's private key."""
    ca_file: Path | None = None
    """PEM file with the authority's certificate, by which clients on this machine verify the gateway."""
    reload_s: Annotated[float, Field(gt=0, le=3_600)] = 10.0
    """Interval between two checks of the files, in seconds; new files apply to new connections."""

    @property
    def is_on(self) -> bool:
        """Return whether the port uses TLS."""
        return self.certificate is not None

    @model_validator(mode="after")
    def _both_or_none(self) -> Self:
        if (self.certificate is None) != (self.key is None):
            raise ValueError("certificate, key: give both files, or none for plain HTTP")
        return self
