"""The commands of `muster bench`; every result names the machine it was measured on."""

import time
from pathlib import Path
from typing import Annotated

import typer

from muster.cli.options import As, Output
from muster_tools.bench.kubernetes.command import kubernetes

app = typer.Typer(name="bench", help="Run benchmarks; every result names the machine.", no_args_is_help=True)


@app.callback()
def bench() -> None:
    """Run benchmarks; every result names the machine."""


@app.command()
def surge(
    *,
    nodes: Annotated[int, typer.Option(min=1, help="Number of simulated nodes with 8 GPUs each.")] = 1750,
    workloads: Annotated[int, typer.Option(min=1, max=1_000_000, help="Number of jobs, submitted at once.")] = 4000,
    rate: Annotated[
        float, typer.Option(min=0, help="Jobs per second, for short jobs; 0 submits --workloads jobs at once.")
    ] = 0,
    duration: Annotated[float, typer.Option(min=1, help="Duration of submission at --rate, in seconds.")] = 120,
    connections: Annotated[int, typer.Option(min=1, max=512, help="Number of keep-alive HTTP connections.")] = 32,
    split: Annotated[bool, typer.Option("--split", help="Run one process per service.")] = False,
    output: As = Output.TABLE,
) -> None:
    """Submit jobs over HTTP to a fresh stack until all are placed and running: cold, then warm on the same stack.

    JSON: placed, stranded, wall_placed_s, wall_running_s, placed_per_s, submit_to_placed_ms {p50, p99, max}, rss_mib
    {process: n}, log_messages describe the cold run; `warm` has the same keys; `machine` is the machine. With --rate
    each job runs for 15 s, so that the fleet never fills up; without it, no job ends before all are placed.
    """
    from muster_tools.bench import surge

    plan = surge.Plan(
        nodes=nodes, workloads=workloads, rate=rate, duration_s=duration, connections=connections, split=split
    )
    surge.run(plan, output)


@app.command()
def log(
    *,
    facts: Annotated[
        list[int] | None, typer.Option(min=1000, help="Number of stored facts to measure at; repeat for more levels.")
    ] = None,
    output: As = Output.TABLE,
) -> None:
    """Measure append and fold at 10,000, 100,000 and 1,000,000 stored facts, on a separate nats-server."""
    from muster_tools.bench import log

    log.run(sorted(facts or [10_000, 100_000, 1_000_000]), output)


@app.command()
def health(
    *,
    nodes: Annotated[int, typer.Option(min=32, max=1750, help="Number of simulated nodes with 8 GPUs each.")] = 256,
    gangs: Annotated[
        int, typer.Option(min=1, max=200, help="Number of 16-GPU gangs; a fault is injected on one node of each.")
    ] = 20,
    rate: Annotated[
        int, typer.Option(min=8, max=20_000, help="Fault events per second, on the remaining nodes.")
    ] = 2000,
    duration: Annotated[float, typer.Option(min=1, max=600, help="Duration of the events at --rate, in seconds.")] = 10,
    output: As = Output.TABLE,
) -> None:
    """Inject GPU faults into a fresh stack: measure the time until a node is avoided, and the rate of reported faults.

    JSON: avoided_ms, requeued_ms, told_ms {p50, p99, max}, sent_per_s, told_per_s, health_cpu_s, and `machine`.
    """
    from muster_tools.bench import health

    plan = health.Plan(nodes=nodes, gangs=gangs, rate=rate, duration_s=duration)
    health.run(plan, output)


@app.command()
def telemetry(
    *,
    nodes: Annotated[int, typer.Option(min=1, max=20_000, help="Number of nodes whose exporters are scraped.")] = 1750,
    gpus: Annotated[int, typer.Option(min=1, max=64, help="GPUs per node.")] = 8,
    interval: Annotated[float, typer.Option(min=0.5, max=600, help="Scrape interval of a node, in seconds.")] = 10,
    rounds: Annotated[int, typer.Option(min=1, max=1_000, help="Number of scrapes of each node.")] = 3,
    output: As = Output.TABLE,
) -> None:
    """Measure scraping the exporters of a fleet: the steps for one page, then rounds over all nodes, in CPU share.

    JSON: library_ms, first_ms, read_ms, whole_ms (per page), cpu_pct, library_cpu_pct, memory_mib, read, failed, late,
    and `machine`.
    """
    from muster_tools.bench import telemetry

    telemetry.run(telemetry.Plan(nodes=nodes, gpus=gpus, interval_s=interval, rounds=rounds), output)


@app.command()
def placement(
    *,
    nodes: Annotated[int, typer.Option(min=1, help="Number of nodes.")] = 1000,
    slots: Annotated[int, typer.Option(min=1, help="Slots per node.")] = 32,
    jobs: Annotated[int, typer.Option(min=1, help="Number of one-slot jobs; by default half of them fit.")] = 64_000,
    rounds: Annotated[int, typer.Option(min=1, max=100, help="Number of runs, each on a fresh fleet.")] = 3,
    output: As = Output.TABLE,
) -> None:
    """Measure the placement engine alone (Armada's, in Go, takes 0.9 to 1.0 s for the default input)."""
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
    gpus: Annotated[int, typer.Option(min=64, help="GPUs of the fleet, 8 per node, all in use.")] = 14_000,
    pending: Annotated[int, typer.Option(min=1, help="Number of pending jobs: single GPUs, nodes and gangs.")] = 10_000,
    queues: Annotated[
        int, typer.Option(min=12, help="Number of queues, in three levels, with quotas and borrowing.")
    ] = 100,
    shapes: Annotated[
        int, typer.Option(min=1, max=300, help="Number of different requests pending in one queue.")
    ] = 16,
    changes: Annotated[
        int, typer.Option(min=1, max=10_000, help="Number of changes: one job ends, one arrives.")
    ] = 100,
    output: As = Output.TABLE,
) -> None:
    """Measure the scheduler's decisions alone: at first, after small changes, and without changes."""
    from muster_tools.bench import cycle
    from muster_tools.bench.cycle_input import Scale

    cycle.run(Scale(gpus=gpus, pending=pending, queues=queues, shapes=shapes), changes=changes, form=output)


@app.command()
def kueue(
    *,
    share: Annotated[float, typer.Option(min=0.01, max=1, help="Fraction of each generator's jobs to submit.")] = 1.0,
    connections: Annotated[int, typer.Option(min=1, max=512, help="Number of keep-alive HTTP connections.")] = 32,
    split: Annotated[bool, typer.Option("--split", help="Run one process per service.")] = False,
    output: As = Output.TABLE,
) -> None:
    """Run the workload of Kueue's baseline performance test through the bus: 15,000 jobs at its generators' rate."""
    from muster_tools.bench import kueue

    kueue.run(kueue.Plan(share=share, connections=connections, split=split), output)


@app.command()
def attach(
    *,
    gpus: Annotated[int, typer.Option(min=1, max=1024, help="Number of GPUs to attach, 8 per node.")] = 64,
    limit: Annotated[int, typer.Option(min=1, max=1024, help="Maximum concurrent calls to the fabric.")] = 16,
    switch_s: Annotated[
        float, typer.Option("--switch", min=0.1, max=120, help="Median switch time, in seconds.")
    ] = 10.0,
    seed: Annotated[int, typer.Option(help="Random seed of the switch times.")] = 1,
    output: As = Output.TABLE,
) -> None:
    """Attach GPUs over one fabric, on a fresh stack whose simulated manager serves real HTTP in its own process.

    The time is compared with the serial time of the same switches, with the lower bound of every schedule on as many
    slots (the longest switch, or the sum spread over the slots), and with the list schedule: each switch starts on the
    first free slot, without delay. JSON: gpus, limit, wall_s, lower_bound_s, list_schedule_s, serial_s, longest_s,
    wall_to_lower_bound, wall_to_list_schedule, serial_to_wall, call_overhead_s_median, accepted_s, most_at_once, ...
    """
    from muster_tools.bench import attach

    attach.run(attach.Plan(gpus=gpus, limit=limit, switch_s=switch_s, seed=seed), output)


@app.command()
def faults(
    *,
    cycles: Annotated[int, typer.Option(min=1, max=1_000_000, help="Number of attach and detach cycles.")] = 10_000,
    faults: Annotated[float, typer.Option(min=0, max=0.5, help="Fraction of fabric calls that fail.")] = 0.05,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 1,
    output: As = Output.TABLE,
) -> None:
    """Attach and detach over a failing fabric with changing leaders, in virtual time; then check for lost devices.

    Most faults are responses lost after the work was done. Leaders change while devices are being attached: the calls
    of the old leader are lost, but the fabric carries them out. JSON: cycles, calls, timeouts_after_success,
    leader_changes_in_attach, retries, adoptions, orphans_found, leaked, doubly_attached, ...; exit code 3 if a device
    was lost or attached twice.
    """
    from muster_tools.bench.faults import Plan, run

    run(Plan(cycles=cycles, faults=faults, seed=seed), output)


@app.command()
def ways(
    directory: Annotated[
        Path, typer.Argument(exists=True, file_okay=False, help="Folder with both openb tables.", metavar="DIR")
    ],
    *,
    gpus: Annotated[int, typer.Option(min=8, max=10_000, help="GPUs of the fleet, 8 per host.")] = 128,
    load: Annotated[
        float, typer.Option(min=0.05, max=1.5, help="Requested GPU time, in whole GPUs, over the fleet's GPU time.")
    ] = 0.65,
    copies: Annotated[float, typer.Option(min=0.01, max=100, help="Number of jobs per task of the trace.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 1,
    out: Annotated[Path | None, typer.Option(help="Folder for ways.svg and ways.json.", file_okay=False)] = None,
    output: As = Output.TABLE,
) -> None:
    """Compare GPU sharing on fixed nodes, scaling of nodes and scaling of devices: waits, use and energy.

    All run the same work with the production cores in virtual time; the assumptions are printed with the figures. JSON:
    {ways: [{way, done, mean_wait_s, p95_wait_s, gpu_utilisation_on, gpu_utilisation_all, energy_kwh, attachments,
    nodes_added, ...}], assumptions, wall_s, machine}.
    """
    from muster_tools.bench.ways import command as compared
    from muster_tools.bench.ways.load import Amount

    amount = Amount(gpus=gpus, load=load, copies=copies, seed=seed)
    compared.run(compared.Plan(directory=directory, amount=amount, out=out), output)


@app.command()
def scale(
    *,
    nodes: Annotated[
        int, typer.Option(min=10, help="Number of composable nodes, each with 2 to 8 attached GPUs.")
    ] = 1750,
    pool: Annotated[int, typer.Option(min=10, help="Number of GPUs in the pools of two fabrics.")] = 2000,
    decisions: Annotated[
        int, typer.Option(min=1, max=100_000, help="Number of unschedulable jobs, one at a time.")
    ] = 1000,
    output: As = Output.TABLE,
) -> None:
    """Measure the scaler alone: from the fact that a job is unschedulable to the choice of GPUs or nodes for it."""
    from muster_tools.bench import scale
    from muster_tools.bench.scale_input import Scale

    scale.run(Scale(nodes=nodes, pool=pool), decisions=decisions, form=output)


app.command()(kubernetes)
