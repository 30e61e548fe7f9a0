"""What a request handler needs, in one place, and the steps that every handler begins with."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from starlette.requests import ClientDisconnect, Request

from muster.bus.access_settings import AccessSettings
from muster.bus.clock import SystemTime, TimeSource
from muster.bus.identity_settings import KUBERNETES_OBJECTS_PREFIX
from muster.checks.suites import PreflightPolicy
from muster.gateway.asking import NoLeaders
from muster.gateway.authenticate import PRINCIPAL, is_read
from muster.gateway.authorise import Principal
from muster.gateway.catalogue import CatalogueCache
from muster.gateway.cells import Cell, cell_named
from muster.gateway.dashboard import Site
from muster.gateway.identity.identities import Identities
from muster.gateway.leading import Leadership
from muster.gateway.limits import Limits
from muster.gateway.live import Live
from muster.gateway.metrics import Metrics
from muster.gateway.ports import Composer, Guard, Leaders, ReadView, RequestLog, Scaler, Scheduler, Tokens
from muster.gateway.problems import ProblemError, forbidden, invalid, timed_out, too_large
from muster.gateway.views import Views
from muster.gateway.visibility import FULL_SIGHT, Facts, Sight, VisibleFacts, VisibleView, VisibleViews, sight_of
from muster.schemas.base import BODY_BYTES_MAX

JOB_ID = re.compile(r"[A-Z2-7]{26}")
REASON_CHARS_MAX = 1_024
DRAINED_BYTES_MAX = 32 * 1024 * 1024  # of a body that is refused: a client that still writes would not read the answer


@dataclass(frozen=True)
class AppContext:
    """Everything behind the door. live, site: None where dashboards are not served. cells: each cluster by itself.

    leaders: of services that answer questions and have no port of their own. cluster: the one that composer, scaler,
    guard and leaders are of. preflight: which suites jobs may name. leadership: whether those are led that must be.
    """

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
    site: Site | None = None
    cells: Mapping[str, Cell] = field(default_factory=dict)
    leaders: Leaders = field(default_factory=NoLeaders)
    cluster: str = ""
    preflight: PreflightPolicy = field(default_factory=PreflightPolicy)
    access: AccessSettings = field(default_factory=AccessSettings)
    """What each role may ask for."""
    leadership: Leadership = field(default_factory=lambda: Leadership({}, SystemTime()))
    sight: Sight = FULL_SIGHT
    """What the caller sees of other teams' jobs; `context_of` narrows it, the gateway itself sees all."""
    limits: Limits = field(default_factory=Limits)
    identities: Identities | None = None
    """Users whom others vouch for; None where only Muster's own tokens count."""

    def seen_by(self, sight: Sight) -> "AppContext":
        """Return the same with nothing on its read side that the caller may not see."""
        if sight.is_full:
            return self
        view = VisibleView(self.view, sight)
        views = VisibleViews(self.view, self.scheduler, self.log, self.time, sight)
        return replace(self, view=view, views=views, feed=VisibleFacts(self.feed, sight), sight=sight)

    def is_reserved(self, principal: str) -> bool:
        """Return whether no token of Muster's own may be this principal's: others vouch for users of such names."""
        of_objects = principal.startswith(KUBERNETES_OBJECTS_PREFIX)
        return of_objects or (self.identities is not None and self.identities.names(principal))

    def of_cluster(self, name: str) -> "AppContext":
        """The same as if there were no other cluster. Raises ProblemError (404)."""
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


def whole_context_of(request: Request) -> AppContext:
    """The context that this application was made for, whatever cluster the request names."""
    context = request.app.state.context
    assert isinstance(context, AppContext), "the application is wired with a context"
    return context


def context_of(request: Request) -> AppContext:
    """The context that this application was made for, or one cluster's part of it if the request names one.

    Its read side shows what the caller may see. Raises ProblemError (404) if there is no such cluster.
    """
    context = whole_context_of(request)
    cluster = request.query_params.get("cluster", "") if context.cells else ""
    sight = sight_of(request.scope.get(PRINCIPAL), context.access)
    return (context.of_cluster(cluster) if cluster else context).seen_by(sight)


def principal_of(request: Request) -> Principal:
    """Return who asks: `Authentication` has let nobody else through.

    Raises ProblemError (403) for a route that this principal may not read.
    """
    principal = request.scope[PRINCIPAL]
    assert isinstance(principal, Principal), "the application is wired with Authentication"
    context = whole_context_of(request)
    route = str(getattr(request.scope.get("route"), "path", ""))
    if is_read(request.method, route) and not sight_of(principal, context.access).may_read(route):
        raise forbidden(
            f"{principal.name} ({principal.role.value}) sees nothing of other teams, and this speaks of all",
            field="Authorization",
            cure=f"Have an admin set access.{principal.role.value}.other_teams to outline.",
        )
    return principal


async def body_of(request: Request) -> bytes:
    """The body, up to its limit and never more; what is longer is read past, then refused.

    Raises ProblemError (408, 413, 422).
    """
    declared = request.headers.get("content-length", "0")
    if not declared.isdecimal():
        raise invalid("not a number", field="Content-Length")
    is_refused = int(declared) > BODY_BYTES_MAX
    if int(declared) > DRAINED_BYTES_MAX or (is_refused and "expect" in request.headers):
        raise _body_too_large()  # too much to read past; or a client that asked before it writes
    chunks, read_bytes = bytearray(), 0
    try:
        async for chunk in request.stream():
            read_bytes += len(chunk)
            if read_bytes <= BODY_BYTES_MAX:
                chunks += chunk
            elif read_bytes > DRAINED_BYTES_MAX:
                break
    except ClientDisconnect as error:
        raise timed_out("the connection ended before the body did", field="body") from error
    if is_refused or read_bytes > BODY_BYTES_MAX:
        raise _body_too_large()
    return bytes(chunks)


def job_id_of(request: Request) -> str:
    """The job that the path names. Raises ProblemError (422)."""
    job_id = str(request.path_params["job_id"])
    if not JOB_ID.fullmatch(job_id):
        raise invalid(f"{job_id[:40]!r} is no job id", field="job_id", cure="An id has 26 letters and digits.")
    return job_id


def count_of(request: Request, *, name: str, default: int, most: int) -> int:
    """A bounded whole number from the query. Raises ProblemError (422)."""
    text = request.query_params.get(name, str(default))
    if not (text.isascii() and text.isdecimal() and len(text) < 10 and 1 <= int(text) <= most):
        raise invalid(f"{text[:20]!r} is not between 1 and {most}", field=name, cure=f"Send 1 to {most}.")
    return int(text)


def reason_of(request: Request) -> str:
    """Why somebody asks, for the record. Raises ProblemError (422)."""
    reason = request.query_params.get("reason", "")
    if len(reason) > REASON_CHARS_MAX:
        raise invalid(f"at most {REASON_CHARS_MAX} characters", field="reason", cure="Say it shorter.")
    return reason


def flag_of(request: Request, name: str, *, default: bool = False) -> bool:
    """A yes or no from the query. Raises ProblemError (422)."""
    text = request.query_params.get(name, str(default)).lower()
    if text not in ("true", "false", "1", "0"):
        raise invalid(f"{text[:20]!r} is neither true nor false", field=name, cure="Send true or false.")
    return text in ("true", "1")


def _body_too_large() -> ProblemError:
    return too_large(
        f"a body may have {BODY_BYTES_MAX} bytes", field="body", cure="Send a smaller specification.", close=True
    )
