"""Four fabrics at once, one per driver, over real HTTP to managers that fail in every way: no device is lost.

Whatever goes wrong, a request gets what it asked for, gives it back, and nothing else stands on any machine at the end.
Then one manager shows a device that no fact could hold: that fabric is out, the others go on.
"""

import asyncio
from pathlib import Path

import httpx
import pytest

from kit.stack.living import Harness, open_harness, options
from kit.waiting import until_async
from muster.fabric.layout import machine_id
from muster.schemas.devices import AllocationPolicy, AttachmentPhase, BreakerState, ComposabilitySpec, RequestPhase

pytestmark = [pytest.mark.connected, pytest.mark.timeout(300)]

DRIVERS = ("fm", "cm", "nec", "sunfish")
SIZE, POOL, NODES = 4, 12, 2
FAULTS = {"refuse_share": 0.1, "drop_share": 0.1, "half_share": 0.1, "nonsense_share": 0.1, "twice_share": 0.1}
PATIENCE_S = 100.0


def model(driver: str) -> str:
    return f"GPU-OF-{driver.upper()}"


def settings() -> dict[str, object]:
    """Calls that are short, so that a lost answer is not waited for long."""
    return {
        "fleet": {"nodes": 0},
        "fabrics": [
            {
                "name": driver,
                "driver": driver,
                "limit": 4,
                "call_s": 2.0,
                "simulated": {"pool": {model(driver): POOL}, "switch_median_s": 0.2, "switch_sigma": 0.4},
            }
            for driver in DRIVERS
        ],
        "composer": {"survey_s": 2.0, "orphan_s": 2.0, "attempts_max": 20, "backoff_s": 0.2, "breaker_s": 2.0},
        "scaling": {
            "mode": "off",
            "visible_s": 0.1,
            "groups": [
                {
                    "name": f"by-{driver}",
                    "composable": True,
                    "nodes": NODES,
                    "nodes_min": NODES,
                    "nodes_max": NODES,
                    "gpus_max": 8,
                    "gpu_models": [model(driver)],
                    "fabric": driver,
                }
                for driver in DRIVERS
            ],
        },
    }


async def test_managers_that_fail_in_every_way_neither_lose_nor_keep_a_device(tmp_path: Path) -> None:
    start = options(tmp_path)
    start = start.model_copy(update={"settings": {**start.settings, **settings()}})
    async with open_harness(start) as harness, httpx.AsyncClient(trust_env=False) as http:
        fabrics = _Fabrics(harness, http)
        await until_async(fabrics.are_seen, patience_s=PATIENCE_S)
        await fabrics.behave(FAULTS)
        await asyncio.gather(*(_compose(harness, driver) for driver in DRIVERS))
        await asyncio.gather(*(fabrics.settled(driver) for driver in DRIVERS))
        await asyncio.gather(*(harness.muster.decompose(f"for-{driver}", force=True) for driver in DRIVERS))
        await asyncio.gather(*(fabrics.emptied(driver) for driver in DRIVERS))
        await fabrics.behave(dict.fromkeys(FAULTS, 0.0))
        await until_async(fabrics.agree, patience_s=PATIENCE_S)
        strange, *others = DRIVERS
        await fabrics.build_in(
            strange, device_uuid="GPU-strange", model="m" * 300, machine=machine_id(f"by-{strange}-0001")
        )
        await until_async(lambda: fabrics.is_out(strange, "model has 300"), patience_s=PATIENCE_S)
        await asyncio.gather(*(_compose(harness, driver) for driver in others))
        await asyncio.gather(*(fabrics.settled(driver) for driver in others))
        assert await fabrics.is_out(strange, "model has 300")


async def _compose(harness: Harness, driver: str) -> None:
    spec = ComposabilitySpec(model=model(driver), size=SIZE, allocation_policy=AllocationPolicy.DIFFERENTNODE)
    await harness.muster.compose(spec, name=f"for-{driver}")


class _Fabrics:
    """The truth beside what Muster says."""

    def __init__(self, harness: Harness, http: httpx.AsyncClient) -> None:
        self._harness = harness
        self._http = http
        self._urls = {fabric.name: fabric.url for fabric in harness.settings.fabrics}

    async def behave(self, faults: dict[str, float]) -> None:
        for url in self._urls.values():
            (await self._http.post(f"{url}/_faults", json=faults)).raise_for_status()

    async def build_in(self, driver: str, **device: str) -> None:
        (await self._http.post(f"{self._urls[driver]}/_devices", json=device)).raise_for_status()

    async def is_out(self, driver: str, why: str) -> bool:
        shown = {fabric.name: fabric for fabric in await self._harness.muster.fabrics()}
        closed = {name for name, fabric in shown.items() if fabric.breaker is BreakerState.CLOSED}
        return closed == {*DRIVERS} - {driver} and why in shown[driver].error

    async def are_seen(self) -> bool:
        """Pools and nodes are known."""
        seen = await self._harness.muster.fabrics()
        nodes = await self._harness.muster.nodes()
        return len(nodes) == NODES * len(DRIVERS) and sum(bool(fabric.pool) for fabric in seen) == len(DRIVERS)

    async def settled(self, driver: str) -> None:
        """The request has what it asked for, and nothing else is on the machines."""

        async def is_so() -> bool:
            view = await self._harness.muster.composability_request(f"for-{driver}")
            has = {device.device_id for device in view.resources if device.phase is AttachmentPhase.ONLINE}
            return view.phase is RequestPhase.RUNNING and len(has) == SIZE and await self._standing(driver) == has

        await until_async(is_so, patience_s=PATIENCE_S)

    async def emptied(self, driver: str) -> None:
        async def is_so() -> bool:
            view = await self._harness.muster.composability_request(f"for-{driver}")
            return view.phase is RequestPhase.ENDED and not await self._standing(driver)

        await until_async(is_so, patience_s=PATIENCE_S)

    async def agree(self) -> bool:
        """Muster's pools are whole again, no breaker is open, no orphan left."""
        return all(
            [(pool.free, pool.attached) for pool in fabric.pool] == [(POOL, 0)]
            and fabric.breaker is BreakerState.CLOSED
            and not fabric.orphans
            for fabric in await self._harness.muster.fabrics()
        )

    async def _standing(self, driver: str) -> set[str]:
        truth = (await self._http.get(f"{self._urls[driver]}/_inventory")).json()
        return {device["device_id"] for devices in truth["machines"].values() for device in devices}
