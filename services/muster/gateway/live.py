"""Snapshots for the live view, and short-lived credentials with which dashboards subscribe to the broker."""

import logging
import os
from dataclasses import dataclass, field
from pathlib import Path

from muster.bus.clock import TimeSource
from muster.bus.gateway_settings import AccessSettings
from muster.bus.jwt import EVERY_TEAM, SEED_BYTES, VIEW_SIGNER_FILE, ViewSigner, key_of_seed, mint_view_user
from muster.bus.settings import Settings
from muster.core.instant import NS_PER_S
from muster.gateway.authorise import Principal
from muster.gateway.live_connections import Bearer, LiveEnds
from muster.gateway.problems import unavailable
from muster.gateway.readings import Readings
from muster.gateway.snapshot import Snapshots, audiences_of
from muster.gateway.visibility import sight_of
from muster.schemas.access import Role
from muster.schemas.live import FED_CLUSTER, LiveCredential

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Credentials:
    """Creates the broker users of dashboards."""

    clusters: tuple[str, ...]
    url: str
    """URL of the broker's WebSocket."""
    signer: ViewSigner | None
    """None if this gateway has no signing key."""
    time: TimeSource
    lifetime_s: int
    """Lifetime of a user, in seconds. It cannot be revoked at the broker, so it is short, and renewed."""
    ends: LiveEnds
    """Closes connections whose token is no longer valid."""
    access: AccessSettings = field(default_factory=AccessSettings)

    def give(self, principal: Principal, bearer: Bearer) -> LiveCredential:
        """Return a user for this principal's teams (all teams, if it sees all); it expires with the token.

        Raises ProblemError (503).
        """
        if self.signer is None or not self.url:
            raise unavailable("this gateway serves no live view: it has no WebSocket URL, or no signing key")
        teams = (EVERY_TEAM,) if self._sees_all(principal) else _teams(principal)
        now_s = self.time.wall() // NS_PER_S
        token_s = self.lifetime_s if principal.expires_at_s is None else principal.expires_at_s - now_s
        user = mint_view_user(
            self.signer,
            clusters=self.clusters,
            teams=teams,
            now_s=now_s,
            expires_in_s=max(1, min(self.lifetime_s, token_s)),
            entropy=os.urandom(SEED_BYTES),
        )
        self.ends.given(bearer, user=key_of_seed(user.seed).public, expires_at_s=user.expires_at_s)
        return LiveCredential(
            url=self.url,
            jwt=user.jwt,
            seed=user.seed,
            inbox_prefix=user.inbox_prefix,
            expires_at_s=user.expires_at_s,
            clusters=(*self.clusters, FED_CLUSTER),
            audiences=self.audiences(principal),
        )

    def audiences(self, principal: Principal) -> tuple[str, ...]:
        """Return the audiences that this principal's dashboard may subscribe to."""
        return audiences_of(teams=_teams(principal), sees_all=self._sees_all(principal))

    def _sees_all(self, principal: Principal) -> bool:
        """Return whether this principal's dashboard receives the facts of every team."""
        return principal.is_at_least(Role.OPERATOR) and sight_of(principal, self.access).is_full


@dataclass(frozen=True)
class Live:
    """The parts of the live view."""

    snapshots: Snapshots
    credentials: Credentials
    readings: Readings


def _teams(principal: Principal) -> tuple[str, ...]:
    """Return the teams that the principal acts for; other principals see only public facts."""
    return tuple(sorted(team for team in principal.teams if principal.acts_for(team)))


def view_signer(settings: Settings) -> ViewSigner | None:
    """Return the signing key of credentials, or None without its file. Raises ValueError if the file is invalid."""
    path = Path(settings.credentials_dir) / VIEW_SIGNER_FILE
    try:
        return ViewSigner.load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        _log.warning("%s does not exist: dashboards get no live view from this gateway", path)
        return None
