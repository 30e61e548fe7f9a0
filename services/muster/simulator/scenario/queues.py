"""Queues of a scenario, or of a policy file, in the wire's units."""

from collections.abc import Iterable, Mapping, Sequence

from muster.schemas.facts.queue import PreemptionPolicy, QueueSpec, QueueTemplate
from muster.simulator.errors import InputError
from muster.simulator.scenario import model
from muster.simulator.scenario.units import amounts

_OWN_UNITS = frozenset({"quota", "borrowing_limit", "lending_limit", "user_template", "preemption"})


def queue_specs(queues: Sequence[model.Queue]) -> tuple[tuple[str, QueueSpec], ...]:
    """(where it stands, the queue), parents first. Raises InputError."""
    placed = {queue.name: (f"queues[{index}]", queue) for index, queue in enumerate(queues)}
    if len(placed) < len(queues):
        names = [queue.name for queue in queues]
        index = next(index for index, name in enumerate(names) if name in names[:index])
        raise InputError(f"queues[{index}].name", f"there is a queue {names[index]} already; names are distinct")
    return tuple((at, queue_spec(queue, at)) for at, queue in _parents_first(placed))


def queue_spec(queue: model.Queue, at: str) -> QueueSpec:
    """The queue as the wire has it. at: where it stands, for errors. Raises InputError."""
    template = queue.user_template
    plain = {name: getattr(queue, name) for name in model.Queue.model_fields if name not in _OWN_UNITS}
    return QueueSpec(
        **plain,
        quota=amounts(queue.quota, f"{at}.quota"),
        borrowing_limit=amounts(queue.borrowing_limit, f"{at}.borrowing_limit"),
        lending_limit=amounts(queue.lending_limit, f"{at}.lending_limit"),
        preemption=PreemptionPolicy(**dict(queue.preemption)),
        user_template=None if template is None else _template(template, f"{at}.user_template"),
    )


def inherited(queues: Mapping[str, model.Queue], queue: str) -> Iterable[model.Queue]:
    """The queue and those above it, as far as they are there."""
    seen: set[str] = set()
    name: str | None = queue
    while name is not None and name in queues and name not in seen:
        seen.add(name)
        yield queues[name]
        name = queues[name].parent


def _template(template: model.UserTemplate, at: str) -> QueueTemplate:
    return QueueTemplate(
        quota=amounts(template.quota, f"{at}.quota"),
        borrowing_limit=amounts(template.borrowing_limit, f"{at}.borrowing_limit"),
        lending_limit=amounts(template.lending_limit, f"{at}.lending_limit"),
        weight=template.weight,
    )


def _parents_first(placed: Mapping[str, tuple[str, model.Queue]]) -> list[tuple[str, model.Queue]]:
    done: dict[str, tuple[str, model.Queue]] = {}
    for name, (at, queue) in placed.items():
        path: list[str] = []
        here: str | None = name
        while here is not None and here not in done:
            if here not in placed:
                known = ", ".join(placed)
                raise InputError(f"{placed[path[-1]][0]}.parent", f"there is no queue {here}; there are: {known}")
            if here in path:
                way = " -> ".join([*path[path.index(here) :], here])
                raise InputError(f"{at}.parent", f"queue {queue.name} would stand above itself: {way}")
            path.append(here)
            here = placed[here][1].parent
        done.update({step: placed[step] for step in reversed(path)})
    return list(done.values())
