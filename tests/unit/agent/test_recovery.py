"""An agent that comes back from a checkpoint in the middle of a story tells its rest like one that never died."""

from collections.abc import Callable

import pytest

from kit.agent import VirtualAgent, job, slot
from muster.core import NS_PER_S, Draft, Instant
from muster.schemas.facts.job import JobPlaced, JobState, StopReason
from muster.schemas.job import Checkpointing, Phase

Story = list[Callable[[VirtualAgent], object]]

SAVING = job(1, run_s=300.0, exit_code=0, checkpointing=Checkpointing(interval_s=100.0, restart_s=20.0))


def preempt(agent: VirtualAgent) -> None:
    agent.stop(SAVING, reason=StopReason.PREEMPTED, grace_s=20.0)


PREEMPTED: Story = [
    lambda agent: agent.launch(SAVING),
    lambda agent: agent.advance(150),
    preempt,
    lambda agent: agent.advance(0.2),
    lambda agent: agent.advance(30),
    lambda agent: agent.place(SAVING, attempt=2),
    lambda agent: agent.advance(10),
    lambda agent: agent.advance(500),
]
LOST_WITHIN_THE_GRACE: Story = [
    lambda agent: agent.launch(SAVING),
    lambda agent: agent.advance(50),
    preempt,
    lambda agent: agent.advance(0.1),
    lambda agent: agent.write_loss("gpu-0001"),
    lambda agent: agent.advance(30),
]
LOST_AFTER_THE_LAST_CHECKPOINT: Story = [
    *LOST_WITHIN_THE_GRACE[:3],
    lambda agent: setattr(agent, "now", Instant(agent.now + 10 * NS_PER_S)),  # the agent was away meanwhile
    *LOST_WITHIN_THE_GRACE[4:],
]
STOPPED_AS_IT_STARTED: Story = [
    lambda agent: agent.launch(SAVING),
    preempt,
    lambda agent: agent.write_start(SAVING),  # was decided before the stop
    lambda agent: agent.advance(30),
]
RESIZED: Story = [
    lambda agent: agent.launch(SAVING, slot(1, 0), slot(2, 0)),
    lambda agent: agent.advance(5),
    lambda agent: agent.resize(SAVING, slot(1, 0), slot(2, 1), slot(2, 2), grace_s=10.0),
    lambda agent: agent.advance(0.1),
    lambda agent: agent.advance(10),
    lambda agent: agent.write_loss("gpu-0002"),
    lambda agent: agent.advance(10),
]
STORIES = {
    "preempted and resumed": PREEMPTED,
    "lost within the grace": LOST_WITHIN_THE_GRACE,
    "lost after it had obeyed": LOST_AFTER_THE_LAST_CHECKPOINT,
    "stopped as it started": STOPPED_AS_IT_STARTED,
    "resized": RESIZED,
}


def told(story: Story, *, dies_after: int | None = None) -> VirtualAgent:
    agent = VirtualAgent()
    agent.settle()
    for index, step in enumerate(story):
        step(agent)
        if index == dies_after:
            agent.recover_from_checkpoint([*agent.core.snapshot(), scheduler_state(agent)])
    return agent


def scheduler_state(agent: VirtualAgent) -> Draft:
    """The other part of a checkpoint: the slots as placed, for the scheduler answers a resize later."""
    placed = [fact.payload for fact in agent.facts("placed") if isinstance(fact.payload, JobPlaced)]
    body = JobState(job=SAVING, phase=Phase.RUNNING, slots=placed[-1].slots)
    return Draft("job", SAVING.id, "state-recorded", body)


CUTS = [pytest.param(name, cut, id=f"{name}, {cut}") for name, story in STORIES.items() for cut in range(len(story))]


@pytest.mark.parametrize(("name", "cut"), CUTS)
def test_a_recovery_in_the_middle_changes_nothing_of_the_rest(name: str, cut: int) -> None:
    straight, recovered = told(STORIES[name]), told(STORIES[name], dies_after=cut)
    assert recovered.log == straight.log
    assert recovered.core.running == straight.core.running


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        ("preempted and resumed", ["pods-started", "checkpointed", "checkpointed", "pods-exited",
                                   "pods-started", "checkpointed", "pods-exited"]),
        ("lost within the grace", ["pods-started", "pods-exited"]),
        ("lost after it had obeyed", ["pods-started", "checkpointed", "pods-exited"]),
        ("stopped as it started", ["pods-started", "pods-exited"]),
        ("resized", ["pods-started", "pods-resized", "pods-exited"]),
    ],
)  # fmt: skip
def test_the_stories_are_what_their_names_say(name: str, facts: list[str]) -> None:
    assert told(STORIES[name]).told(SAVING.id) == facts
