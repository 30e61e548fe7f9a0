"""Answers to questions about the API servers."""

from muster.core import Instant
from muster.core.fact import Core
from muster.guard.core.core import GuardCore
from muster.guard.core.report import report_of
from muster.schemas.apiserver import ApiServerReport
from muster.schemas.base import Wire


def answer_report(core: Core, _ask: Wire, _now: Instant) -> ApiServerReport:
    """To `report`: the newest look, and what was said."""
    assert isinstance(core, GuardCore)
    return report_of(core.look, core.state, core.config, guarded=core.guarded)
