"""Projections of logs about nodes, and what they show."""

from kit.projector import Story
from muster.projector.core import ProjectorCore
from muster.projector.core.changes import Changes
from muster.schemas.base import Payload
from muster.schemas.views import NodeView


def project(story: Story, core: ProjectorCore | None = None) -> tuple[ProjectorCore, Changes]:
    core = core or ProjectorCore("atlas")
    for fact in story.facts:
        core.apply(fact)
    return core, core.take(facts_after=0)


def node_of(changes: Changes, name: str) -> NodeView:
    body = changes.nodes[name]
    assert body is not None
    return NodeView.model_validate_json(body)


def after(*said: tuple[str, str, str, Payload]) -> NodeView:
    """The node n1 once these stand in the log: kind, subject, name, body."""
    story = Story()
    story.node("n1")
    for kind, subject_id, name, payload in said:
        story.add(kind, subject_id, name, payload)
    _, changes = project(story)
    return node_of(changes, "n1")
