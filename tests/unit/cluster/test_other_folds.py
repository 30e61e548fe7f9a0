"""Every other fold of the log agrees with `Holds` on who holds what, but for what is listed here and why.

What `Holds` says is settled by the schema: `JobPlaced`, `JobResizeRequested`, `JobState.picked`, `Slot.places`; each
meaning has a test in test_holds.py. These services keep folds of their own because they ask something else. The
scheduler writes what is held, and keeps a ledger of places and shares, as the scaler does; both ask `Holds` who holds a
device. The agent follows the pods that it makes: a slot counts while its pods are there or are to come. The
projector fills rows of the read model, and a row shows where its job was also after the job is over.
"""

from random import Random

from hypothesis import given, settings

from golden.logs import LOG, facts_of
from kit.cluster_folds import Comparison, Departure
from kit.cluster_log import HISTORIES, OPERATIONS, ClusterLog, Step

GAVE_UP = "it gives slots up with the exit of the pods, not with the scheduler's answer"

KNOWN: dict[Departure, str] = {
    ("agent", "slots"): f"it follows pods: {GAVE_UP}, and a resize is done with `pods-resized`",
}
"""Why a fold differs, by which and in what."""

LONG_HISTORIES = 12


def test_the_folds_agree_on_the_golden_log() -> None:
    assert Comparison().apply(facts_of(LOG)).found <= KNOWN.keys()


@settings(max_examples=40)
@given(HISTORIES)
def test_the_folds_agree_on_every_valid_log(steps: list[Step]) -> None:
    log, comparison = ClusterLog(), Comparison()
    log.play(*steps)
    assert comparison.apply(log.log).found <= KNOWN.keys()
    scheduler, ledger = comparison.others["scheduler"].fold, comparison.others["ledger"].fold
    assert set(scheduler.state.anomalies) <= {"observation of no present run"}, "the log is valid"
    assert ledger.violations == [], "the log is valid"


def test_every_difference_that_is_listed_is_still_there() -> None:
    found = set[Departure]()
    for seed in range(LONG_HISTORIES):
        chance = Random(seed)
        steps = [(chance.choice(OPERATIONS), chance.randrange(12), chance.randrange(12)) for _ in range(150)]
        found |= Comparison().apply(ClusterLog().play(*steps).log).found
    assert found == KNOWN.keys()
