"""Events of Kubernetes about an object's job: few, and each once. What `kubectl describe` shows beside the status."""

import hashlib
from dataclasses import dataclass

from muster.agent.core.workloads.asking.pods import camel_reason
from muster.agent.core.workloads.asking.views import REJECTED
from muster.agent.core.workloads.moments import rfc3339
from muster.agent.core.workloads.records import Workload
from muster.agent.core.workloads.showing import phase_of, why, words
from muster.agent.core.workloads.values import REFUSED, Unfit, WorkloadView
from muster.core import Instant
from muster.kube.objects import JsonObject
from muster.schemas.job import Phase

COMPONENT = "muster-agent"
NAME_CHARS_MAX = 200
MESSAGE_CHARS_MAX = 1024
_GOOD = frozenset({Phase.QUEUED.value, Phase.PLACED.value, Phase.SUCCEEDED.value})
_TOLD = _GOOD | {
    Phase.STOPPING.value, Phase.FAILED.value, Phase.CANCELLED.value, Phase.TIMED_OUT.value, REFUSED, REJECTED,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class News:
    """What one event says. key: the same again is the same event."""

    key: str
    reason: str
    message: str
    is_good: bool


def news_of(record: Workload) -> News | None:
    """The event that the job's standing is worth; None for one that is worth none (it waits as before, it runs)."""
    phase, standing = phase_of(record), record.standing
    if phase not in _TOLD:
        return None
    is_short = phase == Phase.QUEUED and bool(standing.reason)
    reason = standing.reason if is_short or standing.stopping else phase
    return News(
        key=f"{record.uid}/{standing.attempt}/{phase}/{standing.reason if is_short else ''}",
        reason=camel_reason(reason or phase),
        message=(why(record) or f"job {record.job_id} in queue {standing.queue}")[:MESSAGE_CHARS_MAX],
        is_good=phase in _GOOD and not is_short,
    )


def rejection_news(unfit: Unfit, view: WorkloadView) -> News:
    """Of an object that can be no job."""
    message = words(unfit.reason, unfit.field, unfit.cure)
    return News(f"{view.uid}/{view.generation}/{REJECTED}", "Rejected", message, is_good=False)


def event(news: News, view: WorkloadView, *, now: Instant, name: str = "", uid: str = "") -> JsonObject:
    """An Event (core/v1) about the object. name, uid: of another object that it is about, in the same namespace."""
    at = rfc3339(now)
    about = name or view.name
    digest = hashlib.sha256(news.key.encode()).hexdigest()[:16]
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{about[:NAME_CHARS_MAX]}.{digest}", "namespace": view.namespace},
        "involvedObject": {
            "apiVersion": view.api_version,
            "kind": view.kind.value,
            "namespace": view.namespace,
            "name": about,
            "uid": uid or view.uid,
        },
        "type": "Normal" if news.is_good else "Warning",
        "reason": news.reason,
        "message": news.message,
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "reportingInstance": COMPONENT,
    }
