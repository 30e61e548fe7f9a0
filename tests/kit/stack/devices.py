"""The stack of the demonstrations for tests: two workers with a GPU each, a pool, everything short."""

from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import httpx

from kit.stack.living import Harness, open_harness
from kit.waiting import until_async
from muster.core.fact import Fact
from muster.stack.declared import SERVICES
from muster.stack.options import StartOptions
from muster_tools.demo.settings import FABRIC, MODEL, POOL, WORKER_COUNT, demo_settings
from muster_tools.demo.stage import Stage

ALL_DEVICES = POOL + WORKER_COUNT

Json = dict[str, object]


@dataclass
class DevicesHarness:
    """A harness with fabrics, and the stage of the demonstrations on it."""

    harness: Harness
    stage: Stage

    async def fabric(self, page: str, *, fabric: str = FABRIC) -> Json:
        """A page of the simulated manager itself."""
        async with httpx.AsyncClient() as client:
            return cast("Json", (await client.get(f"{self.url(fabric)}/{page}")).raise_for_status().json())

    async def behave(self, *, fabric: str = FABRIC, **faults: object) -> None:
        """From now on the simulated manager behaves so."""
        async with httpx.AsyncClient() as client:
            (await client.post(f"{self.url(fabric)}/_faults", json=faults)).raise_for_status()

    def url(self, fabric: str) -> str:
        """Of a simulated manager."""
        return next(one.url for one in self.harness.settings.fabrics if one.name == fabric)

    async def standing(self, *, fabric: str = FABRIC) -> dict[str, list[str]]:
        """Device uuids by machine, those in the pool under "": what there is in truth."""
        body = await self.fabric("_inventory", fabric=fabric)
        machines = cast("Mapping[str, list[Mapping[str, str]]]", body["machines"])
        return {machine: [device["device_uuid"] for device in devices] for machine, devices in machines.items()}

    async def free(self, *, fabric: str = FABRIC) -> int:
        """Devices in the pool, in truth."""
        body = await self.fabric("_inventory", fabric=fabric)
        return sum(int(str(kind["count"])) for kind in cast("list[Json]", body["free"]))

    async def facts(self, *names: str) -> list[Fact]:
        """Facts of these names in the cluster's log."""
        return [fact for fact in await self.harness.facts() if fact.name in names]

    async def said(self, name: str, *, job_id: str = "") -> Fact:
        """Wait for a fact of this name; job_id: in this job's trace."""
        found: list[Fact] = []

        async def is_said() -> bool:
            facts = await self.facts(name, "routed")
            trace = next((fact.trace for fact in facts if fact.subject_id == job_id), "").split("-")[1:2]
            found[:] = [f for f in facts if f.name == name and (not job_id or f.trace.split("-")[1:2] == trace)]
            return bool(found)

        await until_async(is_said)
        return found[0]

    async def books(self) -> str:
        """What is wrong with where devices are: "" if each is in one place and nodes show what stands on them."""
        machines = await self.standing()
        counted = Counter(uuid for devices in machines.values() for uuid in devices)
        doubled = [uuid for uuid, count in counted.items() if count > 1]
        if doubled or len(counted) + await self.free() != ALL_DEVICES:
            return f"{len(counted)} on machines and {await self.free()} free of {ALL_DEVICES}, doubled: {doubled}"
        shown = {view.device_uuid for view in await self.harness.muster.devices() if view.phase == "online"}
        return "" if shown == set(counted) else f"online are {sorted(shown)}, on machines {sorted(counted)}"


def settings_with(**changes: Json) -> Json:
    """The demonstrations' settings with fields of sections changed."""
    settings = deepcopy(demo_settings())
    for section, fields in changes.items():
        cast("Json", settings[section]).update(fields)
    return settings


def switching(seconds: float) -> Json:
    """A fabric that takes so long for an attachment."""
    fabric = deepcopy(cast("list[Json]", demo_settings()["fabrics"])[0])
    cast("Json", fabric["simulated"])["switch_median_s"] = seconds
    return fabric


@asynccontextmanager
async def open_devices_harness(
    state_dir: Path, settings: Json | None = None, *, split: bool = False, services: Sequence[str] = SERVICES
) -> AsyncIterator[DevicesHarness]:
    """Started with `demo_settings` unless told otherwise; the demonstrations' queue is there."""
    options = StartOptions(
        state_dir=state_dir,
        split=split,
        services=tuple(services),
        settings=settings or demo_settings(),
        sync_interval_s=120.0,
    )
    async with open_harness(options) as harness:
        stage = Stage(harness.muster, next(one.url for one in harness.settings.fabrics if one.name == FABRIC))
        await stage.set_up()
        yield DevicesHarness(harness, stage)


__all__ = ["ALL_DEVICES", "MODEL", "DevicesHarness", "open_devices_harness", "settings_with", "switching"]
