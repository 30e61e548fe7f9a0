"""Whatever is asked of a simulated fabric, no device is lost, and none is in two places."""

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.core import Instant, after
from muster.core.settings import FabricBehaviour
from muster.fabric.driver import FabricError
from muster.fabric.simulator.model import FabricModel
from muster.fabric.simulator.operation import OperationKind, PoolDevice
from muster.fabric.simulator.saved import dump, load

MODELS = ("A100", "L40S")
MACHINES = ("m1", "m2", "m3")
POOL = 4  # of each model
ALL = len(MODELS) * POOL + len(MACHINES)


@dataclass(frozen=True)
class Ask:
    """Attach one of a model or a named one, detach one of what stands there, or let time pass."""

    kind: str
    machine: str
    model: str
    which: int
    seconds: float


asks = st.lists(
    st.builds(
        Ask,
        kind=st.sampled_from(["attach", "attach", "named", "detach", "wait"]),
        machine=st.sampled_from(MACHINES),
        model=st.sampled_from(MODELS),
        which=st.integers(0, 10),
        seconds=st.floats(0, 30),
    ),
    max_size=40,
)
seeds = st.integers(0, 1_000)


def fabric(seed: int) -> FabricModel:
    return FabricModel(
        name="east",
        behaviour=FabricBehaviour(
            seed=seed, refuse_share=0.1, drop_share=0.1, half_share=0.2, nonsense_share=0.1, twice_share=0.2, limit=6
        ),
        devices=[PoolDevice(f"GPU-{model}-{index}", model) for model in MODELS for index in range(POOL)],
        machines=MACHINES,
        attached={machine: [PoolDevice(f"GPU-built-in-{machine}", MODELS[0])] for machine in MACHINES},
    )


def carry_out(east: FabricModel, ask: Ask, now: Instant) -> Instant:
    """Do what is asked; what the fabric refuses is part of its life."""
    try:
        if ask.kind == "attach":
            east.advance(now)
            free = [device for device in east.free_devices() if device.model == ask.model]
            operation = east.begin_attach(ask.machine, model=ask.model, now=now)
            assert operation.device_id == free[0].device_id, "the first of the pool is taken first"
        elif ask.kind == "named":
            device_id = list(east.places())[ask.which % ALL]
            operation = east.begin_attach(ask.machine, model="", device_id=device_id, now=now)
            assert operation.device_id == device_id
        elif ask.kind == "detach":
            standing = east.on_machine(ask.machine)
            device_id = standing[ask.which % len(standing)].device_id if standing else "gone"
            east.begin_detach(ask.machine, device_id=device_id, now=now)
    except FabricError:
        return now
    return after(now, ask.seconds) if ask.kind == "wait" else now


def assert_nothing_is_lost(east: FabricModel) -> None:
    held = east.inventory()
    standing = [device.device_id for devices in held.machines.values() for device in devices]
    free = [device.device_id for device in east.free_devices()]
    attaching = [
        device_id for device_id, number in east.moving().items() if east.operation(number).kind is OperationKind.ATTACH
    ]
    places = standing + free + attaching
    assert len(places) == len(set(places)) == ALL
    assert sum(held.free.values()) == len(free)


@given(asks, seeds)
def test_every_device_is_always_in_exactly_one_place(asked: Sequence[Ask], seed: int) -> None:
    east, now = fabric(seed), Instant(0)
    for ask in asked:
        now = carry_out(east, ask, now)
        east.advance(now)
        assert_nothing_is_lost(east)


@given(asks, seeds)
def test_when_all_is_over_free_and_attached_are_what_they_were_together(asked: Sequence[Ask], seed: int) -> None:
    east, now = fabric(seed), Instant(0)
    for ask in asked:
        now = carry_out(east, ask, now)
    east.advance(after(now, 100_000))
    held = east.inventory()
    assert sum(held.free.values()) + sum(map(len, held.machines.values())) == ALL
    assert not east.moving()


@given(asks, seeds, st.lists(st.floats(0, 200), max_size=20))
def test_steps_of_time_make_no_difference(asked: Sequence[Ask], seed: int, steps: list[float]) -> None:
    at_once, in_steps = fabric(seed), fabric(seed)
    now = Instant(0)
    for ask in asked:
        carry_out(at_once, ask, now)
        now = carry_out(in_steps, ask, now)
    end = after(now, 200)
    at_once.advance(end)
    for step in sorted(steps):
        in_steps.advance(min(end, after(now, step)))
    in_steps.advance(end)
    assert at_once.inventory() == in_steps.inventory()
    assert at_once.operations() == in_steps.operations()
    assert at_once.free_devices() == in_steps.free_devices()


@settings(max_examples=50)
@given(asks, asks, seeds)
def test_a_fabric_that_was_saved_goes_on_as_if_nothing_had_been(
    before: Sequence[Ask], later: Sequence[Ask], seed: int
) -> None:
    east, now = fabric(seed), Instant(0)
    for ask in before:
        now = carry_out(east, ask, now)
    east.advance(now)
    again = fabric(seed)
    load(again, dump(east))
    assert_nothing_is_lost(again)
    for ask in later:
        carry_out(again, ask, now)
        now = carry_out(east, ask, now)
    for one in (east, again):
        one.advance(after(now, 1_000))
    assert _sets(again) == _sets(east)
    assert again.free_devices() == east.free_devices()


def _sets(east: FabricModel) -> dict[str, set[str]]:
    return {machine: {one.device_id for one in devices} for machine, devices in east.inventory().machines.items()}
