"""What was said of jobs that nothing helps is remembered, however many they are, and fits in a checkpoint."""

import pytest

from kit.scaler import VirtualScaler, composable, config
from muster.scaler.core import limits
from muster.schemas.base import FACT_BYTES_MAX
from muster.schemas.facts.scale import IdleSince, Refused, ScalerState


def waiting(shapes: int) -> VirtualScaler:
    """So many shapes wait for GPUs that nobody has."""
    world = VirtualScaler(config(composable(nodes_max=1)), pool=0)
    world.join("comp", 1)
    for i in range(shapes):
        world.submit(f"j{i}", cpu_milli=1_000 + i)
    return world


def test_beyond_what_is_remembered_nothing_is_said_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "REFUSED_KEPT", 5)
    world = waiting(8)
    world.settle()
    assert world.settle() == [], "the same is not said again and again"


def test_many_entries_are_recorded_in_parts_that_fit_in_a_fact() -> None:
    world = waiting(1)
    world.settle()
    state = world.core.state
    state.refused |= {
        f"{i:026d}": Refused(name=f"{i:026d}", case=2, code="together", at=world.now, reason="x" * 1_024)
        for i in range(10_000)
    }
    state.cooldowns.moved_at |= dict.fromkeys([f"composable-group-{i:05d}" for i in range(10_000)], world.now)
    parts = [draft for draft in world.core.snapshot() if isinstance(draft.payload, ScalerState)]
    assert len({draft.subject_id for draft in parts}) == len(parts) > 1
    assert max(len(draft.payload.model_dump_json()) for draft in parts) < FACT_BYTES_MAX / 2
    assert sum(len(draft.payload.refused) for draft in parts) == 10_001
    recovered = world.recover().state
    assert (recovered.refused.keys(), recovered.cooldowns.moved_at) == (state.refused.keys(), state.cooldowns.moved_at)
    assert (recovered.choices.chosen, recovered.changes.freed_at) == (state.choices.chosen, state.changes.freed_at)


def test_a_part_of_a_checkpoint_says_since_when_devices_are_idle() -> None:
    entries = tuple(IdleSince(name=f"GPU-{i:040d}", at=2**60) for i in range(limits.STATE_ENTRIES_MAX))
    assert len(ScalerState(idle_devices=entries).model_dump_json()) < FACT_BYTES_MAX / 2
