"""The events `hardware-changed` and `job-fault`: sick hardware, and programs that fault. Pure."""

from muster.core.fact import Fact
from muster.notifier.events import EventType, Told, Words, rfc3339, rows, trace_id
from muster.notifier.spans import span
from muster.schemas.facts.health import BrakeTripped, HealthMoved
from muster.schemas.facts.operations import JobFault
from muster.schemas.registry import StreamRole
from muster.schemas.webhooks import HardwareChanged, JobFaulted

_PERSON = "needs-person"
_TITLES = {
    "quarantined": "is out of use",
    "healthy": "is back in use",
    _PERSON: "needs a person",
    "brake-tripped": "stopped: too much looks broken",
}
_MOODS = {"healthy": "good", _PERSON: "bad", "brake-tripped": "bad"}


def body(told: Told) -> HardwareChanged:
    """What a receiver is sent."""
    fact, payload = told.fact, told.fact.payload
    if isinstance(payload, BrakeTripped):
        return HardwareChanged(
            what=fact.name,
            kind="brake",
            cluster=fact.cluster,
            reason=payload.because,
            changed_at=rfc3339(fact.time),
            url=told.url("/health"),
        )
    assert isinstance(payload, HealthMoved), f"{fact.name} is no state of hardware"
    return HardwareChanged(
        what=_PERSON if payload.needs_person else fact.name,
        kind=fact.kind,
        node=payload.node,
        device=fact.subject_id if fact.kind == "device" else "",
        cluster=fact.cluster,
        codes=payload.codes,
        reason=payload.because,
        attempts=payload.attempt,
        lasted_s=round(payload.lasted_s, 3),
        changed_at=rfc3339(fact.time),
        url=told.url("/health"),
    )


def words(told: Told) -> Words:
    """The same for people."""
    changed = body(told)
    whom = (
        "Health"
        if changed.kind == "brake"
        else f"{changed.device} of {changed.node}"
        if changed.device
        else changed.node
    )
    lines = (
        ("Faults", ", ".join(changed.codes)),
        ("Attempts", str(changed.attempts) if changed.attempts else ""),
        ("Lasted", span(changed.lasted_s) if changed.lasted_s else ""),
    )
    return Words(
        title=f"{whom} {_TITLES.get(changed.what, changed.what)}",
        mood=_MOODS.get(changed.what, "plain"),
        lines=tuple((name, value) for name, value in lines if value),
        text=changed.reason,
        url=changed.url,
    )


def fault_body(told: Told) -> JobFaulted:
    """What the owner is sent."""
    fact, fault = told.fact, _fault(told.fact)
    story = told.jobs.get(fact.subject_id)
    return JobFaulted(
        job_id=fact.subject_id,
        name=story.name if story is not None else "",
        team=story.team if story is not None else fault.team,
        cluster=fact.cluster,
        code=fault.code,
        node=fault.node,
        device=fault.device,
        reason=fault.detail,
        faulted_at=rfc3339(fault.at or fact.time),
        trace_id=trace_id(told.trace),
        url=told.url(f"/jobs/{fact.subject_id}"),
    )


def fault_words(told: Told) -> Words:
    """The same for people."""
    fault = fault_body(told)
    lines = (("Code", fault.code), ("Node", fault.node), ("GPU", fault.device), ("Team", fault.team))
    return Words(
        title=f"{fault.name or fault.job_id} faulted on a GPU",
        lines=tuple((name, value) for name, value in lines if value),
        text=fault.reason,
        url=fault.url,
    )


def _fault(fact: Fact) -> JobFault:
    assert isinstance(fact.payload, JobFault), f"{fact.name} is no fault of a job"
    return fact.payload


HARDWARE_CHANGED = EventType(
    name="hardware-changed",
    what="a node or GPU was taken out of use, needs a person, or is back; or health stopped itself",
    facts=(
        *rows(StreamRole.LOG, "health", "node", "quarantined", "healthy"),
        *rows(StreamRole.LOG, "health", "device", "quarantined", "healthy"),
        *rows(StreamRole.LOG, "health", "health", "brake-tripped"),
    ),
    jobs=lambda _: (),
    body=body,
    words=words,
)
JOB_FAULT = EventType(
    name="job-fault",
    what="a job's own program faulted on a GPU",
    facts=rows(StreamRole.LOG, "health", "job", "fault-told"),
    jobs=lambda fact: (fact.subject_id,),
    body=fault_body,
    words=fault_words,
)
