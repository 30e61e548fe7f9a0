"""`muster bench`: what this machine does. Every result names the machine it was taken on."""

import time
from pathlib import Path
from typing import Annotated

import typer

from muster.cli.options import As, Output
from muster_tools.bench.kubernetes.command import kubernetes

app = typer.Typer(name="bench", help="Measure; every result names the machine.", no_args_is_help=True)


@app.callback()
def bench() -> None:
    """Measure; every result names the machine."""


@app.command()
def surge(
    *,
    nodes: Annotated[int, typer.Option(min=1, help="Simulated nodes of 8 GPUs.")] = 1750,
    workloads: Annotated[int, typer.Option(min=1, max=1_000_000, help="Jobs, all at once.")] = 4000,
    rate: Annotated[float, typer.Option(min=0, help="Jobs per second instead of all at once; they end by then.")] = 0,
    duration: Annotated[float, typer.Option(min=1, help="Seconds at --rate.")] = 120,
    connections: Annotated[int, typer.Option(min=1, max=512, help="Keep-alive HTTP connections.")] = 32,
    split: Annotated[bool, typer.Option("--split", help="One process per service.")] = False,
    output: As = Output.TABLE,
) -> None:
    """Submit over HTTP to a fresh stack of its own until all is placed and runs: cold, then warm on the same stack.

    JSON: placed, stranded, wall_placed_s, wall_running_s, placed_per_s, submit_to_placed_ms {p50, p99, max},
    rss_mib {process: n}, log_messages describe the cold run; `warm` holds the same keys; `machine` the machine.
    With --rate jobs run for 15 s, so that the fleet never fills; without, none ends before all are placed.
    """
    from muster_tools.bench import surge

    plan = surge.Plan(
        nodes=nodes, workloads=workloads, rate=rate, duration_s=duration, connections=connections, split=split
    )
    surge.run(plan, output)


@app.command()
def log(
    *,
    facts: Annotated[list[int] | None, typer.Option(min=1000, help="Facts stored when measuring; repeat.")] = None,
    output: As = Output.TABLE,
) -> None:
    """Append and fold with 10,000, 100,000 and 1,000,000 facts stored, on a nats-server of its own. Flat is good."""
    from muster_tools.bench import log

    log.run(sorted(facts or [10_000, 100_000, 1_000_000]), output)


@app.command()
def health(
    *,
    nodes: Annotated[int, typer.Option(min=32, max=1750, help="Simulated nodes of 8 GPUs.")] = 256,
    gangs: Annotated[int, typer.Option(min=1, max=200, help="Gangs of 16 GPUs, one of whose nodes gets a fault.")] = 20,
    rate: Annotated[int, typer.Option(min=8, max=20_000, help="Events a second, all on one set of nodes.")] = 2000,
    duration: Annotated[float, typer.Option(min=1, max=600, help="Seconds at --rate.")] = 10,
    output: As = Output.TABLE,
) -> None:
    """Hurt GPUs of a fresh stack of its own: from a page to a node that jobs avoid, and many faults at once.

    JSON: avoided_ms, requeued_ms, told_ms {p50, p99, max}, sent_per_s, told_per_s, health_cpu_s, and `machine`.
    """
    from muster_tools.bench import health

    plan = health.Plan(nodes=nodes, gangs=gangs, rate=rate, duration_s=duration)
    health.run(plan, output)


@app.command()
def telemetry(
    *,
    nodes: Annotated[int, typer.Option(min=1, max=20_000, help="Nodes whose exporters are read.")] = 1750,
    gpus: Annotated[int, typer.Option(min=1, max=64, help="GPUs of each.")] = 8,
    interval: Annotated[float, typer.Option(min=0.5, max=600, help="Seconds between two readings of a node.")] = 10,
    rounds: Annotated[int, typer.Option(min=1, max=1_000, help="Over all nodes.")] = 3,
    output: As = Output.TABLE,
) -> None:
    """Read the exporters of a whole fleet: one page in parts, then rounds over all nodes, and what share of a core.

    JSON: library_ms, first_ms, read_ms, whole_ms (of a page), cpu_pct, library_cpu_pct, memory_mib, read, failed, late,
    and `machine`.
    """
    from muster_tools.bench import telemetry

    telemetry.run(telemetry.Plan(nodes=nodes, gpus=gpus, interval_s=interval, rounds=rounds), output)


@app.command()
def placement(
    *,
    nodes: Annotated[int, typer.Option(min=1)] = 1000,
    slots: Annotated[int, typer.Option(min=1, help="Slots per node.")] = 32,
    jobs: Annotated[int, typer.Option(min=1, help="One-slot jobs; by default half of them fit.")] = 64_000,
    rounds: Annotated[int, typer.Option(min=1, max=100)] = 3,
    output: As = Output.TABLE,
) -> None:
    """Time the pure placement engine alone (Armada's, in Go, takes 0.9 to 1.0 s for the default input)."""
    from dataclasses import asdict

    from muster.cli import output as printed
    from muster.cli.machine import sentence, this_machine
    from muster.cli.progress import counting
    from muster_tools.bench.placement import measure

    machine = this_machine()
    with counting("placing", total=rounds) as advance:
        found = measure(
            nodes=nodes, slots_per_node=slots, jobs=jobs, rounds=rounds, clock=time.perf_counter, done=advance
        )
    if output is Output.JSON:
        printed.emit_json({**asdict(found), "machine": asdict(machine)})
        return
    printed.details(
        [
            ("machine", sentence(machine)),
            ("input", f"{jobs} one-slot jobs on {nodes} nodes of {slots} slots"),
            ("placed", f"{found.placed}, {found.unplaced} do not fit"),
            ("time", f"{found.decide_s_median:.3f} s (median of {rounds}), best {found.decide_s_min:.3f} s"),
            ("rate", f"{found.decisions_per_s_median:,.0f} decisions/s"),
        ]
    )


@app.command()
def cycle(
    *,
    gpus: Annotated[int, typer.Option(min=64, help="Of a full fleet, 8 per node.")] = 14_000,
    pending: Annotated[int, typer.Option(min=1, help="Jobs that wait: single GPUs, nodes and gangs.")] = 10_000,
    queues: Annotated[int, typer.Option(min=12, help="In three levels, with quotas, and borrowing.")] = 100,
    shapes: Annotated[int, typer.Option(min=1, max=300, help="Different requests that wait in one queue.")] = 16,
    changes: Annotated[int, typer.Option(min=1, max=10_000, help="Times that one job ends and one comes.")] = 100,
    output: As = Output.TABLE,
) -> None:
    """Time the scheduler's decisions alone: at first, when little changed, and when nothing did."""
    from muster_tools.bench import cycle
    from muster_tools.bench.cycle_input import Scale

    cycle.run(Scale(gpus=gpus, pending=pending, queues=queues, shapes=shapes), changes=changes, form=output)


@app.command()
def kueue(
    *,
    share: Annotated[float, typer.Option(min=0.01, max=1, help="Of the jobs of each generator.")] = 1.0,
    connections: Annotated[int, typer.Option(min=1, max=512, help="Keep-alive HTTP connections.")] = 32,
    split: Annotated[bool, typer.Option("--split", help="One process per service.")] = False,
    output: As = Output.TABLE,
) -> None:
    """Run the workload of Kueue's baseline performance test, 15,000 jobs at its generators' pace, through the bus."""
    from muster_tools.bench import kueue

    kueue.run(kueue.Plan(share=share, connections=connections, split=split), output)


@app.command()
def attach(
    *,
    gpus: Annotated[int, typer.Option(min=1, max=1024, help="To attach, 8 per node.")] = 64,
    limit: Annotated[int, typer.Option(min=1, max=1024, help="Calls to the fabric at a time.")] = 16,
    switch_s: Annotated[float, typer.Option("--switch", min=0.1, max=120, help="Median seconds of a switch.")] = 10.0,
    seed: Annotated[int, typer.Option(help="Of the switches' times.")] = 1,
    output: As = Output.TABLE,
) -> None:
    """Attach GPUs over one fabric, on a fresh stack whose simulated manager answers real HTTP in its own process.

    The time is compared with that of the same switches one by one, with the lower bound of every schedule on as many
    lanes (the longest switch, or the sum spread over them), and with the list schedule: each begun on the first free
    lane, without delay. JSON: gpus, limit, wall_s, lower_bound_s, list_schedule_s, serial_s, longest_s,
    wall_to_lower_bound, wall_to_list_schedule, serial_to_wall, call_overhead_s_median, accepted_s, most_at_once, ...
    """
    from muster_tools.bench import attach

    attach.run(attach.Plan(gpus=gpus, limit=limit, switch_s=switch_s, seed=seed), output)


@app.command()
def faults(
    *,
    cycles: Annotated[int, typer.Option(min=1, max=1_000_000, help="Devices attached and detached again.")] = 10_000,
    faults: Annotated[float, typer.Option(min=0, max=0.5, help="Share of calls to the fabric that go wrong.")] = 0.05,
    seed: Annotated[int, typer.Option(help="Of every draw.")] = 1,
    output: As = Output.TABLE,
) -> None:
    """Attach and detach over a fabric that fails, with changing leaders, in virtual time; then look for lost devices.

    Most of the faults are answers lost after the work was done. Leaders change in mid-attach: their calls are lost, the
    fabric goes on. JSON: cycles, calls, timeouts_after_success, leader_changes_in_attach, retries, adoptions,
    orphans_found, leaked, doubly_attached, ...; exit code 3 if a device was lost or given twice.
    """
    from muster_tools.bench.faults import Plan, run

    run(Plan(cycles=cycles, faults=faults, seed=seed), output)


@app.command()
def ways(
    directory: Annotated[
        Path, typer.Argument(exists=True, file_okay=False, help="Folder with both openb lists.", metavar="DIR")
    ],
    *,
    gpus: Annotated[int, typer.Option(min=8, max=10_000, help="Of the fleet, in hosts of 8.")] = 128,
    load: Annotated[
        float, typer.Option(min=0.05, max=1.5, help="GPU time asked, with whole GPUs, of all there is meanwhile.")
    ] = 0.65,
    copies: Annotated[float, typer.Option(min=0.01, max=100, help="Jobs per task of the trace.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Of every draw.")] = 1,
    out: Annotated[Path | None, typer.Option(help="Folder for ways.svg and ways.json.", file_okay=False)] = None,
    output: As = Output.TABLE,
) -> None:
    """Compare split GPUs on fixed nodes, scaled nodes and scaled devices: waits, use and energy of the same work.

    The same cores as in production, in virtual time; what the figures rest on is printed with them. JSON: {ways: [{way,
    done, mean_wait_s, p95_wait_s, gpu_utilisation_on, gpu_utilisation_all, energy_kwh, attachments, nodes_added, ...}],
    assumptions, wall_s, machine}.
    """
    from muster_tools.bench.ways import command as compared
    from muster_tools.bench.ways.load import Amount

    amount = Amount(gpus=gpus, load=load, copies=copies, seed=seed)
    compared.run(compared.Plan(directory=directory, amount=amount, out=out), output)


@app.command()
def scale(
    *,
    nodes: Annotated[int, typer.Option(min=10, help="Composable nodes, 2 to 8 GPUs attached to each.")] = 1750,
    pool: Annotated[int, typer.Option(min=10, help="GPUs in the pools of two fabrics.")] = 2000,
    decisions: Annotated[int, typer.Option(min=1, max=100_000, help="Jobs that find no place, one by one.")] = 1000,
    output: As = Output.TABLE,
) -> None:
    """Time the scaler alone: from the fact that a job or gang finds no place to the choice of GPUs or nodes for it."""
    from muster_tools.bench import scale
    from muster_tools.bench.scale_input import Scale

    scale.run(Scale(nodes=nodes, pool=pool), decisions=decisions, form=output)


app.command()(kubernetes)
