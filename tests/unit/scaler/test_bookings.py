"""What advance reservations keep is idle for a reason, and stays."""

from kit.scaler_state import START, ScalerState
from muster.core import after
from muster.schemas.facts.reservation import Booked, BookingEnded, ReservationSpec, ReservationState
from muster.schemas.facts.scale import ScaleChosen
from muster.schemas.job import Slot
from muster.schemas.registry import STATE_NAME

LONG = 1_000.0


def booked(starts_s: float, *, nodes: tuple[str, ...] = (), slots: tuple[Slot, ...] = ()) -> Booked:
    """A window of 500 s for the lab."""
    starts_at = after(START, starts_s)
    spec = ReservationSpec(
        name="exam",
        queue="lab",
        nodes=nodes,
        gpus=0 if nodes else sum(len(slot.devices) for slot in slots),
        starts_at=starts_at,
        duration_s=500.0,
    )
    return Booked(spec=spec, starts_at=starts_at, slots=slots)


def one_gpu(index: int = 0) -> tuple[Slot, ...]:
    return (Slot(group=0, replica=0, node="cdi-0001", devices=(index,), gpu_milli=1000),)


def world_with(window: Booked) -> ScalerState:
    world = ScalerState()
    world.node("cdi-0001", gpus=2)
    world.write("scheduler", "reservation", "exam", "booked", window)
    return world


def taken(world: ScalerState, second: float) -> list[str]:
    """Devices and nodes that go, the first choice of each."""
    found = [choice.payload for choice in world.policies.scale_down.choices(world.at_second(second))]
    payloads = [payload for payload in found if isinstance(payload, ScaleChosen)]
    return [name for payload in payloads for name in (payload.devices or (payload.node,))]


def test_a_device_that_is_kept_now_stays_and_the_others_go() -> None:
    world = world_with(booked(LONG - 10, slots=one_gpu(0)))
    kept, other = world.uuids("cdi-0001")
    assert taken(world, LONG) == [other]
    assert [one.uuid for one in world.policies.spares.donors(world.now)] == [other]
    assert kept not in taken(world, LONG)


def test_a_device_goes_while_it_could_come_back_before_the_window_begins() -> None:
    world = world_with(booked(LONG + 30.1, slots=one_gpu(0)))
    assert len(taken(world, LONG)) == 2, "30 s are enough to detach and attach one"
    assert len(taken(world, LONG + 1)) == 1


def test_what_was_kept_goes_once_the_window_is_over_or_ended() -> None:
    world = world_with(booked(LONG - 500, slots=one_gpu(0)))
    assert len(taken(world, LONG - 1)) == 1
    assert len(taken(world, LONG)) == 2
    ended = world_with(booked(LONG - 10, slots=one_gpu(0)))
    ended.write("scheduler", "reservation", "exam", "ended", BookingEnded())
    assert len(taken(ended, LONG)) == 2


def test_a_node_that_is_kept_stays_with_all_that_is_on_it() -> None:
    world = world_with(booked(LONG - 10, nodes=("cdi-0001", "cdi-0002")))
    world.node("cdi-0002")
    assert taken(world, LONG) == []
    assert taken(world, LONG + 490) != []


def test_an_empty_node_goes_only_if_another_could_be_there_before_the_window_begins() -> None:
    for early_s, goes in ((51.0, True), (50.0, False)):
        world = ScalerState()
        world.node("cdi-0001")
        world.write("scheduler", "reservation", "exam", "booked", booked(LONG + early_s, nodes=("cdi-0001",)))
        assert (taken(world, LONG) == ["cdi-0001"]) is goes


def test_other_gpus_that_are_booked_take_the_place_of_the_first() -> None:
    world = world_with(booked(LONG - 10, slots=one_gpu(0)))
    world.write("scheduler", "reservation", "exam", "booked", booked(LONG - 10, slots=one_gpu(1)))
    assert taken(world, LONG) == [world.uuids("cdi-0001")[0]]


def test_a_checkpoint_tells_of_windows_and_not_of_mere_wishes() -> None:
    window = booked(LONG - 10, slots=one_gpu(0))
    world = ScalerState()
    world.node("cdi-0001", gpus=2)
    world.write("scheduler", "reservation", "wish", STATE_NAME, ReservationState())
    stored = ReservationState(spec=window.spec, starts_at=window.starts_at, slots=window.slots)
    world.write("scheduler", "reservation", "exam", STATE_NAME, stored)
    assert len(taken(world, LONG)) == 1
