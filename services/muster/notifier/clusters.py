"""The event `cluster-changed`: a cluster of the federation is drained, resumed, given up or back. Pure."""

from muster.notifier.events import EventType, Told, Words, rfc3339, rows
from muster.schemas.facts.federation import ClusterMoved
from muster.schemas.registry import StreamRole
from muster.schemas.webhooks import ClusterChanged

_TITLES = {
    "draining": "is being drained",
    "drained": "is drained",
    "resumed": "gets jobs again",
    "lost": "is given up",
    "returned": "is back",
}
_MOODS = {"lost": "bad", "returned": "good", "resumed": "good"}


def body(told: Told) -> ClusterChanged:
    """What a receiver is sent."""
    fact, moved = told.fact, told.fact.payload
    assert isinstance(moved, ClusterMoved), f"{fact.name} is no state of a cluster"
    return ClusterChanged(
        what=fact.name,
        cluster=fact.subject_id,
        principal=moved.principal,
        reason=moved.reason,
        to=moved.to,
        jobs=moved.jobs,
        changed_at=rfc3339(fact.time),
        url=told.url("/clusters"),
    )


def words(told: Told) -> Words:
    """The same for people."""
    changed = body(told)
    lines = (
        ("Jobs there", str(changed.jobs) if changed.jobs else ""),
        ("Jobs go to", ", ".join(changed.to)),
        ("By", changed.principal),
    )
    return Words(
        title=f"Cluster {changed.cluster} {_TITLES[changed.what]}",
        mood=_MOODS.get(changed.what, "plain"),
        lines=tuple((name, value) for name, value in lines if value),
        text=changed.reason,
        url=changed.url,
    )


CLUSTER_CHANGED = EventType(
    name="cluster-changed",
    what="a cluster of the federation is drained, resumed, given up because it is silent, or back",
    facts=rows(StreamRole.FED, "federation", "cluster", *_TITLES),
    jobs=lambda _: (),
    body=body,
    words=words,
)
