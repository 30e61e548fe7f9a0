"""Translate changed rows to Redis commands. Pure: one command per key and batch, for any number of rows."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from muster.projector.core.changes import Changes, JobChange, ShownFact
from muster.schemas.job import Phase
from muster.schemas.readmodel import (
    ENTRY_FACTS_MAX,
    LAYOUT_VERSION,
    RECENT_FACTS_MAX,
    ReadModel,
    fact_member,
    recent_field,
)

Command = tuple[str | bytes | int, ...]
ROWS_PER_TRANSACTION = 2_000


def split(changes: Changes) -> Iterator[Changes]:
    """Yield the changes in parts of a bounded number of rows; facts keep their order over all parts."""
    parts = max(1, -(-max(len(changes.jobs), len(changes.facts), len(changes.nodes)) // ROWS_PER_TRANSACTION))
    if parts == 1:
        yield changes
        return
    nodes = list(changes.nodes.items())
    for part in range(parts):
        piece = slice(part * ROWS_PER_TRANSACTION, (part + 1) * ROWS_PER_TRANSACTION)
        last = part == parts - 1
        yield Changes(
            jobs=changes.jobs[piece],
            removed=changes.removed if last else [],
            nodes=dict(nodes[piece]),
            queues=changes.queues if last else {},
            reservations=changes.reservations if last else {},
            shapes=changes.shapes if last else None,
            facts=changes.facts[piece],
            catch_up=changes.catch_up,
        )


def commands(model: ReadModel, changes: Changes) -> Iterator[Command]:
    """Yield the commands that store these changes; they may be repeated."""
    if changes.jobs:
        yield _hset(model.key("jobs"), [(change.id, change.body) for change in changes.jobs])
    if changes.removed:
        yield ("HDEL", model.key("jobs"), *(change.id for change in changes.removed))
    yield from _assigned(model, changes)
    yield from _lists(model, changes)
    if about_jobs := [fact_member(fact.job_id, fact.seq, fact.body) for fact in changes.facts if fact.job_id]:
        yield _zadd(model.key("facts"), about_jobs)
    for start in range(0, len(changes.facts), ENTRY_FACTS_MAX):
        yield _xadd(model.key("recent"), changes.facts[start : start + ENTRY_FACTS_MAX])
    tables = (("nodes", changes.nodes), ("queues", changes.queues), ("reservations", changes.reservations))
    for name, rows in tables:
        if present := [(row, body) for row, body in rows.items() if body is not None]:
            yield _hset(model.key(name), present)
        if gone := [row for row, body in rows.items() if body is None]:
            yield ("HDEL", model.key(name), *gone)
            if name == "nodes":
                yield ("HDEL", model.key("telemetry"), *gone)
    if changes.shapes is not None:
        yield ("SET", model.key("shapes"), changes.shapes)


def marker(model: ReadModel, *, seq: int, log: str) -> Command:
    """Return the command that stores the sequence of the rows, and their log."""
    return ("HSET", model.key("marker"), "seq", seq, "log", log, "version", LAYOUT_VERSION)


def advance(model: ReadModel, *, seq: int) -> Command:
    """Return the command that advances the sequence, if the marker is unchanged (`Expected`)."""
    return ("HSET", model.key("marker"), "seq", seq)


def readings(model: ReadModel, rows: Mapping[str, bytes]) -> Command:
    """Return the command that stores readings, by node."""
    return _hset(model.key("telemetry"), list(rows.items()))


def removal(model: ReadModel, jobs: Sequence[JobChange]) -> Iterator[Command]:
    """Yield the commands that remove jobs with all their facts."""
    yield from commands(model, Changes(removed=list(jobs)))
    if ended := [job.ended_order for job in jobs if job.ended_order]:
        yield ("ZREM", model.key("ended"), *ended)
    for job in jobs:
        yield ("ZREMRANGEBYLEX", model.key("facts"), f"[{job.id}:", f"({job.id};")


def _assigned(model: ReadModel, changes: Changes) -> Iterator[Command]:
    """Yield the commands that store the cluster of each live job, if the projection has it."""
    told = [change for change in changes.jobs if change.cluster is not None]
    if live := [(change.id, (change.cluster or "").encode()) for change in told if not change.ended_order]:
        yield _hset(model.key("assigned"), live)
    over = [change.id for change in told if change.ended_order]
    over += [change.id for change in changes.removed if change.cluster is not None]
    if over:
        yield ("HDEL", model.key("assigned"), *over)


def _lists(model: ReadModel, changes: Changes) -> Iterator[Command]:
    adds: defaultdict[str, list[str | bytes]] = defaultdict(list)
    removes: defaultdict[str, list[str | bytes]] = defaultdict(list)
    every, live, ended = model.key("all"), model.key("live"), model.key("ended")
    for change in changes.jobs:
        if change.was is None:
            adds[every].append(change.order)
            adds[model.team(change.team)].append(change.order)
            adds[model.queue(change.queue)].append(change.order)
        if change.ended_order:
            adds[ended].append(change.ended_order)
            removes[live].append(change.order)
        elif change.was is None:
            adds[live].append(change.order)
        for phase in _left_phases(change, catch_up=changes.catch_up):
            removes[model.phase(phase)].append(change.order)
        if change.listed and change.was is not change.phase:
            adds[model.phase(change.phase)].append(change.order)
    for change in changes.removed:
        for key in (every, live, model.team(change.team), model.queue(change.queue), model.phase(change.phase)):
            removes[key].append(change.order)
    for key, members in removes.items():
        yield ("ZREM", key, *members)
    for key, members in adds.items():
        yield _zadd(key, members)


def _left_phases(change: JobChange, *, catch_up: bool) -> tuple[Phase, ...]:
    if catch_up:
        return tuple(phase for phase in Phase if phase is not change.phase or not change.listed)
    if change.was is not None and (change.was is not change.phase or not change.listed):
        return (change.was,)
    return ()


def _hset(key: str, rows: Sequence[tuple[str, bytes]]) -> Command:
    return ("HSET", key, *(part for row in rows for part in row))


def _zadd(key: str, members: Sequence[str | bytes]) -> Command:
    return ("ZADD", key, *(part for member in members for part in (0, member)))


def _xadd(key: str, facts: Sequence[ShownFact]) -> Command:
    last = facts[-1].seq
    oldest = max(0, last - RECENT_FACTS_MAX)
    fields = (part for fact in facts for part in (_field(fact), fact.body))
    return ("XADD", key, "MINID", "~", f"{oldest}-0", f"{last}-0", *fields)


def _field(fact: ShownFact) -> str:
    return recent_field(fact.seq, fact.team, job_id=fact.job_id if fact.serves else "")
