"""What the recorded stack lives through with devices: they come and go, by choice and by hand; their fabric fails."""

import asyncio
from collections.abc import Callable

import httpx

from golden.logs import BIG_MEMORY_MIB, DEVICE_FACTS, MODEL, WORKER_GPUS_MAX, WORKERS, WORKERS_MAX
from kit.stack.living import Harness, job
from kit.waiting import until_async
from muster.client import RefusedError
from muster.core.fact import Fact
from muster.schemas.devices import ComposabilitySpec, DeviceView, RequestPhase
from muster.schemas.job import JobSpec, Phase, TaskGroup

LONG_S = 600.0
CROSSINGS_MAX = 20
RIVALS = 3


class DeviceStory:
    """One telling. accepted: ids of its jobs, all of which have ended when it is over."""

    def __init__(self, harness: Harness) -> None:
        self.harness = harness
        self.accepted: list[str] = []

    async def tell(self) -> None:
        """From the first look at the fabric until what came for load went with it."""
        await self._until(lambda facts: any(fact.name == "surveyed" for fact in facts))
        tenant = await self._attached_after_failures()
        large = await self._submit("large", memory_mib=3 * BIG_MEMORY_MIB // 4)
        await self._running(large)
        too_wide = await self._submit("too-wide", gpus=WORKER_GPUS_MAX, replicas=WORKERS_MAX + 1)
        await self._said("nothing-chosen", too_wide)
        await self.harness.muster.cancel(too_wide)
        await self._by_hand()
        await self._taken_by_force(tenant)
        for job_id in (tenant, large):
            await self.harness.muster.cancel(job_id)
        await self.harness.ended(self.accepted)
        await self._stays_when_the_fabric_refuses()
        await self._until(lambda facts: {fact.name for fact in facts} >= DEVICE_FACTS)

    async def _attached_after_failures(self) -> str:
        """A job needs GPUs, the manager refuses all calls for a while: its breaker opens and closes again."""
        await self._behave(refuse_share=1.0)
        tenant = await self._submit("tenant", gpus=WORKER_GPUS_MAX)
        await self._until(lambda facts: any(fact.name in ("attach-failed", "breaker-opened") for fact in facts))
        await self._behave(refuse_share=0.0)
        await self._running(tenant)
        return tenant

    async def _by_hand(self) -> None:
        """Asked for, in spite of nonsense; carried out twice; refused for somebody who was faster; given back."""
        muster = self.harness.muster
        await self._behave(nonsense_share=1.0)
        await self._compose("by-hand")
        await self._until(lambda facts: any(getattr(fact.payload, "adopted", False) for fact in facts))
        await self._behave(nonsense_share=0.0)
        device = await self._online("by-hand")
        await muster.detach(device.device_uuid, reason="its fan")
        await self._cross()
        await self._behave(twice_share=1.0)
        await self._compose("by-hand")
        await self._until(lambda facts: any(fact.name == "orphan-found" for fact in facts))
        await self._behave(twice_share=0.0)
        await self._online("by-hand")
        await muster.decompose("by-hand")
        await self._over("by-hand")
        await self._until(lambda facts: any(fact.name == "orphan-returned" for fact in facts))

    async def _cross(self) -> None:
        """The gateway asks before it accepts; requests that cross are told apart by the composer alone."""
        muster = self.harness.muster
        for crossing in range(CROSSINGS_MAX):
            node = next(node.name for node in await muster.nodes() if node.group == WORKERS and node.usable)
            spec = ComposabilitySpec(model=MODEL, size=0, target_node=node)
            names = [f"crossing-{crossing}-{rival}" for rival in range(RIVALS)]
            found = await asyncio.gather(*(muster.compose(spec, name=name) for name in names), return_exceptions=True)
            strange = [one for one in found if isinstance(one, BaseException) and not isinstance(one, RefusedError)]
            assert not strange, strange
            for name in (name for name, one in zip(names, found, strict=True) if not isinstance(one, RefusedError)):
                if await self._is_accepted(name):
                    await muster.decompose(name)
                    await self._over(name)
            if any(fact.name == "refused" for fact in await self.harness.facts()):
                return
        raise AssertionError(f"no request was refused in {CROSSINGS_MAX} crossings")

    async def _is_accepted(self, request: str) -> bool:
        """Which of the two the composer said, once it did: the gateway may not have waited for it."""
        await self._until(lambda facts: bool(_told(facts) & {(request, "accepted"), (request, "refused")}))
        return (request, "accepted") in _told(await self.harness.facts())

    async def _taken_by_force(self, holder: str) -> None:
        """The job goes on elsewhere, or once a device came again."""
        devices = await self.harness.muster.devices()
        await self.harness.muster.detach(next(one.device_uuid for one in devices if holder in one.holders), force=True)
        await self.harness.job_that(holder, lambda view: view.attempt > 1 and view.phase is Phase.RUNNING)

    async def _stays_when_the_fabric_refuses(self) -> None:
        """A device that is not taken away may be used again."""
        await self._compose("stays")
        device = await self._online("stays")
        await self._behave(refuse_share=1.0)
        await self.harness.muster.detach(device.device_uuid)
        await self._until(lambda facts: any(fact.name == "detach-given-up" for fact in facts))
        await self._behave(refuse_share=0.0)

    async def _compose(self, request: str) -> None:
        """Ask for one device, again while there is no room: nodes fail, and idle devices go in their time."""

        async def is_taken_up() -> bool:
            try:
                await self.harness.muster.compose(ComposabilitySpec(model=MODEL, size=1), name=request)
            except RefusedError:
                return False
            return True

        await until_async(is_taken_up)

    # --- steps -----------------------------------------------------------------------------------------------

    async def _submit(self, name: str, *, gpus: int = 0, replicas: int = 1, memory_mib: int = 100) -> str:
        models = (MODEL,) if gpus else ()
        group = TaskGroup(gpus=gpus, replicas=replicas, cpu_milli=100, memory_mib=memory_mib, gpu_models=models)
        spec: JobSpec = job(name, run_s=LONG_S, task_groups=(group.model_dump(),))
        self.accepted.append((await self.harness.muster.submit(spec)).id)
        return self.accepted[-1]

    async def _running(self, job_id: str) -> None:
        await self.harness.job_that(job_id, lambda view: view.phase is Phase.RUNNING)

    async def _said(self, name: str, subject_id: str) -> None:
        await self._until(lambda facts: (subject_id, name) in _told(facts))

    async def _online(self, request: str) -> DeviceView:
        """The request's device, once it may be used."""
        found: list[DeviceView] = []

        async def is_so() -> bool:
            view = await self.harness.muster.composability_request(request)
            found[:] = [one for one in view.resources if one.phase == "online"]
            return bool(found)

        await until_async(is_so)
        return found[0]

    async def _over(self, request: str) -> None:
        async def is_so() -> bool:
            return (await self.harness.muster.composability_request(request)).phase is RequestPhase.ENDED

        await until_async(is_so)

    async def _until(self, is_so: Callable[[list[Fact]], bool]) -> None:
        async def told() -> bool:
            return is_so(await self.harness.facts())

        await until_async(told)

    async def _behave(self, **faults: float) -> None:
        """From now on the simulated manager behaves so."""
        (fabric,) = self.harness.settings.fabrics
        async with httpx.AsyncClient() as client:
            (await client.post(f"{fabric.url}/_faults", json=faults)).raise_for_status()


def _told(facts: list[Fact]) -> set[tuple[str, str]]:
    """What was said, and of whom."""
    return {(fact.subject_id, fact.name) for fact in facts}
