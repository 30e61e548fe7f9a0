"""Rows of the guard's tables, from the views that programs get. Pure but for printing a whole report."""

from collections.abc import Iterable

from pydantic import JsonValue

from muster.cli import output
from muster.cli.output import print_line
from muster.guard.core.look import FlowLook, Look
from muster.schemas.apiserver import ApiServerReport

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


def print_report(report: ApiServerReport) -> None:
    """Tables, then what to do; empty ones are left out."""
    if not report.guarded:
        print_line("No API server to look at: this stack's cluster is simulated (setting kubernetes).")
        return
    if report.replicas:
        output.table(REPLICAS, replica_rows(report), right=NUMBERS)
        print_line(f"largest memory {report.memory_skew:.2f} times the smallest")
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
        print_line("No advice: nothing endangers the API servers.")
    for sentence in report.lacking:
        output.details((("not seen", sentence),))


def replica_rows(report: ApiServerReport) -> Iterable[tuple[str, ...]]:
    """One API server a row."""
    for one in report.replicas:
        yield (
            one.name, one.version, f"{one.memory_mib:.0f}", f"{one.cpu_cores:.2f}", str(one.in_flight),
            str(one.in_flight_mutating), f"{one.requests_per_s:.1f}", f"{one.lists_per_s:.2f}", str(one.watches),
            one.error,
        )  # fmt: skip


def lister_rows(report: ApiServerReport) -> Iterable[tuple[str, ...]]:
    """One client and resource a row."""
    for one in report.listers:
        yield one.client, one.resource, f"{one.lists_per_minute:.0f}", str(one.lists)


def level_rows(report: ApiServerReport) -> Iterable[tuple[str, ...]]:
    """One priority level a row."""
    for one in report.levels:
        yield (
            one.name, str(one.seats), str(one.wanted) if one.wanted else "", str(one.executing), str(one.queued),
            str(one.rejected), f"{one.wait_ms_p99:.0f}",
        )  # fmt: skip


def kind_rows(report: ApiServerReport) -> Iterable[tuple[str, ...]]:
    """The largest kinds."""
    for one in report.kinds[:KINDS_SHOWN]:
        yield one.resource, str(one.objects), f"{one.bytes / 2**20:.1f}" if one.bytes else ""


def flow_rows(look: Look) -> Iterable[tuple[str, ...]]:
    """One guarded kind a row."""
    for flow in look.flows:
        yield (
            flow.level, flow.resource, str(flow.wanted), _seats(flow), str(flow.shares), str(flow.ballast),
            str(flow.total), "as wanted" if flow.is_right else flow.reason,
        )  # fmt: skip


def flows_json(look: Look) -> list[JsonValue]:
    """The same for programs."""
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
    """Fewest and most seats of an API server."""
    return [look.server.low, look.server.high] if look.server else []


def _seats(flow: FlowLook) -> str:
    if flow.found is None:
        return "none"
    low, high = flow.found
    return str(low) if low == high else f"{low}-{high}"
