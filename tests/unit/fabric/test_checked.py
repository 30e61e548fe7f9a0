"""What a manager says of devices is checked before anybody believes it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.fabric import bounds
from muster.fabric.checked import CheckedDriver, check_device, checked, checked_inventory
from muster.fabric.driver import AttachOrder, DetachOrder, FabricNonsenseError, Inventory, MachineDevice
from muster.fabric.fm import Condition, memory_mib_of
from muster.schemas.devices import CXL_MEMORY, GPU, PoolModel
from muster.schemas.facts.device import AttachmentRequested, DeviceAttached
from muster.schemas.facts.fabric import POOL_MODELS_MAX, FabricSurveyed, OrphanFound

DEVICE = MachineDevice("device-1", "GPU-1", "A100")
WORDS = st.text(alphabet=st.characters(codec=None), max_size=300)


@pytest.mark.parametrize(
    ("strange", "field"),
    [
        (replace(DEVICE, device_id=""), "device_id is empty"),
        (replace(DEVICE, device_id="x" * 254), "device_id has 254"),
        (replace(DEVICE, device_id="a\nb"), "device_id 'a\\\\nb' cannot be printed"),
        (replace(DEVICE, device_uuid="x" * 254), "device_uuid has 254"),
        (replace(DEVICE, model=""), "model is empty"),
        (replace(DEVICE, model="x" * 254), "model has 254"),
        (replace(DEVICE, type=""), "type is empty"),
        (replace(DEVICE, type="x" * 254), "type has 254"),
        (replace(DEVICE, memory_mib=-1), "memory_mib is not within"),
        (replace(DEVICE, memory_mib=10**400), "memory_mib is not within"),
    ],
)
def test_a_device_that_no_fact_can_hold_is_nonsense_wherever_it_is_told(strange: MachineDevice, field: str) -> None:
    with pytest.raises(FabricNonsenseError, match=field):
        check_device(strange, what="machine m1")
    with pytest.raises(FabricNonsenseError, match=field):
        checked_inventory(Inventory(machines={"m1": (DEVICE, strange)}))


@pytest.mark.parametrize(
    ("free", "field"),
    [
        ({(GPU, ""): 1}, "model is empty"),
        ({(GPU, "x" * 254): 1}, "model has 254"),
        ({("", "A100"): 1}, "type is empty"),
        ({(GPU, "A100"): -1}, "free is not within"),
        ({(GPU, "A100"): bounds.DEVICES_MAX + 1}, "free is not within"),
        ({(GPU, f"m{number}"): 1 for number in range(POOL_MODELS_MAX + 1)}, "kinds of device"),
    ],
)
def test_a_pool_that_no_fact_can_hold_is_nonsense(free: dict[tuple[str, str], int], field: str) -> None:
    with pytest.raises(FabricNonsenseError, match=field):
        checked_inventory(Inventory(free=free))


@pytest.mark.parametrize("machine", ["", "m" * 254, "\x1b[2J"])
def test_a_machine_that_no_fact_can_name_is_nonsense(machine: str) -> None:
    with pytest.raises(FabricNonsenseError, match="machine"):
        checked_inventory(Inventory(machines={machine: ()}))


def test_what_is_not_composed_is_left_out_whatever_is_wrong_with_it() -> None:
    nic = MachineDevice("", "", "", "nic")
    seen = Inventory(free={("nic", ""): 3, (GPU, "A100"): 1}, machines={"m1": (nic, DEVICE), "m2": (nic,)})
    assert checked_inventory(seen) == Inventory(free={(GPU, "A100"): 1}, machines={"m1": (DEVICE,), "m2": ()})


def test_as_many_kinds_as_a_fact_can_hold_are_taken() -> None:
    free = {(GPU, f"m{number}"): 1 for number in range(POOL_MODELS_MAX - 1)}
    seen = Inventory(free=free, machines={"m1": (DEVICE, replace(DEVICE, device_id="device-2"))})
    assert checked_inventory(seen) == seen


@given(
    st.builds(MachineDevice, WORDS, WORDS, WORDS, st.sampled_from([GPU, CXL_MEMORY, "nic", ""]), st.integers()), WORDS
)
def test_what_is_let_through_can_be_written(device: MachineDevice, machine: str) -> None:
    said = Inventory(free={(device.type, device.model): 1}, machines={machine: (device,)})
    try:
        seen = checked_inventory(said)
    except FabricNonsenseError as error:
        seen, why = Inventory(), str(error)
    else:
        why = ""
    assert why.isprintable()
    assert len(why) <= bounds.ERROR_CHARS_MAX
    for name, devices in seen.machines.items():
        for one in devices:
            _written(one, name)
    models = (PoolModel(type=kind, model=model, free=count) for (kind, model), count in seen.free.items())
    FabricSurveyed(pool=tuple(models)).model_dump_json()


def _written(one: MachineDevice, machine: str) -> None:
    uuid = one.device_uuid or one.device_id
    AttachmentRequested(type=one.type, model=one.model, node="", fabric="east", machine=machine).model_dump_json()
    DeviceAttached(
        device_uuid=uuid, device_id=one.device_id, node="", machine=machine, type=one.type, memory_mib=one.memory_mib
    ).model_dump_json()
    OrphanFound(device_id=one.device_id, device_uuid=uuid, machine=machine, type=one.type).model_dump_json()


def test_a_giant_number_of_digits_is_no_memory() -> None:
    with pytest.raises(FabricNonsenseError, match="memory_mib: 5000 digits"):
        memory_mib_of([Condition(column="memory_mib", value="9" * 5_000)])


class Says:
    """A driver that says this of everything."""

    parallel_max = 3

    def __init__(self, *devices: MachineDevice) -> None:
        self.devices = devices

    async def attach(self, order: AttachOrder) -> tuple[MachineDevice, ...]:
        assert order
        return self.devices

    async def detach(self, order: DetachOrder) -> bool:
        return order.device_id == "device-1"

    async def survey(self) -> Inventory:
        return Inventory(machines={"m1": self.devices})

    async def close(self) -> None:
        self.devices = ()


async def test_a_checked_driver_is_the_driver_with_answers_that_can_be_believed() -> None:
    says = Says(DEVICE)
    driver = checked(says)
    assert checked(driver) is driver
    assert driver.parallel_max == 3
    assert await driver.attach(AttachOrder("m1", "A100")) == (DEVICE,)
    assert await driver.survey() == Inventory(machines={"m1": (DEVICE,)})
    assert [await driver.detach(DetachOrder("m1", name)) for name in ("device-1", "device-2")] == [True, False]
    says.devices = (DEVICE, replace(DEVICE, model=""))
    for call in (driver.attach(AttachOrder("m1", "A100")), driver.survey()):
        with pytest.raises(FabricNonsenseError, match="model is empty"):
            await call
    await driver.close()
    assert says.devices == ()


async def test_further_types_can_be_composed() -> None:
    fpga = MachineDevice("device-1", "FPGA-1", "U280", "fpga")
    assert await CheckedDriver(Says(fpga)).survey() == Inventory(machines={"m1": ()})
    assert await CheckedDriver(Says(fpga), types=["fpga"]).survey() == Inventory(machines={"m1": (fpga,)})
