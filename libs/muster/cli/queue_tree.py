"""Read queues from files and options, and format the tree of queues."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue, ValidationError

from muster.cli.errors import refused, usage
from muster.cli.jobfile import load, sentence
from muster.cli.output import print_line
from muster.cli.session import call
from muster.cli.text import duration
from muster.quota.admission import admissions, up
from muster.quota.policy import resolve
from muster.schemas.facts.queue import GPU, PreemptionPolicy, QueueSpec
from muster.schemas.quantities import QuantityError, human
from muster.schemas.quantities import amounts as wire_amounts
from muster.schemas.queries import QUEUES_MAX
from muster.schemas.views import QueueView

if TYPE_CHECKING:
    from muster.client import Muster


AMOUNT_FIELDS = ("quota", "borrowing_limit", "lending_limit")
TEMPLATE = "user_template"

QUEUES = ("QUEUE", "QUOTA", "BORROW", "LEND", "HELD", "SHARE", "RUNNING", "WAITING", "STATE")
QUEUES_WIDE = (*QUEUES, "WEIGHT", "ORDER", "RECENT", "TEAMS", "MAX-PRIORITY", "MAX-SLICE", "CLUSTER")
NUMBERS = frozenset({"SHARE", "RUNNING", "WAITING", "WEIGHT", "RECENT", "MAX-PRIORITY", "MAX-SLICE"})
INDENT = "  "
TEAMS_SHOWN_MAX = 5

Tree = Sequence[tuple[int, QueueView]]

PREEMPTION_FIELDS = frozenset(PreemptionPolicy.model_fields)


def load_queues(path: Path) -> list[QueueSpec]:
    """Return the queues of a file, parents first. Raises CliError that names the file and the field."""
    return in_order(load(path, QueueSpec, reshape=in_wire_units), place=str(path))


def in_wire_units(body: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return a queue of a file with its amounts in the units of the wire. Raises QuantityError."""
    found = _converted(body, "")
    template = found.get(TEMPLATE)
    if isinstance(template, dict):
        found[TEMPLATE] = _converted(template, f"{TEMPLATE}.")
    return found


def in_order(queues: Sequence[QueueSpec], *, place: str) -> list[QueueSpec]:
    """Sort queues so that parents come first. Raises CliError for a duplicate or a cycle."""
    by_name: dict[str, QueueSpec] = {}
    for queue in queues:
        if queue.name in by_name:
            raise usage(f"{place}: name: queue {queue.name} is defined twice; keep one")
        by_name[queue.name] = queue
    ordered: dict[str, QueueSpec] = {}
    for queue in queues:
        path: list[QueueSpec] = []
        above: QueueSpec | None = queue
        while above is not None and above.name not in ordered:
            if above in path:
                names = [*(one.name for one in path), above.name]
                raise usage(f"{place}: parent: {above.name} would be its own ancestor: {' -> '.join(names)}")
            path.append(above)
            above = by_name.get(above.parent) if above.parent else None
        ordered.update((one.name, one) for one in reversed(path))
    return list(ordered.values())


def _converted(body: Mapping[str, JsonValue], where: str) -> dict[str, JsonValue]:
    found = dict(body)
    for field in AMOUNT_FIELDS:
        written = found.get(field)
        if isinstance(written, dict):  # the model reports anything else
            try:
                found[field] = dict(wire_amounts(written))
            except QuantityError as error:
                raise QuantityError(f"{where}{field}.{error.key}", error.reason) from error
    return found


def tree(queues: Iterable[QueueView]) -> Tree:
    """Return (depth, queue) in tree order, siblings by name. A queue without a known parent is a root."""
    known = {queue.name: queue for queue in queues}
    below: dict[str | None, list[str]] = {}
    for name in sorted(known, reverse=True):
        parent = known[name].parent
        below.setdefault(parent if parent in known else None, []).append(name)
    found: list[tuple[int, QueueView]] = []
    waiting = [(0, name) for name in below.get(None, ())]
    while waiting:
        depth, name = waiting.pop()
        found.append((depth, known[name]))
        waiting += [(depth + 1, child) for child in below.get(name, ())]
    return found


def roots(queues: Iterable[QueueView]) -> Sequence[QueueView]:
    """Return the root queues, whose usage includes that of all others."""
    return [queue for depth, queue in tree(queues) if depth == 0]


def queue_rows(queues: Iterable[QueueView], *, wide: bool = False) -> Iterable[tuple[str, ...]]:
    """Return a row per queue, as a tree. Usage and numbers of jobs include subqueues."""
    ordered = tree(queues)
    running, waiting = _sums(ordered)
    counted = _counted(queue for _, queue in ordered)
    limits = _limits(queue for _, queue in ordered) if wide else {}
    for depth, queue in ordered:
        held = {GPU: queue.gpu_milli_held} | queue.held
        shown = held if wide else {resource: amount for resource, amount in held.items() if resource in counted}
        row = (
            f"{INDENT * depth}{queue.name}",
            told(_quota(queue)),
            told(_borrowing(queue)),
            told(queue.lending_limit),
            told(shown),
            f"{queue.share:.2f}",
            str(running[queue.name]),
            str(waiting[queue.name]),
            "closed" if queue.closed else "open",
        )
        order = queue.order.value if queue.order is not None else "-"
        more = (f"{queue.weight:g}", order, f"{queue.used_share:.2f}", *limits[queue.name]) if wide else ()
        yield (*row, *more, queue.cluster) if wide else row


def told(amounts: Mapping[str, int]) -> str:
    """Format amounts; GPUs of any model are written without a name."""
    words = human(amounts)
    parts = [f"{words.pop('gpu'):g}"] if "gpu" in words else []
    return " ".join([*parts, *(f"{word}={amount:g}" for word, amount in sorted(words.items()))]) or "-"


def _limits(queues: Iterable[QueueView]) -> Mapping[str, tuple[str, str, str]]:
    """Return the teams, the maximum priority and the maximum slice of each queue, including inherited ones."""
    specs = {queue.name: queue.spec or QueueSpec(name=queue.name, parent=queue.parent) for queue in queues}
    found: dict[str, tuple[str, str, str]] = {}
    for name, admission in admissions(specs).items():
        teams = sorted(admission.teams | admission.teams_of_user)
        more = f" +{len(teams) - TEAMS_SHOWN_MAX}" if len(teams) > TEAMS_SHOWN_MAX else ""
        slice_s = resolve(up(name, specs)).min_slice_max_s
        shown = "-" if slice_s is None else duration(slice_s)
        found[name] = (",".join(teams[:TEAMS_SHOWN_MAX]) + more, str(admission.priority_max), shown)
    return found


def _quota(queue: QueueView) -> Mapping[str, int]:
    first_form = {} if queue.gpu_milli_quota is None else {GPU: queue.gpu_milli_quota}
    return first_form | queue.quota


def _borrowing(queue: QueueView) -> Mapping[str, int]:
    limit = queue.gpu_milli_limit
    first_form = {} if limit is None else {GPU: max(0, limit - _quota(queue).get(GPU, 0))}
    return first_form | queue.borrowing_limit


def _counted(queues: Iterable[QueueView]) -> frozenset[str]:
    """Return GPUs and the resources for which some queue has quota."""
    return frozenset({GPU}.union(*(queue.quota for queue in queues)))


def _sums(ordered: Tree) -> tuple[dict[str, int], dict[str, int]]:
    running = {queue.name: queue.jobs_running for _, queue in ordered}
    waiting = {queue.name: queue.jobs_queued for _, queue in ordered}
    for depth, queue in reversed(ordered):
        if depth and queue.parent is not None:
            running[queue.parent] += running[queue.name]
            waiting[queue.parent] += waiting[queue.name]
    return running, waiting


def set_from_file(state_dir: Path, file: Path) -> None:
    """Set the queues of a file. Raises CliError if one is invalid: then no change is applied."""
    specs = load_queues(file)
    changed = call(state_dir, lambda muster: ask_for(muster, specs))
    for spec in specs:
        print_line(outcome(spec.name, done=spec.name in changed))


async def ask_for(muster: "Muster", specs: Sequence[QueueSpec]) -> frozenset[str]:
    """Return the names of queues that the scheduler has applied; the others are pending."""
    found: set[str] = set()
    for start in range(0, len(specs), QUEUES_MAX):
        found.update(queue.name for queue in await muster.set_queues(specs[start : start + QUEUES_MAX]))
    return frozenset(found)


def set_from_options(state_dir: Path, name: str, options: Mapping[str, JsonValue]) -> None:
    """Create a queue, or change the given settings of an existing one. Raises CliError."""

    async def ask(muster: "Muster") -> QueueView | None:
        found = next((queue for queue in await muster.queues() if queue.name == name), None)
        return await muster.set_queue(amended(name, settings_of(found) if found is not None else None, options))

    print_line(outcome(name, done=call(state_dir, ask) is not None))


def outcome(name: str, *, done: bool) -> str:
    """Return the result of a change, in one line."""
    return f"{name}: set" if done else f"{name}: requested; the scheduler has not answered yet"


def settings_of(queue: QueueView) -> QueueSpec:
    """Return the settings of a queue. Raises CliError if they are not available."""
    if queue.spec is None:
        raise refused(
            f"--name: the settings of queue {queue.name} are not available; give all settings in a queue file"
        )
    return queue.spec


def amended(name: str, before: QueueSpec | None, options: Mapping[str, JsonValue]) -> QueueSpec:
    """Return the queue with the given changes; None: unchanged. A new quota replaces the old milli-GPU fields.

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
    """Return the teams of the options; `none`: no team. None: not given."""
    if names is None:
        return None
    return [name for name in names if name != "none"]


def amounts(option: str, texts: Sequence[str] | None) -> dict[str, JsonValue] | None:
    """Parse `gpu=16`, `gpu:H100=8,cpu=64`, `16` (GPUs) or `none`. None: not given. Raises CliError."""
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
        raise usage(f"{option}: {text!r} is not a number; write for example {option} gpu=16") from error
