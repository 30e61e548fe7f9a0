"""Queues as an operator wants them, from a file or from options."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue, ValidationError

from muster.cli.errors import refused, usage
from muster.cli.jobfile import sentence
from muster.cli.output import print_line
from muster.cli.queue_file import in_wire_units, load_queues
from muster.cli.session import call
from muster.schemas.facts.queue import PreemptionPolicy, QueueSpec
from muster.schemas.quantities import QuantityError
from muster.schemas.queries import QUEUES_MAX
from muster.schemas.views import QueueView

if TYPE_CHECKING:
    from muster.client import Muster

PREEMPTION_FIELDS = frozenset(PreemptionPolicy.model_fields)


def set_from_file(state_dir: Path, file: Path) -> None:
    """Let the queues be as the file says, parents first. Raises CliError if one may not be so: then none is changed."""
    specs = load_queues(file)
    changed = call(state_dir, lambda muster: ask_for(muster, specs))
    for spec in specs:
        print_line(outcome(spec.name, done=spec.name in changed))


async def ask_for(muster: "Muster", specs: Sequence[QueueSpec]) -> frozenset[str]:
    """The names of those that are as it was asked; the scheduler has not answered for the others yet."""
    found: set[str] = set()
    for start in range(0, len(specs), QUEUES_MAX):
        found.update(queue.name for queue in await muster.set_queues(specs[start : start + QUEUES_MAX]))
    return frozenset(found)


def set_from_options(state_dir: Path, name: str, options: Mapping[str, JsonValue]) -> None:
    """Make one queue, or change what the options name of one that is there. Raises CliError."""

    async def ask(muster: "Muster") -> QueueView | None:
        found = next((queue for queue in await muster.queues() if queue.name == name), None)
        return await muster.set_queue(amended(name, settings_of(found) if found is not None else None, options))

    print_line(outcome(name, done=call(state_dir, ask) is not None))


def outcome(name: str, *, done: bool) -> str:
    """What came of a change."""
    return f"{name}: set" if done else f"{name}: asked for; the scheduler has not answered yet"


def settings_of(queue: QueueView) -> QueueSpec:
    """The queue as it was asked for. Raises CliError if nobody tells its settings now."""
    if queue.spec is None:
        raise refused(f"--name: the settings of queue {queue.name} are not known now; give them all, in a queue file")
    return queue.spec


def amended(name: str, before: QueueSpec | None, options: Mapping[str, JsonValue]) -> QueueSpec:
    """The queue with what was given; what is None stays. A quota for the first form (milli-GPUs) replaces it.

    Raises CliError that names the field.
    """
    body: dict[str, JsonValue] = before.model_dump(mode="json") if before is not None else {"name": name}
    given = {field: value for field, value in options.items() if value is not None}
    preemption = {field: given.pop(field) for field in tuple(given) if field in PREEMPTION_FIELDS}
    if preemption:
        stands = body.get("preemption")
        body["preemption"] = {**(stands if isinstance(stands, dict) else {}), **preemption}
    if "quota" in given:
        body["gpu_milli_quota"] = body["gpu_milli_limit"] = None
    try:
        return QueueSpec.model_validate({**body, **in_wire_units(given)})
    except QuantityError as error:
        raise usage(f"--{error.key.replace('_', '-')}: {error.reason}") from error
    except ValidationError as error:
        raise usage(sentence(error)) from error


def teams(names: Sequence[str] | None) -> list[JsonValue] | None:
    """Return the teams that the options name; `none` alone for no team. None: not given."""
    if names is None:
        return None
    return [name for name in names if name != "none"]


def amounts(option: str, texts: Sequence[str] | None) -> dict[str, JsonValue] | None:
    """`gpu=16`, `gpu:H100=8,cpu=64`, or `16` for GPUs; `none` for no amounts. None: not given. Raises CliError."""
    if texts is None:
        return None
    found: dict[str, JsonValue] = {}
    for part in (part.strip() for text in texts for part in text.split(",")):
        if part == "none" or not part:
            continue
        word, equals, number = part.rpartition("=")
        word = word if equals else "gpu"
        if word in found:
            raise usage(f"{option}: {word} is given twice; give it once")
        found[word] = _number(option, number)
    return found


def _number(option: str, text: str) -> int | float:
    try:
        return int(text) if text.lstrip("+-").isdecimal() else float(text)
    except ValueError as error:
        raise usage(f"{option}: {text!r} is no number; write for example {option} gpu=16") from error
