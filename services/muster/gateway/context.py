"""The ports and settings that request handlers use."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from muster.bus.clock import SystemTime, TimeSource
from muster.bus.gateway_settings import KUBERNETES_OBJECTS_PREFIX, AccessSettings
from muster.checks.suites import PreflightPolicy
from muster.gateway.catalogue import CatalogueCache
from muster.gateway.cells import Cell, cell_named
from muster.gateway.dashboard import Site
from muster.gateway.identity.identities import Identities
from muster.gateway.leaders import Leadership, NoLeaders
from muster.gateway.limits import Limits
from muster.gateway.live import Live
from muster.gateway.metrics import Metrics
from muster.gateway.ports import Composer, Guard, Leaders, ReadView, RequestLog, Scaler, Scheduler, Tokens
from muster.gateway.views import Views
from muster.gateway.visibility import FULL_SIGHT, Facts, Sight, VisibleFacts, VisibleView, VisibleViews


@dataclass(frozen=True)
class AppContext:
    """All ports that handlers use, of all clusters or of one."""

    log: RequestLog
    view: ReadView
    scheduler: Scheduler
    composer: Composer
    scaler: Scaler
    guard: Guard
    tokens: Tokens
    catalogue: CatalogueCache
    feed: Facts
    views: Views
    time: TimeSource
    metrics: Metrics = field(default_factory=Metrics)
    live: Live | None = None
    """None if dashboards are not served, as with `site`."""
    site: Site | None = None
    cells: Mapping[str, Cell] = field(default_factory=dict)
    """The cells of all clusters, by name."""
    leaders: Leaders = field(default_factory=NoLeaders)
    """Leaders of services without a port of their own."""
    cluster: str = ""
    """The cluster of composer, scaler, guard and leaders."""
    preflight: PreflightPolicy = field(default_factory=PreflightPolicy)
    """The suites of checks that jobs may name."""
    access: AccessSettings = field(default_factory=AccessSettings)
    """The permissions and limits of each role."""
    leadership: Leadership = field(default_factory=lambda: Leadership({}, SystemTime()))
    """Tracks whether the required services have a leader."""
    sight: Sight = FULL_SIGHT
    """What the caller sees of other teams' jobs; a request's own context narrows it, the gateway itself sees all."""
    limits: Limits = field(default_factory=Limits)
    identities: Identities | None = None
    """Users of identity providers; None if only Muster's own tokens are valid."""

    def seen_by(self, sight: Sight) -> "AppContext":
        """Return this context with a read side that hides what the caller may not see."""
        if sight.is_full:
            return self
        view = VisibleView(self.view, sight)
        views = VisibleViews(self.view, self.scheduler, self.log, self.time, sight)
        return replace(self, view=view, views=views, feed=VisibleFacts(self.feed, sight), sight=sight)

    def is_reserved(self, principal: str) -> bool:
        """Return whether the name belongs to an identity provider, so that no token of Muster may have it."""
        of_objects = principal.startswith(KUBERNETES_OBJECTS_PREFIX)
        return of_objects or (self.identities is not None and self.identities.names(principal))

    def of_cluster(self, name: str) -> "AppContext":
        """Return this context for one cluster alone. Raises ProblemError (404)."""
        cell = cell_named(self.cells, name)
        return replace(
            self,
            view=cell.view if self.sight.is_full else VisibleView(cell.view, self.sight),
            scheduler=cell.scheduler,
            composer=cell.composer,
            scaler=cell.scaler,
            guard=cell.guard,
            leaders=cell.leaders,
            cluster=name,
            views=replace(self.views, view=cell.view, scheduler=cell.scheduler),
        )
