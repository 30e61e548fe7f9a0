"""Asking a running stack for its devices, requests and fabrics, and printing what it says."""

from pathlib import Path

from muster.bus.clock import SystemTime
from muster.cli import device_tables, output
from muster.cli.options import Output
from muster.cli.output import print_line
from muster.cli.session import call


def devices(state_dir: Path, form: Output, *, cluster: str) -> None:
    """Devices on nodes, and on their way."""
    found = call(state_dir, lambda muster: muster.devices(cluster=cluster))
    if form is Output.JSON:
        output.emit_models(found)
        return
    wide = form is Output.WIDE
    headings = device_tables.DEVICES_WIDE if wide else device_tables.DEVICES
    output.table(headings, device_tables.device_rows(found, now_ns=SystemTime().wall(), wide=wide))


def requests(state_dir: Path, form: Output, *, cluster: str) -> None:
    """All ComposabilityRequests."""
    found = call(state_dir, lambda muster: muster.composability_requests(cluster=cluster))
    if form is Output.JSON:
        output.emit_models(found)
        return
    wide = form is Output.WIDE
    headings = device_tables.REQUESTS_WIDE if wide else device_tables.REQUESTS
    rows = device_tables.request_rows(found, now_ns=SystemTime().wall(), wide=wide)
    output.table(headings, rows, right=device_tables.NUMBERS)


def one_request(state_dir: Path, form: Output, name: str, *, cluster: str) -> None:
    """One of them in full, with its devices."""
    found = call(state_dir, lambda muster: muster.composability_request(name, cluster=cluster))
    if form is Output.JSON:
        output.emit_model(found)
        return
    now_ns = SystemTime().wall()
    output.details(device_tables.request_pairs(found, now_ns=now_ns))
    if found.resources:
        print_line()
        rows = device_tables.device_rows(found.resources, now_ns=now_ns, wide=True)
        output.table(device_tables.DEVICES_WIDE, rows)


def fabrics(state_dir: Path, form: Output, *, cluster: str) -> None:
    """All fabrics."""
    found = call(state_dir, lambda muster: muster.fabrics(cluster=cluster))
    if form is Output.JSON:
        output.emit_models(found)
        return
    rows = device_tables.fabric_rows(found, now_ns=SystemTime().wall())
    output.table(device_tables.FABRICS, rows, right=device_tables.NUMBERS)
