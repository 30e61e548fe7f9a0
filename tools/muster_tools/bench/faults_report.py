"""`muster bench faults`: runs it, and prints the figures."""

import time
from dataclasses import asdict

from muster.cli import output
from muster.cli.errors import refused
from muster.cli.machine import sentence, this_machine
from muster.cli.options import Output
from muster.cli.output import print_line
from muster.cli.progress import counting
from muster_tools.bench.faults import Found, Plan, measure


def run(plan: Plan, form: Output) -> None:
    """Measure and print. Raises CliError if a device was lost or given twice: then the composer is broken."""
    machine = this_machine()
    begun_s = time.perf_counter()
    with counting("turns", total=len(plan.turns)) as advance:
        found = measure(plan, done=advance)
    took_s = time.perf_counter() - begun_s
    if form is Output.JSON:
        output.emit_json({**asdict(plan), **asdict(found), "took_s": round(took_s, 3), "machine": asdict(machine)})
    else:
        print_line(sentence(machine))
        output.details(_rows(plan, found, took_s))
    wrong = found.leaked + found.doubly_attached + found.misplaced + found.withheld
    if wrong:
        raise refused(f"log and fabric disagree about {wrong} devices; run it again with seed {plan.seed} to see why")


def _rows(plan: Plan, found: Found, took_s: float) -> list[tuple[str, str]]:
    told = ", ".join(f"{count} {what}" for what, count in sorted(found.told.items()))
    return [
        (
            "input",
            f"{plan.nodes} nodes, {plan.pool} devices in the pool, {plan.limit} calls at a time, seed {plan.seed}",
        ),
        ("time", f"{took_s:.1f} s for {found.virtual_s / 3600:.1f} h of virtual time and {found.facts:,} facts"),
        ("cycles", f"{found.cycles:,} attached and detached, {found.calls:,} calls, {plan.faults:.1%} with a fault"),
        ("outcomes", told),
        (
            "time-outs after success",
            f"{found.timeouts_after_success:,}, {found.timeouts_after_attach:,} of attachments",
        ),
        ("leader changes", f"{found.leader_changes:,}, {found.leader_changes_in_attach:,} in mid-attach"),
        ("  calls lost with a leader", f"{found.calls_lost:,}"),
        ("retries", f"{found.retries:,}"),
        ("adoptions", f"{found.adoptions:,}"),
        ("orphans", f"{found.orphans_found:,} found, {found.orphans_returned:,} returned or adopted"),
        ("given up", f"{found.detachments_given_up:,} detachments, {found.requests_failed:,} requests"),
        ("calls at a time", f"{found.in_flight_max} at most, {found.limit} allowed"),
        ("compared with the fabric", f"{found.quiet_moments:,} times and at the end"),
        ("leaked", str(found.leaked)),
        ("doubly attached", str(found.doubly_attached)),
        ("not where the log says", str(found.misplaced)),
        ("withheld for nothing", str(found.withheld)),
    ]
