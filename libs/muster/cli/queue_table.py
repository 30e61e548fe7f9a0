"""The tree of queues as a table: what each is promised, may borrow and lend, holds, and who waits there. Pure."""

from collections.abc import Iterable, Mapping, Sequence

from muster.cli.text import duration
from muster.quota.admission import admissions, up
from muster.quota.policy import resolve
from muster.schemas.facts.queue import GPU, QueueSpec
from muster.schemas.quantities import human
from muster.schemas.views import QueueView

HEADINGS = ("QUEUE", "QUOTA", "BORROW", "LEND", "HELD", "SHARE", "RUNNING", "WAITING", "STATE")
HEADINGS_WIDE = (*HEADINGS, "WEIGHT", "ORDER", "RECENT", "TEAMS", "MAX-PRIORITY", "MAX-SLICE", "CLUSTER")
RIGHT = frozenset({"SHARE", "RUNNING", "WAITING", "WEIGHT", "RECENT", "MAX-PRIORITY", "MAX-SLICE"})
INDENT = "  "
TEAMS_SHOWN_MAX = 5

Tree = Sequence[tuple[int, QueueView]]


def tree(queues: Iterable[QueueView]) -> Tree:
    """(depth, queue), each after the one above it, siblings by name. Without its parent, a queue stands at the top."""
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
    """The queues that nothing stands above: what they hold is all that is held."""
    return [queue for depth, queue in tree(queues) if depth == 0]


def rows(queues: Iterable[QueueView], *, wide: bool = False) -> Iterable[tuple[str, ...]]:
    """One queue a row, as a tree. Running and waiting jobs are counted with the queues below, as what is held is."""
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
    """Amounts as people write them; GPUs of any model without their name, since they are meant where none is said."""
    words = human(amounts)
    parts = [f"{words.pop('gpu'):g}"] if "gpu" in words else []
    return " ".join([*parts, *(f"{word}={amount:g}" for word, amount in sorted(words.items()))]) or "-"


def _limits(queues: Iterable[QueueView]) -> Mapping[str, tuple[str, str, str]]:
    """Return the teams that may submit to each queue, its maximum priority and maximum slice, inherited or its own."""
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
    """GPUs, and whatever some queue is promised."""
    return frozenset({GPU}.union(*(queue.quota for queue in queues)))


def _sums(ordered: Tree) -> tuple[dict[str, int], dict[str, int]]:
    running = {queue.name: queue.jobs_running for _, queue in ordered}
    waiting = {queue.name: queue.jobs_queued for _, queue in ordered}
    for depth, queue in reversed(ordered):
        if depth and queue.parent is not None:
            running[queue.parent] += running[queue.name]
            waiting[queue.parent] += waiting[queue.name]
    return running, waiting
