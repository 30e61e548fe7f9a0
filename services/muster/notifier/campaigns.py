"""The event `campaign-changed`: an upgrade campaign began, stopped by itself, failed on a node, or is over. Pure."""

from muster.core.fact import Fact
from muster.notifier.events import EventType, Told, Words, rfc3339, rows
from muster.notifier.spans import span
from muster.schemas.facts.upgrade import CampaignAccepted, CampaignChanged, CampaignEnded, CampaignStopped
from muster.schemas.registry import StreamRole
from muster.schemas.webhooks import CampaignTold

_TITLES = {
    "accepted": "has started",
    "stopped": "stopped: look at it",
    "aborted": "was aborted",
    "ended": "is over",
}


def body(told: Told) -> CampaignTold:
    """What a receiver is sent."""
    fact = told.fact
    known = {
        "what": fact.name,
        "campaign": fact.subject_id,
        "cluster": fact.cluster,
        "changed_at": rfc3339(fact.time),
        "url": told.url("/campaigns"),
    }
    return CampaignTold.model_validate({**known, **_details(fact)})


def words(told: Told) -> Words:
    """The same for people."""
    changed = body(told)
    lines = (
        ("Upgrades", changed.component),
        ("Nodes", str(changed.nodes) if changed.nodes else ""),
        ("Done", str(changed.done) if changed.what == "ended" else ""),
        ("Failed", ", ".join(changed.failed_nodes) or (str(changed.failed) if changed.failed else "")),
        ("Took", span(changed.took_s) if changed.took_s else ""),
        ("Lost", f"{changed.gpu_hours_lost:,.1f} GPU-hours" if changed.what == "ended" else ""),
        ("By", changed.principal),
    )
    is_bad = changed.what == "stopped" or bool(changed.failed)
    return Words(
        title=f"Campaign {changed.campaign} {_TITLES.get(changed.what, changed.what)}",
        mood="bad" if is_bad else "good" if changed.what == "ended" else "plain",
        lines=tuple((name, value) for name, value in lines if value),
        text=changed.reason,
        url=changed.url,
    )


def _details(fact: Fact) -> dict[str, object]:
    match fact.payload:
        case CampaignAccepted(spec=spec, principal=principal, nodes=nodes):
            component = f"{spec.component.value} {spec.version}".strip()
            return {"component": component, "principal": principal, "nodes": nodes, "reason": spec.reason}
        case CampaignStopped(reason=reason, failed=failed):
            return {"reason": reason, "failed": len(failed), "failed_nodes": failed}
        case CampaignChanged(reason=reason, principal=principal):
            return {"reason": reason, "principal": principal}
        case CampaignEnded() as ended:
            return {
                "reason": ended.reason,
                "done": ended.done,
                "failed": ended.failed,
                "failed_nodes": ended.failed_nodes,
                "took_s": round(ended.took_s, 3),
                "gpu_hours_lost": ended.gpu_hours_lost,
            }
        case other:
            raise AssertionError(f"{fact.name} with {type(other).__name__} is nothing that campaigns say")


CAMPAIGN_CHANGED = EventType(
    name="campaign-changed",
    what="an upgrade campaign began, stopped by itself, was aborted, or is over",
    facts=rows(StreamRole.LOG, "upgrader", "campaign", "accepted", "stopped", "aborted", "ended"),
    jobs=lambda _: (),
    body=body,
    words=words,
)
