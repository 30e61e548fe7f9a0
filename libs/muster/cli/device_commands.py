"""Commands for devices of composable fabrics: `muster device`."""

from pathlib import Path
from typing import Annotated

import typer

from muster.cli import values
from muster.cli.errors import usage
from muster.cli.options import As, Cluster, Output, Reason, StateDir, listing

app = typer.Typer(name="device", help="Attach, detach and list devices of composable fabrics.", no_args_is_help=True)


@app.command()
def attach(
    *,
    state_dir: StateDir,
    output: As = Output.TABLE,
    model: Annotated[str, typer.Option(help="Device model, as the pool names it.")] = "",
    count: Annotated[
        int | None, typer.Option(min=0, help="Number of devices; 0 detaches all and keeps the request.")
    ] = None,
    node: Annotated[
        str, typer.Option(help="Target node. Default: Muster selects the nodes.", callback=values.node)
    ] = "",
    spread: Annotated[
        bool, typer.Option("--spread", help="Spread the devices over nodes instead of one node.")
    ] = False,
    kind: Annotated[
        str, typer.Option("--type", help="Device type: gpu, cxlmemory, or another type that the fabric has.")
    ] = "gpu",
    force: Annotated[bool, typer.Option("--force", help="Allow detaching while a job uses the device.")] = False,
    name: Annotated[
        str,
        typer.Option(help="Name of the request; an existing request of that name is changed.", callback=values.name),
    ] = "",
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", help="ComposabilityRequests, in YAML or JSON."),
    ] = None,
    cluster: Cluster = "",
) -> None:
    """Attach devices from the pool of a fabric to nodes (operators and admins).

    JSON lines: {"name", "request"}; the request is null until the composer has accepted it.
    """
    from muster.cli import devices

    wanted = devices.Wanted(model=model, count=count, node=node, spread=spread, kind=kind, force=force, name=name)
    if file is None:
        devices.attach(state_dir, output, [devices.asked_of(wanted)], cluster=cluster)
    elif wanted != devices.Wanted():
        raise usage("--file: cannot be combined with options of a request; set them in the file")
    else:
        devices.attach(state_dir, output, devices.load_requests(file), cluster=cluster)


@app.command()
def detach(
    *,
    uuid: Annotated[
        str, typer.Argument(help="UUID of one device, as its node shows it.", metavar="UUID", callback=values.device)
    ] = "",
    state_dir: StateDir,
    output: As = Output.TABLE,
    request: Annotated[
        str,
        typer.Option(help="Detach all devices of this request and delete it.", metavar="NAME", callback=values.name),
    ] = "",
    force: Annotated[
        bool, typer.Option("--force", help="Detach even while jobs use the devices; these jobs are stopped.")
    ] = False,
    reason: Reason = "",
    cluster: Cluster = "",
) -> None:
    """Detach a device, or all devices of a request, as soon as no job uses them (operators and admins).

    The detach of a single device is abandoned after `composer.withhold_s_max` seconds if a job still uses it: repeat
    the command, or use --force.
    """
    from muster.cli import devices

    if bool(uuid) == bool(request):
        raise usage("UUID, --request: give exactly one of them: the device, or the request")
    if request:
        devices.detach_request(state_dir, output, request, force=force, reason=reason, cluster=cluster)
    else:
        devices.detach_device(state_dir, output, uuid, force=force, reason=reason, cluster=cluster)


@app.command("list")
@listing
def list_devices(*, state_dir: StateDir, output: As = Output.TABLE, cluster: Cluster = "") -> None:
    """List the attached devices, and devices that are being attached or detached."""
    from muster.cli import devices

    devices.devices(state_dir, output, cluster=cluster)


@app.command()
@listing
def requests(
    *,
    name: Annotated[str, typer.Argument(help="Show one request in detail.", metavar="NAME", callback=values.name)] = "",
    state_dir: StateDir,
    output: As = Output.TABLE,
    cluster: Cluster = "",
) -> None:
    """List ComposabilityRequests, newest first, or show one with its devices."""
    from muster.cli import devices

    if name:
        devices.one_request(state_dir, output, name, cluster=cluster)
    else:
        devices.requests(state_dir, output, cluster=cluster)


@app.command()
@listing
def fabrics(*, state_dir: StateDir, output: As = Output.TABLE, cluster: Cluster = "") -> None:
    """List fabrics: devices in the pool, circuit breaker, calls in progress, orphaned devices."""
    from muster.cli import devices

    devices.fabrics(state_dir, output, cluster=cluster)
