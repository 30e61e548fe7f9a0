"""Whatever happens on nodes whose kubelet picks: no more is placed than there is, and who folds the log agrees."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.scheduler import belief, job, ledger_balances
from kit.scheduler_counts import CountingScheduler
from muster.core import Fact
from muster.schemas.facts.job import PodsExited, PodsOutcome, PodsStarted
from muster.schemas.facts.node import NodeJoined
from muster.schemas.job import Phase

NODES = ("n0", "n1")
STEPS_MAX = 14
SIZES = ((), (250, 500), (300, 450, 1000), (500,))

_submits = st.tuples(st.just("submit"), st.integers(1, 4), st.sampled_from((0, 0, 120, 300, 480, 700)))
_ends = st.tuples(st.sampled_from(("start", "exit")), st.integers(0, 9), st.just(0))
_describes = st.tuples(st.just("describe"), st.integers(0, 1), st.integers(1, 5))
_lives = st.lists(st.one_of(_submits, _submits, _ends, _describes), max_size=STEPS_MAX)


class Story(CountingScheduler):
    """Plays steps and checks every placement against what its nodes had when it was made."""

    def __init__(self, sizes: tuple[int, ...] | None) -> None:
        self.sizes = sizes
        self.gpus: dict[str, int] = {}
        super().__init__()
        for name in NODES:
            self.describe(name, gpus=4, share_milli=sizes)
        self.made = 0

    def play(self, what: str, first: int, second: int) -> None:
        match what:
            case "submit":
                self.made += 1
                asked = {"gpu_milli": second} if second else {"gpus": first}
                self.route(job(f"j{self.made}", replicas=first if second else 1, **asked))
            case "describe":
                self.join_quietly(NODES[first], gpus=second, share_milli=self.sizes)
            case _:
                self._move(what, first)
        self.settle()

    def _move(self, what: str, number: int) -> None:
        wanted = Phase.PLACED if what == "start" else Phase.RUNNING
        records = [record for record in self.core.state.jobs.records.values() if record.phase is wanted]
        if not records:
            return
        record = records[number % len(records)]
        started, exited = PodsStarted(attempt=1), PodsExited(attempt=1, outcome=PodsOutcome.SUCCEEDED)
        said = ("pods-started", started) if what == "start" else ("pods-exited", exited)
        self.write("agent", "job", record.id, *said)

    def step(self, **rest: bool) -> list[Fact]:
        """Every placement fits in what is left on its nodes at that moment."""
        left = {name: 1000 * self.gpus[name] - held for name, held in self._held().items()}
        facts = super().step(**rest)
        for fact in facts:
            if fact.name == "placed":
                for slot in fact.payload.slots:
                    assert slot.devices == ()
                    left[slot.node] -= slot.gpu_milli_held
                    assert left[slot.node] >= 0, f"{slot} is more than is left"
        return facts

    def _held(self) -> dict[str, int]:
        for name, node in self.nodes.items():
            assert isinstance(node.description, NodeJoined)
            self.gpus[name] = len(node.description.gpu_uuids)
        held = self.held()
        return {name: held[name] for name in self.gpus}


@pytest.mark.parametrize("sizes", [None, *SIZES])
@settings(max_examples=25, deadline=None)
@given(life=_lives)
def test_no_more_is_held_than_there_is_and_every_fold_agrees(sizes: tuple[int, ...] | None, life: list) -> None:
    story = Story(sizes)
    for step in life:
        story.play(*step)
    assert belief(story.refold()) == belief(story.core)
    if not story.core.state.ledger.misfits:
        ledger_balances(story.core)
        assert belief(story.recover()) == belief(story.core)


@settings(max_examples=25, deadline=None)
@given(life=_lives)
def test_a_share_is_never_less_than_asked_and_of_a_size_that_is_served(life: list) -> None:
    story = Story((250, 500))
    for step in life:
        story.play(*step)
    for fact in story.log:
        if fact.name == "placed":
            (asked,) = {
                group.gpu_milli for group in story.core.state.jobs.records[fact.subject_id].job.spec.task_groups
            }
            for slot in fact.payload.slots:
                assert slot.gpu_milli in ((1000,) if not asked else (250, 500))
                assert slot.gpu_milli >= asked
