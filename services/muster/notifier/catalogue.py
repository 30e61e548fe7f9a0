"""The table of events that webhooks can ask for, by name. Later parts of Muster add rows. Pure."""

from collections.abc import Collection

from muster.core.fact import Fact
from muster.notifier.campaigns import CAMPAIGN_CHANGED
from muster.notifier.clusters import CLUSTER_CHANGED
from muster.notifier.events import EventType
from muster.notifier.hardware import HARDWARE_CHANGED, JOB_FAULT
from muster.notifier.job_ended import JOB_ENDED
from muster.notifier.scale_chosen import SCALE_CHOSEN
from muster.schemas.registry import StreamRole
from muster.schemas.subjects import LogName, fact_subject

EVENTS: dict[str, EventType] = {
    event.name: event
    for event in (JOB_ENDED, SCALE_CHOSEN, HARDWARE_CHANGED, JOB_FAULT, CAMPAIGN_CHANGED, CLUSTER_CHANGED)
}


def patterns(names: Collection[str], log: LogName) -> tuple[str, ...]:
    """Subjects of `log` whose facts are one of these events, sorted; none if the log holds no such fact."""
    wanted = {
        fact_subject(log, writer=row.writer, kind=row.kind, subject_id="*", name=row.name, cluster=_anybody(log))
        for name in names
        for row in EVENTS[name].facts
        if row.stream is log.role
    }
    return tuple(sorted(wanted))


def event_of(names: Collection[str], fact: Fact) -> EventType | None:
    """Which of these events the fact is."""
    return next((EVENTS[name] for name in names if EVENTS[name].is_made_by(fact)), None)


def _anybody(log: LogName) -> str:
    return "*" if log.role is StreamRole.FED else ""
