"""What words on a page stand for, read from the stack that runs beside it."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx

from documents.stage import PATIENCE_S, POLL_S, Stage, keep_own_ports
from muster.cli.starting import FABRIC
from muster.openb.trace import NODE_FILE, TASK_FILE
from muster.schemas.access import Endpoints
from muster.stack.simulators import DCGM_PORT, FABRIC_PORT
from muster.stack.state_dir import StateDir

Fill = Callable[[Stage], Awaitable[str]]

_TASKS = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
)


async def newest_job(stage: Stage) -> str:
    """Id of the job that was submitted last."""
    jobs = await _asked(stage, "jobs")
    return str(max(jobs, key=lambda job: float(str(job["submitted_at"])))["id"])


async def attached_device(stage: Stage) -> str:
    """Uuid of a device that jobs may hold; waits for one."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            for device in await _asked(stage, "devices"):
                if device["phase"] == "online":
                    return str(device["device_uuid"])
            await asyncio.sleep(POLL_S)


async def gateway(stage: Stage) -> str:
    """Where the gateway listens."""
    return _endpoints(stage).http


async def fabric_address(stage: Stage) -> str:
    """Port and name of a simulated fabric's manager, as in a URL."""
    return f"{_endpoints(stage).ports[FABRIC_PORT]}/{FABRIC}"


async def exporter_address(stage: Stage) -> str:
    """Where the simulated exporters answer, as in a URL."""
    return f"127.0.0.1:{_endpoints(stage).ports[DCGM_PORT]}"


async def metrics_address(stage: Stage) -> str:
    """Return the host and port of a services' page of metrics, as in a URL."""
    return f"127.0.0.1:{_endpoints(stage).ports['metrics']}"


async def state_dir(stage: Stage) -> str:
    """Return the state directory that the other fills read."""
    return str(stage.state)


async def new_state_dir(stage: Stage) -> str:
    """A state directory in which nothing was yet; the same for all commands of a page."""
    return str(stage.work / "new-state")


async def restored_state_dir(stage: Stage) -> str:
    """Return a new state directory with ports of its own: each import starts a broker beside other stacks."""
    directory = stage.work / "restored-state"
    if not directory.exists():
        keep_own_ports(StateDir(directory))
    return str(directory)


async def small_trace(stage: Stage) -> str:
    """A folder with a trace in the format of openb: one node, twenty tasks."""
    folder = stage.work / "openb"
    _write_trace(folder)
    return str(folder)


def _write_trace(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    (folder / NODE_FILE).write_text("sn,cpu_milli,memory_mib,gpu,model\nn0,64000,262144,8,V100\n")
    rows = (f"p{n},4000,8192,1,1000,,LS,Running,{n * 60},{n * 60 + 600},{n * 60}\n" for n in range(20))
    (folder / TASK_FILE).write_text(_TASKS + "".join(rows))


def _endpoints(stage: Stage) -> Endpoints:
    return Endpoints.model_validate_json(StateDir(stage.state).endpoints.read_bytes())


async def _asked(stage: Stage, kind: str) -> list[dict[str, object]]:
    """All of one kind, as the gateway tells them."""
    headers = {"Authorization": f"Bearer {StateDir(stage.state).token.read_text().strip()}"}
    async with httpx.AsyncClient(base_url=_endpoints(stage).http, headers=headers) as client:
        answer = (await client.get(f"/v1/{kind}")).raise_for_status().json()
    (rows,) = (value for value in answer.values() if isinstance(value, list))
    return list(rows)
