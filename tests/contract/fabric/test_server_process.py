"""`muster serve fabric-simulator` as a process: what it answered stays done, however it ends."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from kit.fabrics import GROUPS, MODEL, NAME, fabric, machine
from kit.waiting import until_async
from muster.bus.settings import Settings
from muster.core.settings import ScalingSettings
from muster.fabric.simulator.saved import SavedStateError
from muster.fabric.simulator.server import open_manager
from muster.schemas.access import Endpoints
from muster.stack.ports import free_port
from muster.stack.process import die_with_parent

COMMAND = (sys.executable, "-m", "muster.cli.main", "serve", "fabric-simulator", "--state-dir")


class Simulator:
    """A process with a state directory of its own."""

    def __init__(self, state_dir: Path, **simulated: object) -> None:
        self.state_dir = state_dir
        self.port = free_port()
        settings = Settings(
            state_dir=state_dir,
            credentials_dir=state_dir,
            fabrics=(fabric(**simulated),),  # type: ignore[arg-type]
            scaling=ScalingSettings(groups=GROUPS),
        )
        (state_dir / "settings.json").write_text(settings.model_dump_json())
        endpoints = Endpoints(
            http="http://x", nats="nats://x", redis="x", monitor="x", websocket="x", ports={"fabric": self.port}
        )
        (state_dir / "run").mkdir()
        (state_dir / "run" / "endpoints.json").write_text(endpoints.model_dump_json())
        self.http = httpx.AsyncClient(base_url=f"http://127.0.0.1:{self.port}/{NAME}", trust_env=False, timeout=20)

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[bytes]]:
        with (self.state_dir / "log").open("ab") as log:
            process = subprocess.Popen(
                (*COMMAND, str(self.state_dir)),
                stdout=log,
                stderr=log,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - one prctl call, safe after a fork
            )
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    async def ready(self) -> None:
        async def answers() -> bool:
            try:
                return (await self.http.get("_inventory")).status_code == 200
            except httpx.TransportError:
                return False

        await until_async(answers)

    async def attach(self) -> httpx.Response:
        request = {"@Redfish.RequestCount": 1, "ProcessorType": "GPU", "Model": MODEL}
        return await self.http.patch(f"redfish/v1/Systems/{machine(3)}", json={"Processors": {"Members": [request]}})

    async def standing(self) -> list[str]:
        held = (await self.http.get("_inventory")).json()
        return [one["device_uuid"] for one in held["machines"][machine(3)]]


async def test_what_was_answered_is_still_so_after_sigkill(tmp_path: Path) -> None:
    simulator = Simulator(tmp_path)
    with simulator.running() as process:
        await simulator.ready()
        assert (await simulator.attach()).status_code == 200
        before = await simulator.standing()
        assert len(before) == 1
        process.send_signal(signal.SIGKILL)
        process.wait()
    with simulator.running():
        await simulator.ready()
        assert await simulator.standing() == before
        assert (await simulator.attach()).status_code == 200
        assert len(await simulator.standing()) == 2


async def test_an_accepted_resize_is_carried_out_over_a_restart(tmp_path: Path) -> None:
    simulator = Simulator(tmp_path, switch_median_s=1.0)
    path = f"cluster_manager/cluster_autoscaler/v3/tenants/tenant/clusters/cluster/machines/{machine(3)}"
    with simulator.running() as process:
        await simulator.ready()
        specs = (await simulator.http.get(path)).json()["data"]["cluster"]["machine"]["resspecs"]
        wanted = {"increase_resource_count": {"spec_uuid": specs[0]["spec_uuid"], "device_count": 1}}
        assert (await simulator.http.post(f"{path}/actions/resize", json=wanted)).status_code == 200
        process.send_signal(signal.SIGKILL)
        process.wait()
    with simulator.running():
        await simulator.ready()

        async def has_come() -> bool:
            return len(await simulator.standing()) == 1

        await until_async(has_come)


async def test_being_asked_to_end_is_no_failure(tmp_path: Path) -> None:
    simulator = Simulator(tmp_path)
    with simulator.running() as process:
        await simulator.ready()
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 0


def test_a_damaged_state_is_named_and_not_thrown_away(tmp_path: Path) -> None:
    path = tmp_path / "east.json"
    path.write_text('{"version": 1, "fabric"')
    with pytest.raises(SavedStateError, match=str(path)):
        open_manager(fabric(), GROUPS, path=path)
    assert path.exists()


def test_the_state_of_another_fabric_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "east.json"
    state = {"fabric": "west", "now": 0, "next_id": 1, "places": {}, "operations": []}
    path.write_text(json.dumps(state))
    with pytest.raises(SavedStateError, match="west"):
        open_manager(fabric(), GROUPS, path=path)
