"""A composer stopped in mid-attach, taken over, continued: what it had begun is adopted, nothing is attached twice."""

import os
import signal
from pathlib import Path
from typing import Any

import httpx
import pytest

from kit.stack.living import PASSED, Harness, open_harness, options, second
from kit.waiting import until_async
from muster.schemas.devices import AllocationPolicy, AttachmentPhase, ComposabilitySpec, RequestPhase
from muster.schemas.facts.device import DeviceAttached

pytestmark = [pytest.mark.connected, pytest.mark.timeout(240)]

MODEL, REQUEST = "NVIDIA-H100", "eight"
SIZE, LIMIT, POOL, NODES = 8, 4, 10, 2
SWITCH_S = 4.0
PATIENCE_S = 90.0


def settings() -> dict[str, object]:
    """Switches that take long enough to be hit in the middle."""
    simulated = {"pool": {MODEL: POOL}, "switch_median_s": SWITCH_S, "switch_sigma": 0.0}
    nodes = {"nodes": NODES, "nodes_min": NODES, "nodes_max": NODES, "gpus_max": 8}
    group = {"name": "cdi", "composable": True, "gpu_models": [MODEL], "fabric": "east", **nodes}
    return {
        "fleet": {"nodes": 0},
        "fabrics": [{"name": "east", "limit": LIMIT, "call_s": 12.0, "simulated": simulated}],
        "composer": {"survey_s": 2.0, "orphan_s": 2.0},
        "scaling": {"mode": "off", "visible_s": 0.1, "groups": [group]},
        "bus": {"lease_ttl_s": 1.0},
    }


async def terms(harness: Harness) -> int:
    """How many composers have led."""
    return sum(fact.writer == "composer" and fact.name == "term-started" for fact in await harness.facts())


async def truth(harness: Harness) -> dict[str, Any]:
    """What stands where, by the manager itself."""
    async with httpx.AsyncClient(trust_env=False) as http:
        found: dict[str, Any] = (await http.get(f"{harness.settings.fabrics[0].url}/_inventory")).json()
    return found


async def standing(harness: Harness) -> set[str]:
    """Devices on machines, in truth."""
    machines = (await truth(harness))["machines"]
    return {device["device_id"] for devices in machines.values() for device in devices}


async def test_calls_of_a_stopped_leader_are_adopted_and_made_no_second_time(tmp_path: Path) -> None:
    start = options(tmp_path, split=True, services=(*PASSED, "scaler", "composer"))
    start = start.model_copy(update={"settings": {**start.settings, **settings()}})
    async with open_harness(start) as harness, second("composer", harness):

        async def is_ready() -> bool:
            fabrics = await harness.muster.fabrics()
            return len(await harness.muster.nodes()) == NODES and any(fabric.pool for fabric in fabrics)

        await until_async(is_ready, patience_s=PATIENCE_S)
        before, leader = await terms(harness), harness.pid("composer")
        spec = ComposabilitySpec(model=MODEL, size=SIZE, allocation_policy=AllocationPolicy.DIFFERENTNODE)
        await harness.muster.compose(spec, name=REQUEST)

        async def calls_are_under_way() -> bool:
            return len((await truth(harness))["moving"]) == LIMIT

        await until_async(calls_are_under_way, patience_s=PATIENCE_S)
        os.kill(leader, signal.SIGSTOP)
        try:

            async def is_replaced() -> bool:
                return await terms(harness) > before

            await until_async(is_replaced, patience_s=PATIENCE_S)
        finally:
            os.kill(leader, signal.SIGCONT)

        async def has_all() -> bool:
            view = await harness.muster.composability_request(REQUEST)
            has = {device.device_id for device in view.resources if device.phase is AttachmentPhase.ONLINE}
            return view.phase is RequestPhase.RUNNING and len(has) == SIZE and await standing(harness) == has

        await until_async(has_all, patience_s=PATIENCE_S)
        attached = [fact.payload for fact in await harness.facts() if isinstance(fact.payload, DeviceAttached)]
        assert len(attached) == SIZE
        assert sum(one.adopted for one in attached) == LIMIT
        assert await harness.violations([]) == []
