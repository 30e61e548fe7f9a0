"""Attaching and detaching: from options or a file to requests, and what came of them."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from muster.cli import output
from muster.cli.device_tables import progress
from muster.cli.errors import usage
from muster.cli.jobfile import load, sentence
from muster.cli.options import Output
from muster.cli.output import emit_json, print_line
from muster.cli.session import call
from muster.schemas.devices import (
    GPU,
    AllocationPolicy,
    AttachmentPhase,
    ComposabilityBody,
    ComposabilityManifest,
    ComposabilitySpec,
    RequestPhase,
    RequestView,
)

if TYPE_CHECKING:
    from muster.client import Muster

NAME_BYTES = 6  # drawn for a request that was given no name
_OPTIONS = {"size": "--count", "target_node": "--node", "type": "--type", "model": "--model", "name": "--name"}


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the options said. Empty or None: not given."""

    model: str = ""
    count: int | None = None
    node: str = ""
    spread: bool = False
    kind: str = GPU
    force: bool = False
    name: str = ""


@dataclass(frozen=True, slots=True)
class Named:
    """A request with the name that it goes by."""

    name: str
    spec: ComposabilitySpec


def asked_of(wanted: Wanted) -> Named:
    """The request that the options mean. Raises CliError that names the option."""
    if not wanted.model:
        raise usage("--model: say which model, or give a file with -f; `muster device fabrics` shows the pools")
    if wanted.count is None:
        raise usage("--count: say how many")
    if wanted.spread and wanted.node:
        raise usage("--spread: spreads over nodes; leave --node out")
    policy = AllocationPolicy.DIFFERENTNODE if wanted.spread else AllocationPolicy.SAMENODE
    try:
        spec = ComposabilitySpec(
            type=wanted.kind,
            model=wanted.model,
            size=wanted.count,
            target_node=wanted.node,
            force_detach=wanted.force,
            allocation_policy=policy,
        )
        body = ComposabilityBody(name=wanted.name or drawn_name(), spec=spec)
    except ValidationError as error:
        raise usage(_by_option(error)) from error
    return Named(body.name or "", spec)


def load_requests(path: Path) -> list[Named]:
    """The ComposabilityRequests of a file, each as it stands. Raises CliError that names the file and the field."""
    return [Named(one.metadata.name or drawn_name(), one.spec.resource) for one in load(path, ComposabilityManifest)]


def drawn_name() -> str:
    """A name that nobody else has."""
    return f"request-{os.urandom(NAME_BYTES).hex()}"


def attach(state_dir: Path, form: Output, requests: Sequence[Named], *, cluster: str) -> None:
    """Ask for each in turn, and tell what came of it; the first that is refused ends it. Raises CliError."""

    async def ask(muster: "Muster") -> None:
        for one in requests:
            _tell_attached(one, await muster.compose(one.spec, name=one.name, cluster=cluster), form)

    call(state_dir, ask)


def detach_device(state_dir: Path, form: Output, uuid: str, *, force: bool, reason: str, cluster: str) -> None:
    """Ask that it be given back. Raises CliError, which names who holds it."""
    device = call(state_dir, lambda muster: muster.detach(uuid, force=force, reason=reason, cluster=cluster))
    if form is Output.JSON:
        output.emit_model(device)
    elif device.phase is AttachmentPhase.DETACHED:
        print_line(f"{uuid}: detached from {device.node}")
    else:
        held = f"; held by {', '.join(device.holders)}" if device.holders else ""
        print_line(f"{uuid}: detach requested, {device.phase.value} on {device.node}{held}")


def detach_request(state_dir: Path, form: Output, name: str, *, force: bool, reason: str, cluster: str) -> None:
    """Ask that all devices of a request be given back. Raises CliError."""
    request = call(state_dir, lambda muster: muster.decompose(name, force=force, reason=reason, cluster=cluster))
    if form is Output.JSON:
        output.emit_model(request)
    elif request.phase is RequestPhase.ENDED:
        print_line(f"{name}: ended, nothing of it is attached")
    else:
        print_line(f"{name}: end requested, {request.phase.value}, {progress(request)}")


def _tell_attached(asked: Named, accepted: RequestView | None, form: Output) -> None:
    if form is Output.JSON:
        body = None if accepted is None else accepted.model_dump(mode="json")
        emit_json({"name": asked.name, "request": body}, indent=None)
    elif accepted is None:
        print_line(f"{asked.name}: asked for; the composer has not answered yet")
    else:
        # in this phase the composer has judged nothing yet: a fabric has still to tell what it holds
        said = "not yet judged" if accepted.phase is RequestPhase.NODE_ALLOCATING else "accepted"
        print_line(f"{asked.name}: {said}, {accepted.phase.value}, {progress(accepted)}")


def _by_option(error: ValidationError) -> str:
    """The same sentence with the option in the place of the field."""
    field, colon, rest = sentence(error).partition(":")
    return f"{_OPTIONS.get(field, field)}{colon}{rest}"
