"""`muster simulate`: the schedulers' own code in virtual time, on scenarios, traces and a week that never was."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from muster.cli.options import As, Output, StateDir

app = typer.Typer(
    name="simulate",
    help="The scheduler's own code in virtual time: a scenario file, a trace, a synthetic week.",
    no_args_is_help=True,
)
trace_app = typer.Typer(name="trace", help="Run a recorded trace in virtual time.", no_args_is_help=True)
app.add_typer(trace_app)

Out = Annotated[Path, typer.Option(help="Folder for report.html, report.json and jobs.csv.", file_okay=False)]
Policy = Annotated[Path | None, typer.Option(help="Queues, and which jobs go there (YAML).", metavar="FILE")]
Compare = Annotated[
    tuple[Path, Path] | None, typer.Option(help="Two policy files, side by side in one report.", metavar="A B")
]


class Arrivals(StrEnum):
    """When tasks come: at the trace's times, or in a random order, none of them ever leaving."""

    TRACE = "trace"
    SHUFFLED = "shuffled"


class Until(StrEnum):
    """When it ends: with the last job, or when arrivals amount to more than the fleet."""

    END = "end"
    FULL = "full"


@app.callback()
def simulate() -> None:
    """The scheduler's own code in virtual time."""


@trace_app.callback()
def trace() -> None:
    """Run a recorded trace in virtual time."""


@app.command()
def scenario(
    file: Annotated[Path, typer.Argument(help="A scenario (YAML or JSON); `-` reads standard input.")],
    *,
    after: Annotated[float, typer.Option(min=0, help="Let so many seconds pass before printing; jobs run on.")] = 0.0,
    check: Annotated[bool, typer.Option("--check", help="Refuse (3) what differs from the file's `expect`.")] = False,
    output: As = Output.TABLE,
) -> None:
    """Decide until nothing changes any more, and print where every job and queue stands.

    JSON: {jobs: {name: {state, nodes, devices, replicas, preempted_for, reason, detail, expected_start_s?}},
    queues: {name: {held, quota, share, pending, running}}, stable, rounds}. Exit code 3 if it never becomes stable.
    The format is described in docs/concepts/simulating.md.
    """
    from muster.cli import simulate_scenario

    simulate_scenario.run(file, after_s=after, check=check, output=output)


@trace_app.command()
def openb(
    directory: Annotated[
        Path | None, typer.Argument(exists=True, file_okay=False, help="Folder with both lists.", metavar="DIR")
    ] = None,
    *,
    nodes: Annotated[Path | None, typer.Option(help="Node list instead of DIR's.", metavar="FILE")] = None,
    pods: Annotated[Path | None, typer.Option(help="Pod list instead of DIR's.", metavar="FILE")] = None,
    policy: Policy = None,
    compare: Compare = None,
    from_cluster: Annotated[
        bool, typer.Option("--from-cluster", help="Start from the running stack: its nodes, queues and jobs.")
    ] = False,
    scale: Annotated[float, typer.Option(min=0.01, max=1000, help="Jobs per task of the trace, on average.")] = 1.0,
    compress: Annotated[float, typer.Option(min=0.01, help="Tasks come so many times as fast.")] = 1.0,
    arrivals: Annotated[Arrivals, typer.Option(help="trace, or shuffled: the fragmentation experiment.")] = (
        Arrivals.TRACE
    ),
    until: Annotated[Until | None, typer.Option(help="With --arrivals shuffled: full.")] = None,
    seed: Annotated[int, typer.Option(help="Of every draw.")] = 1,
    seeds: Annotated[int, typer.Option(min=1, max=1000, help="With shuffled: so many seeds from --seed on.")] = 1,
    out: Out = Path("out/simulation"),
    state_dir: StateDir,
    output: As = Output.TABLE,
) -> None:
    """Alibaba's openb trace (or any file of its format) through the cores in virtual time.

    Writes report.html, report.json and jobs.csv: waits by queue and size, utilisation, fairness, fragmentation,
    preemptions, lost work. With `--arrivals shuffled --until full` tasks arrive in random order and never leave:
    prints {seed, allocated_pct: {"100": x, "130": y}}, the milli-GPUs allocated over all milli-GPUs when arrivals
    amount to 100 % and 130 % of them; with --seeds N the mean of N seeds as well.
    """
    from muster.cli import simulate_trace
    from muster.cli.errors import usage

    files = simulate_trace.trace_files(directory, nodes=nodes, pods=pods)
    if arrivals is Arrivals.SHUFFLED:
        if until is Until.END or policy or compare or from_cluster:
            raise usage("--arrivals shuffled: goes with --until full, and with no policy or cluster: it only places")
        simulate_trace.print_filling(files, seeds=range(seed, seed + seeds), output=output)
        return
    if until is Until.FULL:
        raise usage("--until full: goes with --arrivals shuffled; in the trace's own order tasks leave again")
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
    gpus: Annotated[int, typer.Option(min=8, max=1_000_000, help="In nodes of 8.")] = 14_000,
    jobs: Annotated[int, typer.Option(min=1, max=2_000_000)] = 100_000,
    days: Annotated[float, typer.Option(min=0.01, max=90)] = 7.0,
    load: Annotated[float, typer.Option(min=0.01, max=10, help="GPU time asked for, of all there is.")] = 0.85,
    step: Annotated[
        float, typer.Option(min=0.001, max=3600, help="Seconds: what happens within is decided together.")
    ] = 10.0,
    seed: Annotated[int, typer.Option(help="Of every draw.")] = 1,
    out: Annotated[Path | None, typer.Option(help="Folder for the report; none is written without.")] = None,
    output: As = Output.TABLE,
) -> None:
    """A regular fleet under a mix of jobs of all sizes in 125 queues: what the simulation takes, and what came of it.

    JSON: {wall_s, facts, us_per_fact, machine, report: {...}}.
    """
    from muster.cli import simulate_trace

    simulate_trace.run_synthetic(
        gpus=gpus, jobs=jobs, days=days, load=load, seed=seed, step_s=step, out=out, output=output
    )


@app.command()
def failures(
    *,
    gpus: Annotated[int, typer.Option(min=8, max=32_768, help="Of the job; in nodes of 8.")] = 16_384,
    spares: Annotated[int, typer.Option(min=0, max=1_000, help="Nodes beside those of the job.")] = 16,
    days: Annotated[float, typer.Option(min=0.01, max=89)] = 54.0,
    seed: Annotated[int, typer.Option(help="Of every draw.")] = 1,
    checkpoint_every: Annotated[float, typer.Option(min=60, help="Seconds between checkpoints.")] = 600.0,
    restart: Annotated[float, typer.Option(min=0, max=86_400, help="Seconds from running to a new step.")] = 300.0,
    rate: Annotated[float | None, typer.Option(min=0, max=10_000, help="Faults per 1,000 node-days.")] = None,
    health: Annotated[bool, typer.Option(help="Health watches; else people find what is broken.")] = True,
    compare: Annotated[bool, typer.Option("--compare", help="Both, with the same faults.")] = False,
    output: As = Output.TABLE,
) -> None:
    """Weeks of one job over the whole fleet, which fails as published fleets do: what is lost, and to what.

    The scheduler's, the agent's and the health service's own cores in virtual time. Faults are those of Llama 3's 54
    days, with lemons, faults that come together, and planned maintenance; docs/concepts/simulating.md says how each
    shows itself. JSON: {runs: [{effective, spent_s: {...}, interruptions: {...}, ...}]}.
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
    """The running stack as a scenario on standard output: for a bug report, or to try something on."""
    from muster.cli import simulate_trace

    simulate_trace.print_scenario(state_dir)
