"""The command `muster bench kubernetes`."""

from pathlib import Path
from typing import Annotated

import typer

from muster.cli.options import As, Output


def kubernetes(
    *,
    workloads: Annotated[
        int, typer.Option(min=1, max=100_000, help="Number of pods of 1 to 8 GPUs, created at once.")
    ] = 4000,
    nodes: Annotated[
        int, typer.Option(min=1, max=10_000, help="Number of nodes simulated by KWOK, 8 GPUs each.")
    ] = 1750,
    contender: Annotated[
        list[str] | None, typer.Option(help="Run only this contender; repeat for more.", show_default="all")
    ] = None,
    limit: Annotated[float, typer.Option(min=10, help="Time limit of one contender, in seconds.")] = 300.0,
    connections: Annotated[int, typer.Option(min=1, max=512, help="Number of HTTP connections of the submitter.")] = 32,
    batch: Annotated[int, typer.Option(min=1, max=1000, help="Number of jobs in one request to Muster.")] = 1,
    subscribers: Annotated[
        int, typer.Option(min=0, max=1000, help="Extra clients that follow the state, at the end.")
    ] = 100,
    out: Annotated[
        Path | None, typer.Option(help="Folder for kubernetes.png and kubernetes.json.", file_okay=False)
    ] = None,
    output: As = Output.TABLE,
) -> None:
    """Compare schedulers on a real API server: kube-scheduler, the old stack, DRA claims, and Muster.

    Each contender places the same workloads on a fresh control plane with simulated nodes; the floor is a client that
    only creates and binds pods, with the user of Muster's agent. Reports placed and running workloads, the time from
    created to bound, memory, processor time, and requests to the API server. JSON: {contenders: [{contender, placed,
    stranded, binds_per_s, running_per_s, create_to_bound_ms {p50, p99, max}, peak_mib, cpu_s, requests, crowds, ...}],
    verdicts, machine}.
    """
    from muster.cli.errors import usage
    from muster_tools.bench.kubernetes import report
    from muster_tools.bench.kubernetes.plan import Contender, Plan

    known = {each.value: each for each in Contender}
    chosen = contender or list(known)
    unknown = [name for name in chosen if name not in known]
    if unknown:
        raise usage(f"--contender: {unknown[0]!r} is not a contender; use one of {', '.join(known)}")
    plan = Plan(
        workloads=workloads,
        nodes=nodes,
        contenders=tuple(each for each in Contender if each.value in chosen),
        limit_s=limit,
        connections=connections,
        batch=batch,
        subscribers=subscribers,
        out=out,
    )
    report.run(plan, output)
