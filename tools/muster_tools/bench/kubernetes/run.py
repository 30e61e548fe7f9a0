"""`muster bench kubernetes`: all contenders, one after the other, on this machine."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import uvloop

from muster.cli.errors import CliError, refused, usage
from muster.cli.machine import Machine, this_machine
from muster.cli.output import print_note
from muster.cli.progress import measured
from muster.stack.control import StartFailedError
from muster.stack.state_dir import StateDirError
from muster_tools.bench.kubernetes.observing import WatchLostError
from muster_tools.bench.kubernetes.plan import GPUS_PER_NODE, Contender, Plan
from muster_tools.bench.kubernetes.result import Result
from muster_tools.bench.kubernetes.scenarios.floor import Floor
from muster_tools.bench.kubernetes.scenarios.muster import MusterStack
from muster_tools.bench.kubernetes.scenarios.old_stack import OldStack
from muster_tools.bench.kubernetes.scenarios.scheduled import KubeScheduler
from muster_tools.bench.kubernetes.stage import Say, Scenario, play
from muster_tools.local_kubernetes.errors import LocalPlaneError
from muster_tools.local_kubernetes.options import Profile
from muster_tools.local_kubernetes.plane import programs_of
from muster_tools.local_kubernetes.programs import Programs, locate


def scenario_of(contender: Contender) -> Scenario:
    """Return the contender's scenario."""
    match contender:
        case Contender.FLOOR:
            return Floor()
        case Contender.DEFAULT:
            return KubeScheduler(contender, Profile.DEFAULT)
        case Contender.BIN_PACKING:
            return KubeScheduler(contender, Profile.BIN_PACKING)
        case Contender.OLD_STACK:
            return OldStack()
        case Contender.CLAIMS:
            return KubeScheduler(contender, Profile.DEFAULT, claims=True)
        case Contender.MUSTER | Contender.MUSTER_CLAIMS:
            return MusterStack(contender, claims=contender is Contender.MUSTER_CLAIMS)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Results of all contenders, with plan and machine."""

    plan: Plan
    machine: Machine
    results: tuple[Result, ...]


def compare(plan: Plan) -> Comparison:
    """Run every contender of the plan. Raises CliError."""
    if not plan.fits:
        raise usage(
            f"--nodes: {plan.nodes} nodes have {plan.nodes * GPUS_PER_NODE} GPUs and {plan.workloads} workloads need "
            f"{sum(plan.gpus)}; give more nodes, or fewer --workloads"
        )
    machine, say = this_machine(), print_note
    try:
        located = _located(plan, say)
        results = [_played(plan, at, located, say) for at in range(len(plan.contenders))]
    except (LocalPlaneError, WatchLostError, StartFailedError, StateDirError, aiohttp.ClientError, OSError) as error:
        raise refused(f"{type(error).__name__}: {error}") from error
    return Comparison(plan, machine, tuple(results))


def _located(plan: Plan, say: Say) -> Programs:
    """Find or build all programs before the first measurement, so that no build disturbs it."""
    wanted: list[str] = []
    for contender in plan.contenders:
        wanted.extend(programs_of(scenario_of(contender).options(plan)))
    return locate(wanted, say=say)


def _played(plan: Plan, at: int, located: Programs, say: Say) -> Result:
    scenario = scenario_of(plan.contenders[at])
    name = f"{at + 1}/{len(plan.contenders)} {scenario.contender.value}"
    with (
        tempfile.TemporaryDirectory(prefix="muster-bench-") as directory,
        measured(name, total=plan.workloads) as reached,
    ):
        try:
            return uvloop.run(play(scenario, plan, Path(directory), located=located, say=say, progress=reached))
        except* CliError as errors:
            raise _first(errors.exceptions) from errors
        except* (
            LocalPlaneError,
            WatchLostError,
            StartFailedError,
            StateDirError,
            aiohttp.ClientError,
            OSError,
        ) as errors:
            raise _first(errors.exceptions) from errors


def _first(errors: Sequence[BaseException]) -> BaseException:
    """Return the first error within nested exception groups of task groups."""
    error = errors[0]
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
