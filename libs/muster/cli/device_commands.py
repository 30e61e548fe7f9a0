"""`muster device`: attach and detach devices of composable fabrics, and look at them."""

from pathlib import Path
from typing import Annotated

import typer

from muster.cli import values
from muster.cli.errors import usage
from muster.cli.options import As, Cluster, Output, Reason, StateDir

app = typer.Typer(name="device", help="Devices of composable fabrics: attach, detach, look.", no_args_is_help=True)


@app.command()
def attach(
    *,
    state_dir: StateDir,
    output: As = Output.TABLE,
    model: Annotated[str, typer.Option(help="Which model, as the pool calls it.")] = "",
    count: Annotated[int | None, typer.Option(min=0, help="How many; 0 gives all back, keeps the request.")] = None,
    node: Annotated[str, typer.Option(help="Onto this node; without it Muster chooses.", callback=values.node)] = "",
    spread: Annotated[bool, typer.Option("--spread", help="Evenly over nodes, not all on one.")] = False,
    kind: Annotated[str, typer.Option("--type", help="gpu, cxlmemory, or what else a fabric serves.")] = "gpu",
    force: Annotated[bool, typer.Option("--force", help="Later, take them away also while jobs hold them.")] = False,
    name: Annotated[str, typer.Option(help="Of the request; one of that name is changed.", callback=values.name)] = "",
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", help="ComposabilityRequests as written for the operator (YAML, JSON)."),
    ] = None,
    cluster: Cluster = "",
) -> None:
    """Attach devices from a fabric's pool to nodes (operators and admins). JSON lines: {"name", "request" or null}."""
    from muster.cli import devices

    wanted = devices.Wanted(model=model, count=count, node=node, spread=spread, kind=kind, force=force, name=name)
    if file is None:
        devices.attach(state_dir, output, [devices.asked_of(wanted)], cluster=cluster)
    elif wanted != devices.Wanted():
        raise usage("--file: the file says it all; leave the other options out")
    else:
        devices.attach(state_dir, output, devices.load_requests(file), cluster=cluster)


@app.command()
def detach(
    *,
    uuid: Annotated[
        str, typer.Argument(help="One device, as its node shows it.", metavar="UUID", callback=values.device)
    ] = "",
    state_dir: StateDir,
    output: As = Output.TABLE,
    request: Annotated[
        str, typer.Option(help="All devices of this request, which ends.", metavar="NAME", callback=values.name)
    ] = "",
    force: Annotated[bool, typer.Option("--force", help="Also what jobs hold: they are stopped.")] = False,
    reason: Reason = "",
    cluster: Cluster = "",
) -> None:
    """Give a device, or all of a request, back to the pool as soon as no job holds it (operators and admins).

    One device that jobs go on holding stays after a while (`composer.withhold_s_max`): ask again, or take it by force.
    """
    from muster.cli import devices

    if bool(uuid) == bool(request):
        raise usage("UUID, --request: name one device, or a request; one of both")
    if request:
        devices.detach_request(state_dir, output, request, force=force, reason=reason, cluster=cluster)
    else:
        devices.detach_device(state_dir, output, uuid, force=force, reason=reason, cluster=cluster)


@app.command("list")
def list_devices(*, state_dir: StateDir, output: As = Output.TABLE, cluster: Cluster = "") -> None:
    """Show devices on nodes, and on their way there or back."""
    from muster.cli import devices

    devices.devices(state_dir, output, cluster=cluster)


@app.command()
def requests(
    *,
    name: Annotated[str, typer.Argument(help="Only this one, in full.", metavar="NAME", callback=values.name)] = "",
    state_dir: StateDir,
    output: As = Output.TABLE,
    cluster: Cluster = "",
) -> None:
    """Show ComposabilityRequests, newest first; one of them with its devices."""
    from muster.cli import devices

    if name:
        devices.one_request(state_dir, output, name, cluster=cluster)
    else:
        devices.requests(state_dir, output, cluster=cluster)


@app.command()
def fabrics(*, state_dir: StateDir, output: As = Output.TABLE, cluster: Cluster = "") -> None:
    """Show fabrics: what is in the pool, circuit breaker, calls under way, devices nobody asked for."""
    from muster.cli import devices

    devices.fabrics(state_dir, output, cluster=cluster)
