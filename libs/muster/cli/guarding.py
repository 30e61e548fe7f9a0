"""Print the report of the guard, and apply flow control from the command line."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import TypeVar

from pydantic import JsonValue

from muster.bus.clock import SystemTime
from muster.bus.settings import Settings, load_settings
from muster.cli import output
from muster.cli.errors import CliError, refused, unreachable, usage
from muster.cli.guard_commands import Reach
from muster.cli.options import Output
from muster.cli.output import print_line, print_note
from muster.cli.session import call
from muster.guard.app import config_of, place_of
from muster.guard.core.config import GuardConfig, Kind, Subjects
from muster.guard.core.core import State, advise
from muster.guard.core.flow import leftovers
from muster.guard.core.flow_plan import FlowPlan
from muster.guard.core.look import FlowLook, Look
from muster.guard.core.report import report_of
from muster.guard.observer import ClusterObserver, remove_objects, write_plan
from muster.guard.replicas import Place
from muster.kube.errors import KubeConfigError, KubeError
from muster.kube.objects import JsonObject, name_of
from muster.schemas.apiserver import ApiServerReport
from muster.schemas.facts.guard import AdviceRaised, AdviceState

REPLICAS = (
    "API SERVER",
    "VERSION",
    "MEMORY_MIB",
    "CPU",
    "READING",
    "WRITING",
    "REQUESTS_S",
    "LISTS_S",
    "WATCHES",
    "ERROR",
)
LISTERS = ("WHO LISTS", "WHAT", "A_MINUTE", "SEEN")
LEVELS = ("LEVEL", "SEATS", "WANTED", "EXECUTING", "QUEUED", "REJECTED", "WAIT_MS_P99")
KINDS = ("STORED", "OBJECTS", "MIB")
FLOWS = ("LEVEL", "RESOURCE", "WANTED", "SEATS", "SHARES", "BALLAST", "ALL_SHARES", "STATE")
NUMBERS = frozenset(
    {
        "MEMORY_MIB", "CPU", "READING", "WRITING", "REQUESTS_S", "LISTS_S", "WATCHES", "A_MINUTE", "SEEN", "SEATS",
        "WANTED", "EXECUTING", "QUEUED", "REJECTED", "WAIT_MS_P99", "OBJECTS", "MIB", "SHARES", "BALLAST", "ALL_SHARES",
    }
)  # fmt: skip
KINDS_SHOWN = 8

Answer = TypeVar("Answer")


def print_report(report: ApiServerReport) -> None:
    """Print the tables that have rows, then the recommendations."""
    if not report.guarded:
        print_line("There is no API server: the cluster of this stack is simulated (setting kubernetes).")
        return
    if report.replicas:
        output.table(REPLICAS, replica_rows(report), right=NUMBERS)
        print_line(f"memory: the largest API server uses {report.memory_skew:.2f} times that of the smallest")
        print_line()
    if report.levels:
        output.table(LEVELS, level_rows(report), right=NUMBERS)
        print_line()
    if report.listers:
        output.table(LISTERS, lister_rows(report), right=NUMBERS)
        print_line()
    if report.kinds:
        output.table(KINDS, kind_rows(report), right=NUMBERS)
        print_line()
    for advice in report.advices:
        output.details(
            (
                (advice.severity, f"{advice.code} {advice.about}".strip()),
                ("why", advice.detail),
                ("do", advice.cure),
            )
        )
    if not report.advices:
        print_line("No recommendations: no hazard was found.")
    for sentence in report.lacking:
        output.details((("not seen", sentence),))


def replica_rows(report: ApiServerReport) -> Iterable[tuple[str, ...]]:
    """Return a row per API server."""
    for one in report.replicas:
        yield (
            one.name, one.version, f"{one.memory_mib:.0f}", f"{one.cpu_cores:.2f}", str(one.in_flight),
            str(one.in_flight_mutating), f"{one.requests_per_s:.1f}", f"{one.lists_per_s:.2f}", str(one.watches),
            one.error,
        )  # fmt: skip


def lister_rows(report: ApiServerReport) -> Iterable[tuple[str, ...]]:
    """Return a row per client and resource."""
    for one in report.listers:
        yield one.client, one.resource, f"{one.lists_per_minute:.0f}", str(one.lists)


def level_rows(report: ApiServerReport) -> Iterable[tuple[str, ...]]:
    """Return a row per priority level."""
    for one in report.levels:
        yield (
            one.name, str(one.seats), str(one.wanted) if one.wanted else "", str(one.executing), str(one.queued),
            str(one.rejected), f"{one.wait_ms_p99:.0f}",
        )  # fmt: skip


def kind_rows(report: ApiServerReport) -> Iterable[tuple[str, ...]]:
    """Return a row per resource, largest first."""
    for one in report.kinds[:KINDS_SHOWN]:
        yield one.resource, str(one.objects), f"{one.bytes / 2**20:.1f}" if one.bytes else ""


def flow_rows(look: Look) -> Iterable[tuple[str, ...]]:
    """Return a row per limited resource."""
    for flow in look.flows:
        yield (
            flow.level, flow.resource, str(flow.wanted), _seats(flow), str(flow.shares), str(flow.ballast),
            str(flow.total), "as wanted" if flow.is_right else flow.reason,
        )  # fmt: skip


def flows_json(look: Look) -> list[JsonValue]:
    """Return the report as JSON."""
    return [
        {
            "level": flow.level,
            "resource": flow.resource,
            "wanted": flow.wanted,
            "found": list(flow.found) if flow.found else None,
            "shares": flow.shares,
            "ballast_shares": flow.ballast,
            "total_shares": flow.total,
            "is_right": flow.is_right,
            "reason": flow.reason,
        }
        for flow in look.flows
    ]


def seats_json(look: Look) -> list[JsonValue]:
    """Return the minimum and maximum seats over API servers."""
    return [look.server.low, look.server.high] if look.server else []


def _seats(flow: FlowLook) -> str:
    if flow.found is None:
        return "none"
    low, high = flow.found
    return str(low) if low == high else f"{low}-{high}"


def report_of_stack(state_dir: Path, form: Output, *, cluster: str) -> None:
    """Print the report of the running guard of a cluster. Raises CliError."""
    _print(call(state_dir, lambda muster: muster.apiserver(cluster=cluster)), form)


def report_of_cluster(reach: Reach, form: Output, *, seconds: float) -> None:
    """Print a report from two observations of a cluster, `seconds` apart. Raises CliError."""

    async def ask(observer: ClusterObserver) -> Look:
        await observer.look()
        await asyncio.sleep(seconds)
        return await observer.look()

    place, config = _reached(reach)
    look = _at(place, config, ask)
    _print(report_of(look, _advice(look, config), config, guarded=True), form)


def apply(reach: Reach, form: Output, *, kinds: Sequence[str] | None, everybody: bool, dry_run: bool) -> None:
    """Apply flow control, or print the objects. Raises CliError (refused) if a limit is not possible."""
    place, config = _reached(reach)
    if kinds:
        config = replace(config, kinds=tuple(map(kind_of, kinds)))
    if everybody:
        config = replace(config, subjects=Subjects.EVERYBODY)

    async def ask(observer: ClusterObserver) -> tuple[Look, FlowPlan]:
        look, plan = await observer.plan()
        if dry_run:
            await write_plan(observer.connection, plan, dry_run=True)
            return look, plan
        return await observer.keep(), plan

    look, plan = _at(place, config, ask)
    if look.levels is None:
        raise unreachable("; ".join(look.lacking))
    if dry_run:
        _print_plan(plan, form)
    else:
        _print_flows(look, form)
    failed = [flow for flow in look.flows if not flow.is_right and (not dry_run or not flow.total)]
    if failed:
        raise refused("; ".join(f"{flow.level}: {flow.reason}" for flow in failed))


def remove(reach: Reach) -> None:
    """Delete all flow-control objects of Muster. Raises CliError."""

    async def ask(observer: ClusterObserver) -> list[JsonObject]:
        found = observer.flow_objects()
        if found is None:
            raise unreachable("; ".join((await observer.look()).lacking))
        gone = leftovers(found, [])
        await remove_objects(observer.connection, gone)
        return gone

    place, config = _reached(reach)
    gone = _at(place, config, ask)
    print_line(f"{len(gone)} flow-control objects removed")


def kind_of(word: str) -> Kind:
    """Parse `secrets=2` or `jobs.batch=4`. Raises CliError (usage)."""
    title, equals, seats = word.partition("=")
    resource, _, group = title.partition(".")
    if not (equals and resource and seats.isdecimal() and int(seats) >= 1):
        raise usage(
            f"--kind: {word!r} is not RESOURCE=SEATS with at least 1 seat; write for example secrets=2 or jobs.batch=4"
        )
    return Kind(resource, group, int(seats))


def _reached(reach: Reach) -> tuple[Place, GuardConfig]:
    settings = _settings(reach.state_dir)
    given = place_of(settings) if settings is not None else None
    config = config_of(settings) if settings is not None else GuardConfig()
    if reach.kubeconfig is not None or given is None:
        named = reach.kubeconfig or _from_environment()
        given = Place(kubeconfig=named)
    return replace(
        given,
        context=reach.context or given.context,
        api_servers=tuple(reach.api_server or ()) or given.api_servers,
        audit_port=0,  # a command does not listen where the guard does
    ), config


def _settings(state_dir: Path) -> Settings | None:
    """Return the settings of the stack, or the defaults if there is none."""
    if not (state_dir / "settings.json").is_file():
        return None
    try:
        return load_settings(state_dir, os.environ)
    except ValueError as error:
        raise usage(f"--state-dir: {error}") from error


def _from_environment() -> Path:
    named = os.environ.get("KUBECONFIG", "").split(os.pathsep)[0]
    path = Path(named) if named else Path.home() / ".kube" / "config"
    if not path.is_file():
        raise usage(f"--kubeconfig: the settings have no cluster and {path} does not exist; give a kubeconfig file")
    return path


def _at(place: Place, config: GuardConfig, ask: Callable[[ClusterObserver], Awaitable[Answer]]) -> Answer:
    """Run an action with a connection to a cluster. Raises CliError."""
    time = SystemTime()

    async def conversation() -> Answer:
        async with ClusterObserver(place, config, version=version("gpumuster"), now=time.wall) as observer:
            return await ask(observer)

    try:
        return asyncio.run(conversation())
    except KubeConfigError as error:
        raise usage(f"--kubeconfig: {error}") from error
    except KubeError as error:
        raise _told(error) from error


def _told(error: KubeError) -> CliError:
    return unreachable(str(error)) if error.code == 0 else refused(str(error))


def _advice(look: Look, config: GuardConfig) -> State:
    """Return the report of a new guard for this observation."""
    state = State()
    for draft in advise({}, look, config, look.at):
        if isinstance(draft.payload, AdviceRaised):
            state.advice[draft.subject_id] = AdviceState(raised=draft.payload, raised_at=look.at)
    return state


def _print(report: ApiServerReport, form: Output) -> None:
    if form is Output.JSON:
        output.emit_model(report)
    else:
        print_report(report)


def _print_plan(plan: FlowPlan, form: Output) -> None:
    """Print the objects as a List for `kubectl apply -f -`, and deletions on standard error."""
    output.emit_json({"apiVersion": "v1", "kind": "List", "items": plan.writes})
    if form is not Output.JSON:
        for obj in plan.deletes:
            print_note(f"would delete {obj['kind']} {name_of(obj)}")


def _print_flows(look: Look, form: Output) -> None:
    if form is Output.JSON:
        output.emit_json({"server_seats": seats_json(look), "levels": flows_json(look)})
    else:
        output.table(FLOWS, flow_rows(look), right=NUMBERS)
