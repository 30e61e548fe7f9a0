"""Commands that simulate in virtual time with the production code: `muster simulate`."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from muster.cli.options import As, Output, StateDir

app = typer.Typer(
    name="simulate",
    help="Simulate scenarios, traces and failures with the production scheduler, in virtual time.",
    no_args_is_help=True,
)
trace_app = typer.Typer(name="trace", help="Simulate a recorded trace in virtual time.", no_args_is_help=True)
app.add_typer(trace_app)

Out = Annotated[Path, typer.Option(help="Output directory for report.html, report.json and jobs.csv.", file_okay=False)]
Policy = Annotated[
    Path | None,
    typer.Option(help="Policy file (YAML): queues, and the rules that assign jobs to them.", metavar="FILE"),
]
Compare = Annotated[
    tuple[Path, Path] | None, typer.Option(help="Compare two policy files in one report.", metavar="A B")
]


class Arrivals(StrEnum):
    """Arrival of tasks: at the times of the trace, or in random order without ever ending."""

    TRACE = "trace"
    SHUFFLED = "shuffled"


class Until(StrEnum):
    """End of the simulation: with the last job, or when arrivals exceed the fleet."""

    END = "end"
    FULL = "full"


@app.callback()
def simulate() -> None:
    """Simulate scenarios, traces and failures with the production scheduler, in virtual time."""


@trace_app.callback()
def trace() -> None:
    """Simulate a recorded trace in virtual time."""


@app.command()
def scenario(
    file: Annotated[Path, typer.Argument(help="Scenario file in YAML or JSON; `-`: standard input.")],
    *,
    after: Annotated[float, typer.Option(min=0, help="Simulated time before printing, in seconds.")] = 0.0,
    check: Annotated[
        bool, typer.Option("--check", help="Exit code 3 if the result differs from `expect` in the file.")
    ] = False,
    output: As = Output.TABLE,
) -> None:
    """Simulate a scenario until its state is stable, and print the state of every job and queue.

    JSON: {jobs: {name: {state, nodes, devices, replicas, preempted_for, reason, detail, expected_start_s?}},
    queues: {name: {held, quota, share, pending, running}}, stable, rounds}. Exit code 3 unless stable.
    The format is described in docs/concepts/simulating.md.
    """
    from muster.cli import simulate_scenario

    simulate_scenario.run(file, after_s=after, check=check, output=output)


@trace_app.command()
def openb(
    directory: Annotated[
        Path | None,
        typer.Argument(
            exists=True, file_okay=False, help="Directory with the node list and the pod list.", metavar="DIR"
        ),
    ] = None,
    *,
    nodes: Annotated[Path | None, typer.Option(help="Node list, in place of that in DIR.", metavar="FILE")] = None,
    pods: Annotated[Path | None, typer.Option(help="Pod list, in place of that in DIR.", metavar="FILE")] = None,
    policy: Policy = None,
    compare: Compare = None,
    from_cluster: Annotated[
        bool, typer.Option("--from-cluster", help="Start from the nodes, queues and jobs of the running stack.")
    ] = False,
    scale: Annotated[
        float, typer.Option(min=0.01, max=1000, help="Average number of jobs per task of the trace.")
    ] = 1.0,
    compress: Annotated[float, typer.Option(min=0.01, help="Factor by which tasks arrive faster.")] = 1.0,
    arrivals: Annotated[
        Arrivals, typer.Option(help="Arrival of tasks: trace, or shuffled (fragmentation experiment).")
    ] = (Arrivals.TRACE),
    until: Annotated[
        Until | None, typer.Option(help="End of the simulation: end, or full (with --arrivals shuffled).")
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 1,
    seeds: Annotated[
        int, typer.Option(min=1, max=1000, help="With --arrivals shuffled: number of seeds, from --seed on.")
    ] = 1,
    out: Out = Path("out/simulation"),
    state_dir: StateDir,
    output: As = Output.TABLE,
) -> None:
    """Simulate the Alibaba openb trace, or files of its format, in virtual time.

    Writes report.html, report.json and jobs.csv: waits by queue and size, utilization, fairness, fragmentation,
    preemptions, lost work. With `--arrivals shuffled --until full` tasks arrive in random order and never leave:
    prints {seed, allocated_pct: {"100": x, "130": y}}, the milli-GPUs allocated over all milli-GPUs when arrivals
    amount to 100 % and 130 % of them; with --seeds N the mean of N seeds as well.
    """
    from muster.cli import simulate_trace
    from muster.cli.errors import usage

    files = simulate_trace.trace_files(directory, nodes=nodes, pods=pods)
    if arrivals is Arrivals.SHUFFLED:
        if until is Until.END or policy or compare or from_cluster:
            raise usage(
                "--arrivals shuffled: needs --until full, and cannot be combined with a policy or --from-cluster"
            )
        simulate_trace.print_filling(files, seeds=range(seed, seed + seeds), output=output)
        return
    if until is Until.FULL:
        raise usage("--until full: needs --arrivals shuffled; in the order of the trace, tasks end and free their GPUs")
    simulate_trace.run(
        files,
        policies=simulate_trace.policies(policy, compare),
        state_dir=state_dir if from_cluster else None,
        shape=simulate_trace.Shape(scale, compress, seed),
        out=out,
        output=output,
    )


@app.command()
def synthetic(
    *,
    gpus: Annotated[int, typer.Option(min=8, max=1_000_000, help="GPUs of the fleet, 8 per node.")] = 14_000,
    jobs: Annotated[int, typer.Option(min=1, max=2_000_000, help="Number of jobs.")] = 100_000,
    days: Annotated[float, typer.Option(min=0.01, max=90, help="Simulated time, in days.")] = 7.0,
    load: Annotated[
        float, typer.Option(min=0.01, max=10, help="Requested GPU time over the GPU time of the fleet.")
    ] = 0.85,
    step: Annotated[
        float,
        typer.Option(
            min=0.001, max=3600, help="Scheduling interval: events within it are decided together, in seconds."
        ),
    ] = 10.0,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 1,
    out: Annotated[
        Path | None, typer.Option(help="Output directory for the report. Default: no report.", file_okay=False)
    ] = None,
    output: As = Output.TABLE,
) -> None:
    """Simulate a regular fleet with jobs of all sizes in 125 queues; report the results and the simulation speed.

    JSON: {wall_s, facts, us_per_fact, machine, report: {...}}.
    """
    from muster.cli import simulate_trace

    simulate_trace.run_synthetic(
        gpus=gpus, jobs=jobs, days=days, load=load, seed=seed, step_s=step, out=out, output=output
    )


@app.command()
def failures(
    *,
    gpus: Annotated[int, typer.Option(min=8, max=32_768, help="GPUs of the job, 8 per node.")] = 16_384,
    spares: Annotated[int, typer.Option(min=0, max=1_000, help="Number of spare nodes.")] = 16,
    days: Annotated[float, typer.Option(min=0.01, max=89, help="Simulated time, in days.")] = 54.0,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 1,
    checkpoint_every: Annotated[float, typer.Option(min=60, help="Checkpoint interval, in seconds.")] = 600.0,
    restart: Annotated[
        float, typer.Option(min=0, max=86_400, help="Time from the start of pods to the first new step, in seconds.")
    ] = 300.0,
    rate: Annotated[
        float | None, typer.Option(min=0, max=10_000, help="Faults per 1,000 node-days. Default: that of Llama 3.")
    ] = None,
    health: Annotated[bool, typer.Option(help="Simulate the health service; otherwise people find the faults.")] = True,
    compare: Annotated[
        bool, typer.Option("--compare", help="Simulate with and without the health service, with the same faults.")
    ] = False,
    output: As = Output.TABLE,
) -> None:
    """Simulate weeks of one job on a fleet with the published fault rates; report the lost time by cause.

    Uses the production code of the scheduler, the agent and the health service in virtual time. The faults are those of
    the 54 days of Llama 3, with repeatedly failing nodes, correlated faults and planned maintenance;
    docs/concepts/simulating.md describes each. JSON: {runs: [{effective, spent_s: {...}, interruptions: {...}, ...}]}.
    """
    from muster.cli import simulate_failures

    simulate_failures.run(
        output,
        simulate_failures.scenes(
            simulate_failures.scene_of(
                gpus=gpus, spares=spares, days=days, seed=seed, checkpoint_s=checkpoint_every, restart_s=restart,
                rate=rate,
            ),
            watched=[True, False] if compare else [health],
        ),
    )  # fmt: skip


@app.command()
def export(*, state_dir: StateDir) -> None:
    """Print the state of the running stack as a scenario, for bug reports and experiments."""
    from muster.cli import simulate_trace

    simulate_trace.print_scenario(state_dir)
