"""What every driver keeps, against a simulated manager that speaks its protocol over real HTTP. Inherit DriverContract.

A call that goes wrong must say what is known of its effect, so most tests end by looking at the truth: the fabric's own
model, which no driver sees.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import pytest
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from kit.fabrics import LOGIN, MODEL, NAME, OTHER_MODEL, ServedFabric, fabric, machine, served_fabric
from kit.loopback import served
from kit.waiting import until
from muster.bus.settings import FabricSettings
from muster.core import Instant
from muster.fabric.driver import (
    AttachOrder,
    DetachOrder,
    FabricDriver,
    FabricError,
    FabricNonsenseError,
    FabricRefusedError,
    FabricTimeoutError,
    FabricUnavailableError,
    MachineDevice,
)
from muster.fabric.open import open_driver
from muster.fabric.simulator.manager import Tokens
from muster.fabric.simulator.operation import Fault, PoolDevice
from muster.fabric.simulator.problems import Refusal
from muster.schemas.devices import CXL_MEMORY, GPU
from muster.schemas.facts.fabric import POOL_MODELS_MAX

TRACE = f"00-{'ab' * 16}-{'cd' * 8}-01"
MODELS = ((GPU, MODEL), (CXL_MEMORY, "CXL-128G"))
UNKNOWN = (FabricTimeoutError, FabricNonsenseError)
"""Errors after which the effect may be there."""
CALL_S = 10.0
SHORT_S = 0.5


async def answer_with(
    respond: Callable[[Request], Awaitable[Response]], scope: Scope, receive: Receive, send: Send
) -> None:
    await (await respond(Request(scope, receive)))(scope, receive, send)


def app_of(respond: Callable[[Request], Awaitable[Response]]) -> ASGIApp:
    """An application that answers everything alike."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await answer_with(respond, scope, receive, send)

    return app


class DriverContract:
    """name: the driver's in the settings. asks_for_login: whether its manager does.

    twice_brings: devices that an attachment brings whose request is delivered twice; 1 where it names the device.
    """

    name: ClassVar[str]
    asks_for_login: ClassVar[bool] = False
    twice_brings: ClassVar[int] = 2

    @pytest.fixture
    async def east(self, tmp_path: Path) -> AsyncIterator[ServedFabric]:
        """A fabric with a pool of 4, machines 1 and 2 with one device each, 3 and 4 without."""
        async with served_fabric(self.settings(tmp_path)) as one:
            yield one

    def settings(self, tmp_path: Path, **simulated: object) -> FabricSettings:
        return fabric(tmp_path if self.asks_for_login else None, driver=self.name, **simulated)

    @asynccontextmanager
    async def driving(
        self, east: ServedFabric, *, call_s: float = CALL_S, credentials: Path | None = None
    ) -> AsyncIterator[FabricDriver]:
        settings = east.manager.settings.model_copy(update={"url": east.url, "call_s": call_s})
        if credentials is not None:
            settings = settings.model_copy(update={"credentials": credentials})
        driver = open_driver(settings, models=MODELS)
        try:
            yield driver
        finally:
            await driver.close()

    def behave(self, east: ServedFabric, **changed: float) -> None:
        east.manager.model.behaviour = east.manager.model.behaviour.model_copy(update=changed)

    def standing(self, east: ServedFabric, index: int = 3) -> set[MachineDevice]:
        return set(east.manager.devices_on(machine(index)))

    def order(self, index: int = 3, model: str = MODEL) -> AttachOrder:
        return AttachOrder(machine(index), model, traceparent=TRACE)

    async def test_an_attached_device_is_named_as_the_fabric_and_its_node_call_it(self, east: ServedFabric) -> None:
        async with self.driving(east) as driver:
            [device] = await driver.attach(self.order())
        assert self.standing(east) == {device}
        assert device.device_uuid.startswith("GPU-")
        assert (device.type, device.model) == (GPU, MODEL)

    async def test_what_is_named_is_of_that_model_and_machine_with_the_new_one_among_it(
        self, east: ServedFabric
    ) -> None:
        before = self.standing(east, 1)
        assert len(before) == 1
        async with self.driving(east) as driver:
            named = set(await driver.attach(self.order(1)))
        [new] = self.standing(east, 1) - before
        assert new in named
        assert named <= self.standing(east, 1)

    async def test_devices_of_another_model_beside_it_are_not_named(self, east: ServedFabric) -> None:
        async with self.driving(east) as driver:
            await driver.attach(self.order())
            [device] = await driver.attach(self.order(model=OTHER_MODEL))
        assert device.model == OTHER_MODEL
        assert len(self.standing(east)) == 2

    async def test_a_detached_device_is_back_in_the_pool_and_to_detach_it_again_finds_it_gone(
        self, east: ServedFabric
    ) -> None:
        [device] = self.standing(east, 1)
        order = DetachOrder(machine(1), device.device_id, traceparent=TRACE)
        async with self.driving(east) as driver:
            assert await driver.detach(order) is True
            assert self.standing(east, 1) == set()
            assert await driver.detach(order) is False
        assert east.manager.model.inventory().free[GPU, MODEL] == 5

    async def test_a_device_that_went_can_come_again(self, east: ServedFabric) -> None:
        async with self.driving(east) as driver:
            for _ in range(2):
                [device] = await driver.attach(self.order())
                assert self.standing(east) == {device}
                assert await driver.detach(DetachOrder(machine(3), device.device_id)) is True

    async def test_a_device_of_another_machine_is_not_taken_away(self, east: ServedFabric) -> None:
        [device] = self.standing(east, 1)
        async with self.driving(east) as driver:
            assert await driver.detach(DetachOrder(machine(2), device.device_id)) is False
        assert self.standing(east, 1) == {device}

    async def test_memory_is_composed_as_gpus_are(self, east: ServedFabric) -> None:
        async with self.driving(east) as driver:
            [device] = await driver.attach(AttachOrder(machine(3), "CXL-128G", CXL_MEMORY))
            assert self.standing(east) == {device}
            assert device.memory_mib == 131_072
            assert await driver.detach(DetachOrder(machine(3), device.device_id, CXL_MEMORY)) is True
        assert self.standing(east) == set()

    async def test_a_survey_tells_the_truth(self, east: ServedFabric) -> None:
        async with self.driving(east) as driver:
            await driver.attach(self.order())
            seen = await driver.survey()
        truth = east.manager.model.inventory()
        assert {key: seen.free[key] for key in MODELS} == {key: truth.free[key] for key in MODELS}
        assert {name: set(devices) for name, devices in seen.machines.items()} == {
            name: set(devices) for name, devices in truth.machines.items()
        }

    @pytest.mark.parametrize(
        ("strange", "field"),
        [
            (PoolDevice("GPU-x", "m" * 300), "model has 300"),
            (PoolDevice("GPU-x\x00", MODEL), "device_uuid"),
            (PoolDevice("g" * 300, MODEL), "device_uuid has 300"),
        ],
        ids=["model", "unprintable", "uuid"],
    )
    async def test_a_survey_with_a_device_that_no_fact_can_hold_is_nonsense(
        self, east: ServedFabric, strange: PoolDevice, field: str
    ) -> None:
        east.manager.model.enter(strange, machine(3))
        async with self.driving(east) as driver:
            with pytest.raises(FabricNonsenseError, match=field):
                await driver.survey()

    async def test_an_attachment_whose_device_no_fact_can_hold_is_nonsense(self, east: ServedFabric) -> None:
        east.manager.model.enter(PoolDevice("g" * 300, "NVIDIA-T4"))
        async with self.driving(east) as driver:
            with pytest.raises(FabricNonsenseError, match="device_uuid has 300"):
                await driver.attach(self.order(model="NVIDIA-T4"))

    async def test_devices_of_types_that_nobody_composes_are_left_out(self, east: ServedFabric) -> None:
        east.manager.model.enter(PoolDevice("NIC-1", "", "nic"), machine(3))
        east.manager.model.enter(PoolDevice("NIC-2", "", "nic"))
        async with self.driving(east) as driver:
            seen = await driver.survey()
        assert seen.machines[machine(3)] == ()
        assert {kind for kind, _ in seen.free} == {GPU, CXL_MEMORY}

    async def test_more_kinds_of_device_than_a_fact_can_hold_are_nonsense(self, east: ServedFabric) -> None:
        for number in range(POOL_MODELS_MAX + 1):
            east.manager.model.enter(PoolDevice(f"GPU-{number}", f"model-{number}"), machine(3))
        async with self.driving(east) as driver:
            with pytest.raises(FabricNonsenseError, match="kinds of device"):
                await driver.survey()

    async def test_an_unknown_machine_is_refused(self, east: ServedFabric) -> None:
        async with self.driving(east) as driver:
            with pytest.raises(FabricRefusedError, match="nowhere"):
                await driver.attach(AttachOrder("nowhere", MODEL))
            with pytest.raises(FabricRefusedError, match="nowhere"):
                await driver.detach(DetachOrder("nowhere", "device"))

    @pytest.mark.parametrize("name", ["", ".", "..", "../../admin", "a/b", "a?b=c", "a b", "ä"])
    async def test_a_strange_name_leads_nowhere_else(self, east: ServedFabric, name: str) -> None:
        async with self.driving(east) as driver:
            with pytest.raises(FabricRefusedError):
                await driver.attach(AttachOrder(name, MODEL))
            with pytest.raises(FabricRefusedError):
                await driver.detach(DetachOrder(name, "device"))

    async def test_a_machines_name_is_one_segment_of_the_path(self, tmp_path: Path) -> None:
        paths: list[str] = []

        async def note(request: Request) -> Response:
            paths.append(request.scope["raw_path"].decode())
            return Response("{}", 404)

        async with self.stub(tmp_path, note) as driver:
            with pytest.raises(FabricRefusedError):
                await driver.attach(AttachOrder("a/b?c=d&x#y", MODEL))
        assert paths
        assert all("a/b" not in path and "c=d" not in path for path in paths)

    async def test_an_unknown_model_is_refused(self, east: ServedFabric) -> None:
        async with self.driving(east) as driver:
            with pytest.raises(FabricRefusedError, match="NVIDIA-T4"):
                await driver.attach(self.order(model="NVIDIA-T4"))

    async def test_an_empty_pool_refuses(self, east: ServedFabric) -> None:
        async with self.driving(east) as driver:
            for _ in range(4):
                await driver.attach(self.order())
            with pytest.raises(FabricRefusedError):
                await driver.attach(self.order())
        assert len(self.standing(east)) == 4

    async def test_a_manager_that_is_not_ready_changed_nothing(self, east: ServedFabric) -> None:
        [device] = self.standing(east, 1)
        self.behave(east, refuse_share=1.0)
        async with self.driving(east) as driver:
            with pytest.raises(FabricUnavailableError):
                await driver.attach(self.order())
            with pytest.raises(FabricUnavailableError):
                await driver.detach(DetachOrder(machine(1), device.device_id))
        assert east.manager.model.operations() == ()

    async def test_work_that_was_done_but_not_answered_is_unknown_and_asked_for_once(self, east: ServedFabric) -> None:
        self.behave(east, drop_share=1.0)
        async with self.driving(east, call_s=SHORT_S) as driver:
            with pytest.raises(FabricTimeoutError):
                await driver.attach(self.order())
        assert len(self.standing(east)) == 1
        assert len(east.manager.model.operations()) == 1

    async def test_a_detachment_that_was_not_answered_is_unknown(self, east: ServedFabric) -> None:
        [device] = self.standing(east, 1)
        self.behave(east, drop_share=1.0)
        async with self.driving(east, call_s=SHORT_S) as driver:
            with pytest.raises(FabricTimeoutError):
                await driver.detach(DetachOrder(machine(1), device.device_id))
        assert self.standing(east, 1) == set()

    async def test_a_switch_slower_than_the_call_is_unknown_and_comes_to_its_end(self, east: ServedFabric) -> None:
        self.behave(east, switch_median_s=2 * SHORT_S)
        async with self.driving(east, call_s=SHORT_S) as driver:
            with pytest.raises(FabricTimeoutError):
                await driver.attach(self.order())
        assert self.standing(east) == set()
        await until(lambda: len(self.standing(east)) == 1)

    async def test_half_done_work_is_never_told_as_nothing_done(self, east: ServedFabric) -> None:
        [device] = self.standing(east, 1)
        self.behave(east, half_share=1.0)
        async with self.driving(east, call_s=3.0) as driver:
            with pytest.raises(UNKNOWN):
                await driver.attach(self.order())
            with pytest.raises(UNKNOWN):
                await driver.detach(DetachOrder(machine(1), device.device_id))

    async def test_an_answer_that_nobody_understands_is_nonsense_and_the_work_may_be_done(
        self, east: ServedFabric
    ) -> None:
        self.behave(east, nonsense_share=1.0)
        async with self.driving(east, call_s=3.0) as driver:
            with pytest.raises(FabricNonsenseError):
                await driver.attach(self.order())
        await until(lambda: len(self.standing(east)) == 1)

    async def test_a_detachment_that_is_answered_with_nonsense_may_be_done(self, east: ServedFabric) -> None:
        [device] = self.standing(east, 1)
        self.behave(east, nonsense_share=1.0)
        async with self.driving(east, call_s=3.0) as driver:
            with pytest.raises(FabricNonsenseError):
                await driver.detach(DetachOrder(machine(1), device.device_id))
        await until(lambda: not self.standing(east, 1))

    async def test_a_request_that_was_delivered_twice_names_devices_that_are_there(self, east: ServedFabric) -> None:
        self.behave(east, twice_share=1.0)
        async with self.driving(east) as driver:
            named = set(await driver.attach(self.order()))
        await until(lambda: len(self.standing(east)) == self.twice_brings)
        assert named
        assert named <= self.standing(east)

    async def test_calls_run_side_by_side_as_far_as_the_manager_allows(self, east: ServedFabric) -> None:
        async with self.driving(east) as driver:
            count = min(4, driver.parallel_max)
            named = await asyncio.gather(*(driver.attach(self.order()) for _ in range(count)))
        assert len(self.standing(east)) == count
        assert {device for each in named for device in each} == self.standing(east)

    async def test_the_trace_of_a_call_arrives(self, east: ServedFabric) -> None:
        async with self.driving(east) as driver:
            await driver.attach(self.order())
        [operation] = east.manager.model.operations()
        assert operation.traceparent == TRACE

    @pytest.mark.parametrize(
        ("outage", "error"), [(Fault.REFUSE, FabricUnavailableError), (Fault.NONSENSE, FabricNonsenseError)]
    )
    async def test_an_outage_is_told_as_what_it_is(
        self, east: ServedFabric, outage: Fault, error: type[FabricError]
    ) -> None:
        east.manager.outage = outage
        async with self.driving(east) as driver:
            with pytest.raises(error):
                await driver.attach(self.order())
            with pytest.raises(error):
                await driver.survey()
        assert east.manager.model.operations() == ()

    async def test_a_manager_that_answers_nothing_holds_nobody_longer_than_the_call(self, east: ServedFabric) -> None:
        east.manager.outage = Fault.DROP
        started_s = asyncio.get_running_loop().time()
        async with self.driving(east, call_s=SHORT_S) as driver:
            with pytest.raises((FabricTimeoutError, FabricUnavailableError)):
                await driver.attach(self.order())
            with pytest.raises(FabricUnavailableError):
                await driver.survey()
        assert asyncio.get_running_loop().time() - started_s < 8 * SHORT_S

    async def test_a_manager_that_is_down_changed_nothing(self, tmp_path: Path) -> None:
        async with served_fabric(self.settings(tmp_path)) as east:
            pass
        async with self.driving(east) as driver:
            for call in (driver.attach(self.order()), driver.detach(DetachOrder(machine(1), "d")), driver.survey()):
                with pytest.raises(FabricUnavailableError, match="cannot be reached"):
                    await call

    @asynccontextmanager
    async def stub(
        self, tmp_path: Path, respond: Callable[[Request], Awaitable[Response]], *, call_s: float = CALL_S
    ) -> AsyncIterator[FabricDriver]:
        """A driver without login whose manager answers everything alike."""
        settings = self.settings(tmp_path).model_copy(update={"credentials": None, "call_s": call_s})
        async with served(app_of(respond)) as root:
            driver = open_driver(settings.model_copy(update={"url": f"{root}/{NAME}"}), models=MODELS)
            try:
                yield driver
            finally:
                await driver.close()

    async def test_a_redirect_is_not_followed(self, tmp_path: Path) -> None:
        visits: list[str] = []

        async def elsewhere(request: Request) -> Response:
            visits.append(request.url.path)
            return Response("{}")

        async with served(app_of(elsewhere)) as other:

            async def away(request: Request) -> Response:
                return RedirectResponse(f"{other}{request.url.path}")

            async with self.stub(tmp_path, away) as driver:
                for call in (driver.attach(self.order()), driver.survey()):
                    with pytest.raises(FabricRefusedError, match="redirect"):
                        await call
        assert visits == []

    @pytest.mark.parametrize("body", [b"", b"<html>welcome</html>", b"[]", b"{}", b'{"data": 7}', b"\xff\xfe\x00"])
    async def test_an_answer_of_another_shape_is_nonsense(self, tmp_path: Path, body: bytes) -> None:
        async def say(request: Request) -> Response:
            return Response(body, media_type="application/json")

        async with self.stub(tmp_path, say) as driver:
            for call in (driver.attach(self.order()), driver.survey()):
                with pytest.raises(FabricNonsenseError):
                    await call

    async def test_a_giant_answer_is_nonsense(self, tmp_path: Path) -> None:
        async def pour(request: Request) -> Response:
            return Response(b" " * (16 * 2**20 + 1), media_type="application/json")

        async with self.stub(tmp_path, pour) as driver:
            with pytest.raises(FabricNonsenseError, match="larger than"):
                await driver.survey()

    async def test_a_server_error_to_a_question_changed_nothing(self, tmp_path: Path) -> None:
        async def fail(request: Request) -> Response:
            return Response(status_code=500)

        async with self.stub(tmp_path, fail) as driver:
            with pytest.raises(FabricUnavailableError):
                await driver.survey()


class LoginContract(DriverContract):
    """Of drivers whose manager asks who is there."""

    asks_for_login = True

    async def test_one_token_serves_many_calls(self, east: ServedFabric) -> None:
        grants = self._count_grants(east)
        async with self.driving(east) as driver:
            await driver.survey()
            await asyncio.gather(driver.survey(), driver.attach(self.order()))
        assert len(grants) == 1

    async def test_a_token_that_is_not_taken_any_more_is_renewed_once(self, east: ServedFabric) -> None:
        async with self.driving(east) as driver:
            await driver.survey()
            grants = self._count_grants(east, fabric_name="restarted")
            [device] = await driver.attach(self.order())
            assert self.standing(east) == {device}
        assert len(grants) == 1
        assert len(east.manager.model.operations()) == 1

    async def test_a_token_is_renewed_before_it_expires(self, tmp_path: Path) -> None:
        async with served_fabric(self.settings(tmp_path, token_s=0.5)) as east:
            grants = self._count_grants(east)
            async with self.driving(east) as driver:
                async with asyncio.timeout(30):
                    while len(grants) < 3:
                        await driver.survey()
            assert isinstance(east.manager.tokens, _Counting)
            assert east.manager.tokens.refused == []

    async def test_wrong_credentials_are_refused_and_not_shown(self, east: ServedFabric, tmp_path: Path) -> None:
        wrong = tmp_path / "wrong.json"
        wrong.write_text(json.dumps({**LOGIN, "password": "not the horse"}))
        async with self.driving(east, credentials=wrong) as driver:
            with pytest.raises(FabricRefusedError, match="credentials") as refused:
                await driver.attach(self.order())
        assert "not the horse" not in str(refused.value)
        assert east.manager.model.operations() == ()

    async def test_a_manager_that_takes_no_token_refuses_after_one_more(self, east: ServedFabric) -> None:
        grants = self._count_grants(east)
        assert east.manager.tokens is not None
        east.manager.tokens = _TakesNone("x", east.manager.tokens.login, 60.0, grants)
        async with self.driving(east) as driver:
            with pytest.raises(FabricRefusedError, match="401"):
                await driver.survey()
        assert len(grants) == 2

    def _count_grants(self, east: ServedFabric, *, fabric_name: str = NAME) -> list[str]:
        grants: list[str] = []
        known = east.manager.tokens
        assert known is not None
        east.manager.tokens = _Counting(fabric_name, known.login, known.life_s, grants)
        return grants


@dataclass(frozen=True)
class _Counting(Tokens):
    """grants: realms for which a token was asked; refused: why callers with a token were sent away."""

    grants: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def grant(self, realm: str, form: dict[str, str], *, now: Instant) -> dict[str, object]:
        self.grants.append(realm)
        return super().grant(realm, form, now=now)

    def check(self, authorization: str | None, *, now: Instant) -> None:
        try:
            super().check(authorization, now=now)
        except Refusal as refusal:
            self.refused.append(str(refusal))
            raise


class _TakesNone(_Counting):
    def check(self, authorization: str | None, *, now: Instant) -> None:
        super().check("Bearer a.b.c", now=now)
