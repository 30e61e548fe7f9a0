"""What is kept of a simulated fabric, and what settings may change about it meanwhile."""

import asyncio
import json
from pathlib import Path

import pytest

from kit.clocks import FakeTime
from kit.fabrics import GROUPS, MODEL, fabric, machine
from muster.core import NS_PER_S, Instant, after
from muster.fabric.simulator.build import build_model
from muster.fabric.simulator.clock import RunningClock
from muster.fabric.simulator.saved import FINISHED_SAVED, FabricStore, SavedStateError, dump, load
from muster.fabric.simulator.server import open_manager

START = Instant(NS_PER_S)


def test_a_pool_that_grew_in_the_settings_grows() -> None:
    east = build_model(fabric(pool={MODEL: 2}), GROUPS)
    east.begin_attach(machine(3), model=MODEL, now=START)
    east.advance(after(START, 10))
    grown = build_model(fabric(pool={MODEL: 5}), GROUPS)
    load(grown, dump(east))
    assert grown.inventory().free["gpu", MODEL] == 4
    assert grown.on_machine(machine(3)) == east.on_machine(machine(3))


def test_devices_and_machines_that_settings_no_longer_name_are_gone() -> None:
    east = build_model(fabric(), GROUPS)
    for index in (3, 4):
        east.begin_attach(machine(index), model=MODEL, now=START)
    shrunk = build_model(fabric(pool={MODEL: 2}), [GROUPS[0].model_copy(update={"nodes_max": 3})])
    load(shrunk, dump(east))
    shrunk.advance(after(START, 10))
    assert shrunk.inventory().free["gpu", MODEL] == 1
    assert len(shrunk.on_machine(machine(3))) == 1


def test_only_the_newest_operations_that_are_over_are_kept() -> None:
    east = build_model(fabric(), GROUPS)
    for _ in range(2 * FINISHED_SAVED):
        east.begin_detach(machine(1), device_id="gone", now=START)
    running = east.begin_attach(machine(1), model=MODEL, now=START)
    again = build_model(fabric(), GROUPS)
    load(again, dump(east))
    assert len(again.operations()) == FINISHED_SAVED + 1
    assert again.operation(running.id) == running
    assert again.begin_attach(machine(1), model=MODEL, now=START).id == running.id + 1


def test_a_saved_operation_may_lack_its_device_and_is_refused_with_a_field_that_is_unknown() -> None:
    east = build_model(fabric(), GROUPS)
    east.begin_detach(machine(1), device_id="gone", now=START)
    saved = json.loads(dump(east))
    (operation,) = saved["operations"]
    del operation["device_id"]
    load(build_model(fabric(), GROUPS), json.dumps(saved))
    operation["guess"] = 1
    with pytest.raises(SavedStateError, match=r"operations\.0\.guess"):
        load(build_model(fabric(), GROUPS), json.dumps(saved))


def test_a_wall_clock_that_was_set_back_does_not_make_a_fabric_live_again_what_it_lived(tmp_path: Path) -> None:
    path = tmp_path / "east.json"
    east = build_model(fabric(), GROUPS)
    east.advance(after(START, 10**12))  # far in the future of any machine's clock
    path.write_text(dump(east))
    assert open_manager(fabric(), GROUPS, path=path).now() >= east.now


def test_a_running_clock_follows_the_monotonic_one() -> None:
    time = FakeTime(wall_ns=5 * NS_PER_S)
    clock = RunningClock(source=time)
    time.wall_ns = 0  # set back
    time.elapsed_s = 3.0
    assert clock.now() == 8 * NS_PER_S


async def test_changes_that_come_together_are_written_together(tmp_path: Path) -> None:
    states = iter(range(1_000))
    store = FabricStore(tmp_path / "fabric" / "east.json", lambda: str(next(states)))
    await asyncio.gather(*(store.save() for _ in range(50)))
    assert (tmp_path / "fabric" / "east.json").read_text() == "0"
    await store.save()
    assert (tmp_path / "fabric" / "east.json").read_text() == "1"


async def test_a_save_returns_only_when_what_it_asked_for_is_written(tmp_path: Path) -> None:
    state = "before"
    store = FabricStore(tmp_path / "east.json", lambda: state)
    first = asyncio.create_task(store.save())
    await asyncio.sleep(0)
    state = "changed before the write"
    await first
    assert (tmp_path / "east.json").read_text() == state


async def test_one_who_leaves_does_not_end_the_write_of_others(tmp_path: Path) -> None:
    store = FabricStore(tmp_path / "east.json", lambda: "kept")
    leaver, stayer = asyncio.create_task(store.save()), asyncio.create_task(store.save())
    await asyncio.sleep(0)
    leaver.cancel()
    await stayer
    assert (tmp_path / "east.json").read_text() == "kept"
