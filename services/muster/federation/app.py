"""Wiring only: what the federation folds, its routing rules, and the copier of the clusters' reports."""

from muster.bus.service import CoreService, Hosted
from muster.bus.settings import Settings
from muster.federation.copier import Copier, CopyTrimmer
from muster.federation.core import FederationCore, MemberPlan, answers
from muster.federation.declaration import DECLARATION
from muster.federation.metrics_sink import FederationSink
from muster.federation.reports import Desk
from muster.schemas.registry import StreamRole


def services(settings: Settings) -> tuple[CoreService | Hosted, ...]:
    """The federation of all clusters; without any named there it has one, this stack's own."""
    federation, desk = settings.federation, Desk()
    plans = tuple(MemberPlan(name or settings.cluster, lost_s) for name, lost_s in federation.lost_after().items())
    return (
        CoreService(
            declaration=DECLARATION,
            role=StreamRole.FED,
            core=lambda: desk.take(
                FederationCore(
                    members=plans,
                    policy=federation.policy,
                    margin_s=federation.margin_s,
                    checkpoint_every_facts=settings.scheduler.checkpoint_every_facts,
                )
            ),
            sink=FederationSink,
            queries={
                "federation": answers.answer_federation,
                "routes": answers.answer_routes,
                "routes-check": answers.answer_routes_check,
                "assignment": answers.answer_assignment,
            },
        ),
        Copier(DECLARATION, desk=desk if settings.role == "centre" else None),
        *((CopyTrimmer(DECLARATION),) if settings.role == "centre" and federation.copies_keep_s else ()),
    )
