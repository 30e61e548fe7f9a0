"""The golden logs fold alike: twice, in any process, and from a checkpoint at any sequence (DESIGN invariant 8)."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from golden.folding import fold, folded, new_folder, picture, recovered, services_of
from golden.logs import DEVICE_FACTS, LOG, LOGS, facts_of
from kit.checkpoints import MemoryCheckpoints
from kit.scheduler import belief
from muster.bus.checkpoint import Checkpoints, encode_part
from muster.core.fact import Core, Draft, Fact
from muster.core.instant import Instant, after
from muster.projector.core.projection import Projection
from muster.scheduler.core import SchedulerCore
from muster.schemas.subjects import LogName

CASES = [pytest.param(log, name, id=f"{log.stream}-{name}") for log in LOGS for name in services_of(log)]
DECIDERS = ("composer", "scaler")
LATER_S = (0.0, 1.0, 10.0, 1_000.0)
TIMED_KINDS = frozenset({"attachment", "composability", "scale"})
RECURRING = frozenset({"summarised", "nothing-chosen"})
"""Of these the same may be true again later: only the newest of a subject would be said in vain."""
HASH_SEEDS = ("1", "2")
TESTS = Path(__file__).parents[2]


@pytest.mark.parametrize(("log", "service"), CASES)
def test_two_folds_give_equal_states_and_the_same_snapshot(log: LogName, service: str) -> None:
    first, second = (folded(services_of(log)[service], facts_of(log)) for _ in range(2))
    assert picture(first) == picture(second)
    assert list(first.snapshot()) == list(second.snapshot())


@pytest.mark.parametrize(("log", "service"), CASES)
def test_batches_of_any_size_fold_to_the_same_state(log: LogName, service: str) -> None:
    whole = folded(services_of(log)[service], facts_of(log))
    folder = new_folder(services_of(log)[service])
    for fact in facts_of(log):
        fold(folder, [fact])
    assert picture(folder.core) == picture(whole)


def test_processes_with_other_hashes_fold_and_decide_alike() -> None:
    first, second = (_digests(seed) for seed in HASH_SEEDS)
    assert set(first) == {f"{log.stream} {name}" for log in LOGS for name in services_of(log)}
    assert first == second


@pytest.mark.parametrize(("log", "service"), CASES)
def test_no_prefix_makes_a_service_say_what_the_log_holds_already(log: LogName, service: str) -> None:
    folder = new_folder(services_of(log)[service])
    said: set[tuple[object, ...]] = set()
    newest: dict[str, tuple[object, ...]] = {}
    for fact in facts_of(log):
        core = fold(folder, [fact])
        if fact.name in RECURRING:
            said.discard(newest.get(fact.subject_id, ()))
            newest[fact.subject_id] = _words(fact)
        said.add(_words(fact))
        again = [draft for draft in core.decide(folder.newest) if _words(draft) in said]
        assert again == [], f"after sequence {fact.seq}"


@pytest.mark.parametrize(("log", "service"), CASES)
def test_the_head_leaves_nothing_to_say_of_jobs_that_ended(log: LogName, service: str) -> None:
    core = folded(services_of(log)[service], facts_of(log))
    assert [draft for draft in core.decide(facts_of(log)[-1].time) if draft.kind == "job"] == []


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.stream)
async def test_a_checkpoint_at_any_sequence_folds_to_the_same_state(log: LogName) -> None:
    services = services_of(log)
    folders = {name: new_folder(service) for name, service in services.items()}
    for fact in facts_of(log):
        for folder in folders.values():
            fold(folder, [fact])
        state = await _checkpoint(log, {name: folder.core for name, folder in folders.items()}, fact)
        for name, folder in folders.items():
            other = recovered(services[name], state, seq=fact.seq, time=fact.time)
            assert believed(other.core) == believed(folder.core), f"{name} after sequence {fact.seq}"


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.stream)
async def test_a_core_from_a_checkpoint_folds_on_to_the_same_head(log: LogName) -> None:
    services, facts = services_of(log), facts_of(log)
    ends = {name: believed(folded(service, facts)) for name, service in services.items()}
    folders = {name: new_folder(service) for name, service in services.items()}
    for cut in range(10, len(facts), 10):
        cores = {name: fold(folder, facts[cut - 10 : cut]) for name, folder in folders.items()}
        state = await _checkpoint(log, cores, facts[cut - 1])
        for name, service in services.items():
            folder = recovered(service, state, seq=facts[cut - 1].seq, time=facts[cut - 1].time)
            assert believed(fold(folder, facts[cut:])) == ends[name], f"{name} from sequence {facts[cut - 1].seq}"


async def test_who_starts_from_a_checkpoint_decides_as_who_folded_the_log_now_and_later() -> None:
    """Scaler and composer; of the scheduler its own tests say so. The port is silent, so the log alone decides."""
    services, facts = services_of(LOG), facts_of(LOG)
    decided: set[str] = set()
    for cut in range(5, len(facts), 10):
        fact, cores = facts[cut - 1], {name: folded(service, facts[:cut]) for name, service in services.items()}
        state = await _checkpoint(LOG, cores, fact)
        for name in DECIDERS:
            other = recovered(services[name], state, seq=fact.seq, time=fact.time).core
            for later_s in LATER_S:
                expected = _decisions(cores[name], after(fact.time, later_s))
                found = _decisions(other, after(fact.time, later_s))
                assert found == expected, f"{name} {later_s:g} s after sequence {fact.seq}"
                assert other.next_wakeup() == cores[name].next_wakeup(), f"{name} after sequence {fact.seq}"
                decided |= {name for _ in expected}
    assert decided == set(DECIDERS), "both had something to decide"


def test_the_golden_log_tells_of_everything_that_recoveries_must_survive() -> None:
    facts = facts_of(LOG)
    assert {fact.name for fact in facts} >= {
        "placed", "unschedulable", "stop-requested", "succeeded", "failed", "cancelled", "timed-out",
        "cancel-forwarded", "held", "unheld", "reprioritised", "changed", "joined", "lost", "returned",
        "checkpoint-requested", *DEVICE_FACTS,
    }  # fmt: skip
    placed = [fact.payload for fact in facts if fact.name == "placed"]
    assert any(len(payload.slots) > 1 for payload in placed), "a gang"
    assert any(0 < slot.gpu_milli < 1000 for payload in placed for slot in payload.slots), "a share of a GPU"
    assert any(payload.attempt > 1 for payload in placed), "a retry"


def believed(core: Core) -> object:
    """What a core of any history must agree on; caches and the rows' history may differ."""
    if isinstance(core, SchedulerCore):
        return belief(core)
    if isinstance(core, Projection):
        changes = core.take_all(rows_after=0)
        rows = {
            change.id: {**json.loads(change.body), "seq": "of the fact, or of the checkpoint"}
            for change in changes.jobs
        }
        nodes = {name: _unordered(body) for name, body in changes.nodes.items() if body is not None}
        return rows, nodes, changes.queues
    return {(draft.kind, draft.subject_id): draft for draft in core.snapshot()}


def _unordered(node: bytes) -> dict[str, object]:
    """A node's row; its jobs come in the checkpoint's order after a recovery."""
    row = json.loads(node)
    return {**row, "jobs": sorted(row["jobs"])}


async def _checkpoint(log: LogName, cores: dict[str, Core], fact: Fact) -> list[Fact]:
    """Through the parts as they are stored, so that what the encoding loses is noticed."""
    checkpoints = Checkpoints(MemoryCheckpoints(), log)
    for name, core in cores.items():
        if checkpoints.has_part_of(name):
            body = encode_part(log, name, seq=fact.seq, time=fact.time, drafts=core.snapshot())
            await checkpoints.upload(name, seq=fact.seq, time=fact.time, body=body)
    recorded, state = await checkpoints.recover("any", [])
    assert recorded is not None
    return state


def _words(said: Fact | Draft) -> tuple[object, ...]:
    """What is said. Who attaches or chooses says with it how long it took and until when, so there the causes tell."""
    what = getattr(said.payload, "code", "") if said.kind in TIMED_KINDS else said.payload.model_dump_json()
    return said.kind, said.subject_id, said.name, what, said.causes


def _decisions(core: Core, now: Instant) -> dict[tuple[str, str, str], object]:
    """All that is decided, in whatever order. Causes are left out: a checkpoint names the newest fact of a job."""
    return {
        (draft.kind, draft.subject_id, draft.name): (draft.payload, draft.trace, draft.together)
        for draft in core.decide(now)
    }


def _digests(hash_seed: str) -> dict[str, str]:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(TESTS)}
    done = subprocess.run([sys.executable, "-m", "golden.digests"], env=environment, capture_output=True, check=True)
    return dict(json.loads(done.stdout))
