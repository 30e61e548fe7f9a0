"""A simulated fabric: what is done, how long it takes, and what goes wrong."""

import pytest

from muster.core import Instant, after
from muster.core.seeded import lognormal
from muster.core.settings import FabricBehaviour
from muster.fabric.driver import FabricRefusedError, FabricUnavailableError
from muster.fabric.layout import fabric_device_id
from muster.fabric.simulator.model import OPERATIONS_KEPT, FabricModel, UnknownOperationError
from muster.fabric.simulator.operation import Fault, OperationState, PoolDevice

A, B = "A100", "L40S"
START = Instant(1_000)


def model(
    *, pool: int = 4, attached: int = 0, switch_median_s: float = 10.0, switch_sigma: float = 0.0, **shares: float
) -> FabricModel:
    """Machines m1 and m2; `attached` devices stand on m1."""
    behaviour = FabricBehaviour(
        switch_median_s=switch_median_s,
        switch_sigma=switch_sigma,
        limit=int(shares.pop("limit", 64)),
        seed=int(shares.pop("seed", 1)),
        **shares,
    )
    return FabricModel(
        name="east",
        behaviour=behaviour,
        devices=[PoolDevice(f"GPU-{index}", A) for index in range(pool)],
        machines=("m1", "m2"),
        attached={"m1": [PoolDevice(f"GPU-built-in-{index}", A) for index in range(attached)]},
    )


def test_a_device_is_reserved_at_once_and_stands_on_the_machine_when_the_switch_is_done() -> None:
    east = model()
    operation = east.begin_attach("m1", model=A, now=START)
    assert operation.due == after(START, 10.0) == east.next_change()
    assert east.inventory().free == {("gpu", A): 3}
    assert east.inventory().machines["m1"] == ()
    east.advance(Instant(operation.due - 1))
    assert east.operation(operation.id).state is OperationState.RUNNING
    east.advance(operation.due)
    assert east.operation(operation.id).state is OperationState.DONE
    assert east.inventory().machines["m1"] == (east.device(operation.device_id),)
    assert east.next_change() is None


def test_a_device_stays_on_its_machine_until_it_is_detached() -> None:
    east = model(attached=1)
    [device] = east.on_machine("m1")
    operation = east.begin_detach("m1", device_id=device.device_id, now=START)
    assert east.on_machine("m1") == (device,)
    east.advance(operation.due)
    assert east.on_machine("m1") == ()
    assert east.inventory().free == {("gpu", A): 5}


def test_a_device_that_is_not_there_was_gone_at_once() -> None:
    east = model()
    operation = east.begin_detach("m1", device_id="elsewhere", now=START)
    assert operation.was_gone
    assert operation.state is OperationState.DONE
    assert east.next_change() is None


def test_what_was_gone_cannot_break_off_half_way() -> None:
    operation = model(half_share=1.0).begin_detach("m1", device_id="elsewhere", now=START)
    assert (operation.state, operation.fault) == (OperationState.DONE, Fault.NONE)


def test_the_ids_of_a_device_follow_from_its_uuid() -> None:
    east = model()
    device = east.device(east.begin_attach("m1", model=A, now=START).device_id)
    assert device is not None
    assert (device.device_uuid, device.device_id) == ("GPU-0", fabric_device_id("GPU-0"))


def test_a_named_device_is_the_one_that_comes() -> None:
    east = model()
    wanted = fabric_device_id("GPU-2")
    operation = east.begin_attach("m1", model="", device_id=wanted, now=START)
    assert operation.device_id == wanted
    with pytest.raises(FabricUnavailableError, match="operation 1 moves it"):
        east.begin_attach("m2", model="", device_id=wanted, now=START)
    east.advance(operation.due)
    with pytest.raises(FabricRefusedError, match="on a machine"):
        east.begin_attach("m2", model="", device_id=wanted, now=START)


def test_switch_times_are_log_normal_by_seed() -> None:
    operation = model(switch_sigma=0.4).begin_attach("m1", model=A, now=START, key="a call")
    assert operation.due == after(START, lognormal(10.0, 0.4, 1, "east", "switch", "a call"))


class TestRefusals:
    """Each changes nothing."""

    @pytest.mark.parametrize(
        ("machine", "wanted", "said"),
        [("m9", A, "m9"), ("m1", "H100", "H100"), ("m1", B, "L40S")],
    )
    def test_what_cannot_be_is_refused_by_name(self, machine: str, wanted: str, said: str) -> None:
        east = model()
        with pytest.raises(FabricRefusedError, match=said):
            east.begin_attach(machine, model=wanted, now=START)
        assert east.inventory().free == {("gpu", A): 4}

    def test_an_empty_pool_refuses(self) -> None:
        east = model(pool=1)
        east.begin_attach("m1", model=A, now=START)
        with pytest.raises(FabricRefusedError, match="free"):
            east.begin_attach("m2", model=A, now=START)

    def test_operations_over_the_limit_are_put_off_until_one_is_over(self) -> None:
        east = model(limit=1)
        first = east.begin_attach("m1", model=A, now=START)
        with pytest.raises(FabricUnavailableError):
            east.begin_attach("m1", model=A, now=START)
        east.begin_attach("m1", model=A, now=first.due)

    def test_a_device_on_its_way_cannot_be_moved_again(self) -> None:
        east = model(attached=1)
        [device] = east.on_machine("m1")
        east.begin_detach("m1", device_id=device.device_id, now=START)
        with pytest.raises(FabricUnavailableError, match="moves it"):
            east.begin_detach("m1", device_id=device.device_id, now=START)

    @pytest.mark.parametrize(
        ("changed", "said"),
        [
            ({"drop_share": 1.5}, "drop_share"),
            ({"drop_share": 0.6, "half_share": 0.6}, "the sum must be at most 1"),
            ({"limit": 0}, "limit"),
        ],
    )
    def test_a_behaviour_that_cannot_be_is_named(self, changed: dict[str, float], said: str) -> None:
        with pytest.raises(ValueError, match=said):
            model(**changed)

    def test_a_device_that_is_entered_twice_is_named(self) -> None:
        with pytest.raises(ValueError, match="GPU-1"):
            FabricModel(
                name="east",
                behaviour=FabricBehaviour(),
                devices=[PoolDevice("GPU-1", A), PoolDevice("GPU-1", A)],
                machines=(),
            )


class TestFaults:
    """What is left behind."""

    def test_refuse_does_nothing(self) -> None:
        east = model(refuse_share=1.0)
        with pytest.raises(FabricUnavailableError):
            east.begin_attach("m1", model=A, now=START)
        assert east.inventory().free == {("gpu", A): 4}
        assert east.next_change() is None

    @pytest.mark.parametrize("fault", [Fault.DROP, Fault.NONSENSE])
    def test_drop_and_nonsense_do_the_work(self, fault: Fault) -> None:
        east = model(**{f"{fault}_share": 1.0})
        operation = east.begin_attach("m1", model=A, now=START)
        assert operation.fault is fault
        east.advance(operation.due)
        assert len(east.on_machine("m1")) == 1

    def test_half_of_the_half_done_attachments_leave_a_device(self) -> None:
        east = model(pool=200, limit=200, half_share=1.0)
        begun = [east.begin_attach("m1", model=A, now=START) for _ in range(200)]
        east.advance(begun[-1].due)
        assert {east.operation(one.id).state for one in begun} == {OperationState.FAILED}
        left = len(east.on_machine("m1"))
        assert left == sum(one.takes_effect for one in begun)
        assert 70 < left < 130
        assert east.inventory().free == {("gpu", A): 200 - left}

    def test_a_half_done_detachment_took_the_device_away_or_not(self) -> None:
        east = model(attached=40, half_share=1.0)
        begun = [east.begin_detach("m1", device_id=one.device_id, now=START) for one in east.on_machine("m1")]
        east.advance(begun[-1].due)
        assert len(east.on_machine("m1")) == sum(not one.takes_effect for one in begun) not in (0, 40)

    def test_twice_attaches_a_second_device_that_nobody_is_told_of(self) -> None:
        east = model(twice_share=1.0)
        operation = east.begin_attach("m1", model=A, now=START)
        twin = east.operation(operation.twin)
        assert (twin.twin_of, twin.due) == (operation.id, operation.due)
        east.advance(operation.due)
        assert east.on_machine("m1") == (east.device(operation.device_id), east.device(twin.device_id))

    def test_twice_is_once_where_only_one_device_is_left(self) -> None:
        operation = model(pool=1, twice_share=1.0).begin_attach("m1", model=A, now=START)
        assert operation.twin == 0

    def test_faults_come_in_the_shares_that_were_set(self) -> None:
        east = model(pool=1, switch_median_s=0.0, drop_share=0.05, half_share=0.05, nonsense_share=0.1)
        drawn = [east.begin_detach("m1", device_id="gone", now=START).fault for _ in range(4_000)]
        assert drawn.count(Fault.DROP) == pytest.approx(200, abs=60)
        assert drawn.count(Fault.NONSENSE) == pytest.approx(400, abs=80)
        assert drawn.count(Fault.TWICE) == 0

    def test_a_call_is_drawn_by_its_key_whatever_came_before(self) -> None:
        shares = {"drop_share": 0.3, "half_share": 0.3, "switch_sigma": 0.4}
        one, other = model(**shares), model(**shares)
        other.begin_attach("m2", model=A, now=START, key="something else")
        keys = [f"call {index}" for index in range(3)]
        first = [one.begin_attach("m1", model=A, now=START, key=key) for key in keys]
        second = [other.begin_attach("m1", model=A, now=START, key=key) for key in keys]
        assert [(op.due, op.fault) for op in first] == [(op.due, op.fault) for op in second]

    def test_another_seed_draws_otherwise(self) -> None:
        times = {model(seed=seed, switch_sigma=0.4).begin_attach("m1", model=A, now=START).due for seed in range(5)}
        assert len(times) == 5


def test_operations_are_forgotten_when_many_newer_ones_are_over() -> None:
    east = model()
    first = east.begin_detach("m1", device_id="gone", now=START)
    for _ in range(OPERATIONS_KEPT):
        east.begin_detach("m1", device_id="gone", now=START)
    with pytest.raises(UnknownOperationError):
        east.operation(first.id)
    assert len(east.operations()) == OPERATIONS_KEPT


def test_time_never_goes_back() -> None:
    east = model()
    east.advance(after(START, 100))
    assert east.begin_attach("m1", model=A, now=START).due == after(START, 110)
