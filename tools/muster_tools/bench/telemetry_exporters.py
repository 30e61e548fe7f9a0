"""The exporters for `muster bench telemetry`, in a separate process so that their work is not counted.

`python -m muster_tools.bench.telemetry_exporters PORT NODES GPUS`; it ends with its parent.
"""

import asyncio
import sys

import uvloop
from aiohttp import web

from muster.bus.clock import SystemTime
from muster.stack.ports import LOOPBACK
from muster.stack.process import die_with_parent
from muster.telemetry.simulator.process import Pages
from muster.telemetry.simulator.world import World
from muster_tools.bench.telemetry_fleet import fleet_facts

COLLECT_S = 10.0
SEED = 1


async def serve(port: int, *, nodes: int, gpus: int) -> None:
    """Serve pages of that many nodes, with jobs on half of the GPUs, until the process is ended."""
    world = World(SEED, COLLECT_S)
    for fact in fleet_facts(nodes, gpus):
        world.apply(fact)
    runner = web.AppRunner(Pages(lambda: world, SystemTime()).app(), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, LOOPBACK, port, backlog=1_024).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    die_with_parent()
    uvloop.run(serve(int(sys.argv[1]), nodes=int(sys.argv[2]), gpus=int(sys.argv[3])))
