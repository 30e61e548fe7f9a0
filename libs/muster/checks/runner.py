"""Run all checks of a plan on this node, one after the other, within their limits."""

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from muster.checks import catalogue, storage_probe
from muster.checks.catalogue import CheckError
from muster.checks.programs import Ran, Run
from muster.checks.readers import (
    FIELDS,
    Reading,
    at_least,
    failed,
    is_unknown_field,
    passed,
    read_all_reduce,
    read_dcgm,
    read_list,
    read_nccl,
    read_nvbandwidth,
    read_query,
    unable,
)
from muster.schemas.facts.operations import CheckOrder, CheckOutcome, CheckResult, PreflightPlan

GANG_PORT = 29_499
"""Besides torchrun's own port: the job's first step may use that one while a slow peer still uses this one."""
FAILED_CODES = range(1, 125)
"""Exit codes of a custom command that count as failures; 125 and above are from shells, containers and signals."""
LAST_S = 1.0
"""Minimum remaining time for a check, in seconds."""


@dataclass(frozen=True, slots=True)
class Place:
    """Place of a run of checks. gpus: of the pod, None: unknown. rank, nodes: of the gang, by pods with GPUs.

    first: host of the gang's first pod.
    """

    node: str
    gpus: int | None = None
    rank: int = 0
    nodes: int = 1
    first: str = ""


def place_of(environment: Mapping[str, str], *, node: str) -> Place:
    """Return the place from the variables of a pod (see docs/concepts/preflight.md)."""
    gpus = environment.get("MUSTER_PREFLIGHT_GPUS", "")
    return Place(
        node=environment.get("MUSTER_NODE") or node,
        gpus=int(gpus) if gpus.isdecimal() else None,
        rank=_number(environment, "MUSTER_PREFLIGHT_RANK", _number(environment, "PET_NODE_RANK", 0)),
        nodes=_number(environment, "MUSTER_PREFLIGHT_NODES", _number(environment, "PET_NNODES", 1)),
        first=environment.get("MUSTER_PREFLIGHT_FIRST") or environment.get("PET_MASTER_ADDR", ""),
    )


def probe(order: CheckOrder, place: Place, *, limit_s: float, run: Run) -> Reading:
    """Run one check and parse its output. Raises CheckError for parameters that are not numbers."""
    known = _PROBES.get(order.check)
    if known is None:
        return unable(f"this version of Muster has no check {order.check!r}")
    return known(order, place, limit_s, run)


def _device_count(order: CheckOrder, place: Place, limit_s: float, run: Run) -> Reading:  # noqa: ARG001 - as all
    ran = run(("nvidia-smi", "-L"), limit_s=limit_s)
    if ran.code is None:
        return unable(ran.why)
    return _believed(read_list(ran.text, expected=place.gpus), ran)


def _gpu_health(order: CheckOrder, place: Place, limit_s: float, run: Run) -> Reading:  # noqa: ARG001 - as all
    most = _parameter(order, "temperature_c_max")
    for fields in (FIELDS, FIELDS[:-1]):
        query = ("nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits")
        ran = run(query, limit_s=limit_s)
        if ran.code is None:
            return unable(ran.why)
        if not is_unknown_field(ran.text):
            break
    reading = read_query(ran.text, fields, temperature_c_max=most)
    return _believed(reading, ran)


def _dcgm(order: CheckOrder, place: Place, limit_s: float, run: Run) -> Reading:  # noqa: ARG001 - as all
    level = f"{_parameter(order, 'level'):.0f}"
    ran = run(("dcgmi", "diag", "-r", level, "-j"), limit_s=limit_s)
    return unable(ran.why) if ran.code is None else read_dcgm(ran.text)


def _peer_bandwidth(order: CheckOrder, place: Place, limit_s: float, run: Run) -> Reading:  # noqa: ARG001 - as all
    size = f"{_parameter(order, 'mib'):.0f}"
    command = (_text(order, "program"), "-t", "device_to_device_memcpy_read_ce", "-b", size, "-j")
    ran = run(command, limit_s=limit_s)
    if ran.code is None:
        return unable(ran.why)
    return read_nvbandwidth(ran.text, gb_per_s_min=_parameter(order, "gb_per_s_min"))


def _all_reduce(order: CheckOrder, place: Place, limit_s: float, run: Run) -> Reading:
    """Run nccl-tests within one node, and torchrun over several nodes, where nccl-tests would need MPI."""
    least, mib, rounds = (_parameter(order, name) for name in ("gb_per_s_min", "mib", "rounds"))
    gpus = place.gpus or 1
    if place.nodes == 1:
        size = f"{mib:.0f}M"
        alone = (_text(order, "program"), "-b", size, "-e", size, "-g", str(gpus), "-n", f"{rounds:.0f}")
        ran = run(alone, limit_s=limit_s)
        return unable(ran.why) if ran.code is None else read_nccl(ran.text, gb_per_s_min=least)
    if not place.first:
        return unable("the address of the first pod of the gang is not set")
    command = (
        "torchrun", "--nnodes", str(place.nodes), "--node-rank", str(place.rank), "--nproc-per-node", str(gpus),
        "--master-addr", place.first, "--master-port", str(GANG_PORT), "-m", "muster.checks.torch_reduce",
        f"{mib:.0f}", f"{rounds:.0f}",
    )  # fmt: skip
    ran = run(command, limit_s=limit_s, env={"OMP_NUM_THREADS": "1"})
    return unable(ran.why) if ran.code is None else read_all_reduce(ran.text, gb_per_s_min=least)


def _storage(order: CheckOrder, place: Place, limit_s: float, run: Run) -> Reading:  # noqa: ARG001 - as all
    path, mib = _text(order, "path"), f"{max(1.0, _parameter(order, 'mib')):.0f}"
    ran = run((sys.executable, "-m", "muster.checks.storage_probe", path, mib), limit_s=limit_s)
    if ran.code is None:
        return unable(f"{path}: {ran.why}")
    words = ran.text.strip()[-500:]
    if ran.code == storage_probe.FAILED:
        return failed(words, code="storage")
    if ran.code != storage_probe.PASSED:
        return unable(words)
    return at_least(float(words), _parameter(order, "mb_per_s_min"), unit="MB/s", detail=path)


def _command(order: CheckOrder, place: Place, limit_s: float, run: Run) -> Reading:
    ran = run(order.command, limit_s=limit_s, env={"MUSTER_NODE": place.node})
    words = ran.text.strip()[-500:]
    if ran.code is None:
        return unable(ran.why)
    if ran.code == 0:
        return passed(words)
    if ran.code in FAILED_CODES:
        return failed(words or f"exit code {ran.code}", code=f"exit-{ran.code}")
    return unable(f"exit code {ran.code}: {words}")


def _believed(reading: Reading, ran: Ran) -> Reading:
    """Return "could not run" for a tool that reports success and exits with an error."""
    if ran.code and reading.outcome is CheckOutcome.PASS:
        return unable(f"the tool ended with {ran.code}: {ran.text.strip()[-200:]}")
    return reading


def _parameter(order: CheckOrder, name: str) -> float:
    default = catalogue.kind_of(order.check).numbers[name]
    text = order.parameters.get(name)
    return default if text is None else catalogue.number_of(order.check, name, text)


def _text(order: CheckOrder, name: str) -> str:
    return order.parameters.get(name) or catalogue.kind_of(order.check).texts[name]


def _number(environment: Mapping[str, str], name: str, default: int) -> int:
    text = environment.get(name, "")
    return int(text) if text.isdecimal() else default


_PROBES: Mapping[str, Callable[[CheckOrder, Place, float, Run], Reading]] = {
    catalogue.DEVICE_COUNT: _device_count,
    catalogue.GPU_HEALTH: _gpu_health,
    catalogue.DCGM: _dcgm,
    catalogue.PEER_BANDWIDTH: _peer_bandwidth,
    catalogue.ALL_REDUCE: _all_reduce,
    catalogue.STORAGE: _storage,
    catalogue.COMMAND: _command,
}


def run_plan(plan: PreflightPlan, place: Place, *, run: Run, now_s: Callable[[], float]) -> Iterator[CheckResult]:
    """Yield each result as it comes. now_s: a monotonic clock.

    A check without remaining time could not run, so all checks are reported within the plan's limit.
    """
    deadline_s = now_s() + plan.limit_s
    for order in plan.checks:
        began_s = now_s()
        left_s = deadline_s - began_s
        if left_s < LAST_S:
            reading = unable(f"no time was left of {plan.limit_s:g} s")
        else:
            reading = _probed(order, place, limit_s=min(order.limit_s, left_s), run=run)
        yield _result(order, place, reading, took_s=now_s() - began_s)


def _probed(order: CheckOrder, place: Place, *, limit_s: float, run: Run) -> Reading:
    try:
        return probe(order, place, limit_s=limit_s, run=run)
    except CheckError as error:
        return unable(str(error))


def _result(order: CheckOrder, place: Place, reading: Reading, *, took_s: float) -> CheckResult:
    short = replace(reading, detail=reading.detail[:1000], device=reading.device[:200], code=reading.code[:200])
    return CheckResult(
        node=place.node,
        check=order.check,
        outcome=short.outcome,
        value=short.measured.value,
        least=short.measured.least,
        unit=short.measured.unit,
        device=short.device,
        code=short.code,
        detail=short.detail,
        took_s=max(0.0, took_s),
    )
