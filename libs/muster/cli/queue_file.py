"""Queue files: a whole tree in one file, amounts as people write them, parents before their children."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import JsonValue

from muster.cli.errors import usage
from muster.cli.jobfile import load
from muster.schemas.facts.queue import QueueSpec
from muster.schemas.quantities import QuantityError, amounts

AMOUNT_FIELDS = ("quota", "borrowing_limit", "lending_limit")
TEMPLATE = "user_template"


def load_queues(path: Path) -> list[QueueSpec]:
    """Queues of a file, parents first. Raises CliError that names the file and the field."""
    return in_order(load(path, QueueSpec, reshape=in_wire_units), place=str(path))


def in_wire_units(body: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """A queue as a file says it, with its amounts (also the template's) in the wire's units. Raises QuantityError."""
    found = _converted(body, "")
    template = found.get(TEMPLATE)
    if isinstance(template, dict):
        found[TEMPLATE] = _converted(template, f"{TEMPLATE}.")
    return found


def in_order(queues: Sequence[QueueSpec], *, place: str) -> list[QueueSpec]:
    """Each queue after its parent where both are there, else in the order given. Raises CliError (twice, a cycle)."""
    by_name: dict[str, QueueSpec] = {}
    for queue in queues:
        if queue.name in by_name:
            raise usage(f"{place}: name: queue {queue.name} is written twice; keep one")
        by_name[queue.name] = queue
    ordered: dict[str, QueueSpec] = {}
    for queue in queues:
        path: list[QueueSpec] = []
        above: QueueSpec | None = queue
        while above is not None and above.name not in ordered:
            if above in path:
                names = [*(one.name for one in path), above.name]
                raise usage(f"{place}: parent: {above.name} would stand above itself: {' -> '.join(names)}")
            path.append(above)
            above = by_name.get(above.parent) if above.parent else None
        ordered.update((one.name, one) for one in reversed(path))
    return list(ordered.values())


def _converted(body: Mapping[str, JsonValue], where: str) -> dict[str, JsonValue]:
    found = dict(body)
    for field in AMOUNT_FIELDS:
        written = found.get(field)
        if isinstance(written, dict):  # anything else is told by the model
            try:
                found[field] = dict(amounts(written))
            except QuantityError as error:
                raise QuantityError(f"{where}{field}.{error.key}", error.reason) from error
    return found
