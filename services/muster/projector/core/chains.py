"""Slices of one log's live view, and the position of each audience.

The position of `public` is the folded sequence of the log; that of a team is its newest fact. Both follow from the log
alone, so a new leader continues: a dashboard that missed slices in between receives a slice that begins after its own
position, and gets a new snapshot.

Changes beyond one message are sent in several numbered parts: facts first, each part up to its last fact, then
rows, whose first part moves the audience to the position of the rows and whose others repeat it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from pydantic_core import to_json

from muster.projector.core.changes import Rows, ShownFact, ViewChanges
from muster.schemas.live import PUBLIC_AUDIENCE, SLICE_BYTES_MAX, SLICE_FACTS_MAX
from muster.schemas.views import JobView

PULSE_S = 1.0
PULSES_AFTER = 10  # of a team that had a fact; a dashboard that joins later knows from its snapshot where it stands

_BODY = b',"body":"'  # within a JSON text every quote is escaped, so no other place looks like this
_NO_BODY = b',"body":""}'
_TABLES = ("jobs", "nodes", "queues", "reservations")
_FIELDS = tuple(name for table in _TABLES for name in (table, f"gone_{table}"))
_NO_ROWS = b"".join(b',"%b":[]' % field.encode() for field in _FIELDS)
_Row = tuple[str, bytes]
"""Field of a slice, and an element of it, encoded."""


@dataclass(frozen=True, slots=True)
class Slice:
    """One message. body: an encoded `LiveSlice`."""

    audience: str
    body: bytes


@dataclass(slots=True)
class _Sent:
    """A team that gets messages: its position, and the number of pulses still to come."""

    seq: int
    at_s: float
    pulses: int = PULSES_AFTER


class LiveChains:
    """The audiences of one log. seq: its folded sequence; team_seqs: positions of its teams."""

    def __init__(self, cluster: str, *, seq: int, team_seqs: Iterable[tuple[str, int]] = ()) -> None:
        self.seq = seq
        self._cluster = cluster
        self._at = 0
        self._sent_s = float("-inf")
        self._teams = {team: _Sent(at, float("-inf")) for team, at in team_seqs if team != PUBLIC_AUDIENCE}

    def advance(self, shown: ViewChanges, *, now_s: float) -> list[Slice]:
        """Return the slices of these changes for all audiences. An unsent slice is missing and detected as such."""
        slices: list[Slice] = []
        self._at = shown.at
        if shown.seq > self.seq:
            slices += self._public(shown)
            self.seq, self._sent_s = shown.seq, now_s
        by_team: dict[str, list[ShownFact]] = {}
        for fact in shown.facts:
            if fact.team and fact.team != PUBLIC_AUDIENCE:  # what is public has its own rules, also for its namesake
                by_team.setdefault(fact.team, []).append(fact)
        for team, facts in by_team.items():
            slices += self._of_team(team, facts)
            self._teams[team] = _Sent(facts[-1].seq, now_s)
        return slices

    def pulses(self, *, now_s: float) -> list[Slice]:
        """Return empty slices for audiences without slices for PULSE_S, which reveal the loss of the last slice."""
        due: list[Slice] = []
        if now_s - self._sent_s >= PULSE_S:
            self._sent_s = now_s
            due.append(self._slice(PUBLIC_AUDIENCE, self.seq, self.seq))
        for name, team in list(self._teams.items()):
            if now_s - team.at_s >= PULSE_S:
                team.at_s = now_s
                team.pulses -= 1
                due.append(self._slice(name, team.seq, team.seq))
                if not team.pulses:
                    del self._teams[name]
        return due

    def _public(self, shown: ViewChanges) -> list[Slice]:
        facts = [(fact.seq, redacted(fact) if _concerns_a_job(fact) else _fitting(fact)) for fact in shown.facts]
        rows = list(_rows(shown))
        prev = max(self.seq, shown.prev)
        if _fits(facts, rows):
            return [self._slice(PUBLIC_AUDIENCE, prev, shown.seq, rows=rows, facts=[body for _, body in facts])]
        fact_parts, row_parts = list(_parts(facts)), list(_row_parts(rows))
        numbers = _numbers(len(fact_parts) + len(row_parts))
        slices: list[Slice] = []
        for seq, part in fact_parts:
            slices.append(self._slice(PUBLIC_AUDIENCE, prev, seq, facts=part, number=next(numbers)))
            prev = seq
        for some in row_parts:
            slices.append(self._slice(PUBLIC_AUDIENCE, prev, shown.seq, rows=some, number=next(numbers)))
            prev = shown.seq
        return slices

    def _of_team(self, team: str, facts: Sequence[ShownFact]) -> Iterator[Slice]:
        prev = facts[0].team_prev
        parts = list(_parts([(fact.seq, _fitting(fact)) for fact in facts]))
        for (seq, part), number in zip(parts, _numbers(len(parts)), strict=True):
            yield self._slice(team, prev, seq, facts=part, number=number)
            prev = seq

    def _slice(
        self,
        audience: str,
        prev: int,
        seq: int,
        *,
        rows: Sequence[_Row] = (),
        facts: Sequence[bytes] = (),
        number: bytes = b',"part":1,"parts":1',
    ) -> Slice:
        head = f'{{"cluster":"{self._cluster}","audience":"{audience}","seq":{seq},"prev":{prev},"at":{self._at}'
        tables = _tables(rows) if rows else (_NO_ROWS,)
        parts = [head.encode(), number, *tables, b',"facts":[', b",".join(facts), b"]}"]
        return Slice(audience, b"".join(parts))


def _numbers(parts: int) -> Iterator[bytes]:
    """Yield the fields with the number of each slice, and the number of slices."""
    for part in range(1, parts + 1):
        yield b',"part":%d,"parts":%d' % (part, parts)


def redacted(fact: ShownFact) -> bytes:
    """Return the encoded fact without its body, which comes last."""
    return fact.body[: fact.body.index(_BODY)] + _NO_BODY


def _tables(rows: Sequence[_Row]) -> Iterator[bytes]:
    """Fields of a slice with these rows."""
    bodies: dict[str, list[bytes]] = {field: [] for field in _FIELDS}
    for field, row in rows:
        bodies[field].append(row)
    for field in _FIELDS:
        yield b',"%b":[' % field.encode()
        yield b",".join(bodies[field])
        yield b"]"


def _concerns_a_job(fact: ShownFact) -> bool:
    """Return whether the fact is a job's (also of an unknown job), serves a job, or may become a job."""
    return bool(fact.job_id) or fact.private


def _fitting(fact: ShownFact) -> bytes:
    """Return it with its body, unless that exceeds the size of a slice."""
    return fact.body if len(fact.body) <= SLICE_BYTES_MAX else redacted(fact)


def _rows(shown: ViewChanges) -> Iterator[_Row]:
    """Yield the rows that fit; a row that does not, and is not a job's, is left out: the API returns it on request."""
    tables: tuple[Rows, ...] = (shown.jobs, shown.nodes, shown.queues, shown.reservations)
    for table, rows in zip(_TABLES, tables, strict=True):
        for name, body in rows.items():
            if body is None:
                yield f"gone_{table}", to_json(name)
            elif len(body) <= SLICE_BYTES_MAX:
                yield table, body
            elif table == "jobs":
                yield table, _without_slots(body)


def _without_slots(body: bytes) -> bytes:
    """Return the row of a job with very many replicas without its slots, which the API returns on request."""
    return replace(JobView.model_validate_json(body), slots=(), nodes=()).encoded()


def _fits(facts: Sequence[tuple[int, bytes]], rows: Sequence[_Row]) -> bool:
    size = sum(len(body) for _, body in facts) + sum(len(body) for _, body in rows)
    return len(facts) <= SLICE_FACTS_MAX and size <= SLICE_BYTES_MAX


def _parts(facts: Sequence[tuple[int, bytes]]) -> Iterator[tuple[int, list[bytes]]]:
    """Facts in parts within the bounds, each with the sequence of its last fact."""
    part: list[bytes] = []
    size = last = 0
    for seq, body in facts:
        if part and (size + len(body) > SLICE_BYTES_MAX or len(part) == SLICE_FACTS_MAX):
            yield last, part
            part, size = [], 0
        part.append(body)
        size += len(body)
        last = seq
    if part:
        yield last, part


def _row_parts(rows: Sequence[_Row]) -> Iterator[list[_Row]]:
    """Rows in parts within the bound; one empty part if there are none."""
    part: list[_Row] = []
    size = 0
    for row in rows:
        if part and size + len(row[1]) > SLICE_BYTES_MAX:
            yield part
            part, size = [], 0
        part.append(row)
        size += len(row[1])
    yield part
