"""Choices: a choice before it is in the log, open choices, and how they end."""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple

from muster.core import Draft, Instant, after, seconds_between
from muster.scaler.core import limits
from muster.scaler.core.cluster import Cluster
from muster.scaler.core.fabrics import Attachments
from muster.scaler.core.limits import ENDED_KEPT
from muster.schemas.devices import AttachmentPhase
from muster.schemas.facts.node import WithholdRequested, WithholdWithdrawn
from muster.schemas.facts.scale import NothingChosen, Refused, ScaleChosen, ScaleEnded

ATTACH, ADD, REMOVE_GPU, REMOVE_NODE, NOTHING, ENDED = (
    "gpu-attach-chosen", "node-add-chosen", "gpu-remove-chosen", "node-remove-chosen", "nothing-chosen", "ended",
)  # fmt: skip
"""Names of the scaler's facts."""


@dataclass(slots=True)
class OpenChoice:
    """One of the four kinds of choices, not ended."""

    id: str
    name: str
    chosen: ScaleChosen
    chosen_at: Instant
    fact: str
    trace: str = ""
    withheld: bool = False
    """Whether the scheduler has drained the node that is removed."""

    @property
    def nodes(self) -> Iterable[str]:
        """Nodes that the choice changes, or on which places are kept for it."""
        names = dict.fromkeys([part.node for part in self.chosen.parts])
        names.update(dict.fromkeys([place.node for place in self.chosen.places]))
        if self.chosen.node:
            names[self.chosen.node] = None
        return names

    @property
    def serves(self) -> bool:
        """Whether it was made for jobs."""
        return self.name in (ATTACH, ADD)


@dataclass(frozen=True, slots=True)
class EndedChoice:
    """A choice that ended and is still shown."""

    choice: OpenChoice
    ended: ScaleEnded
    ended_at: Instant


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of the composer's request for a choice."""

    failed: bool
    reason: str
    fact: str
    """The fact that reported it."""


class Choices:
    """All open choices, and the newest that ended. The fold writes it; a what-if adds and removes its own.

    Invariant: every open choice is in `dirty`, or in `due` and `dues`.
    """

    def __init__(self) -> None:
        self.chosen = 0
        """Number of choices ever made."""
        self.open: dict[str, OpenChoice] = {}
        """Open choices, in the order in which they were made."""
        self.on: dict[str, dict[str, OpenChoice]] = {}
        """Open choices by node."""
        self.of_job: dict[str, dict[str, OpenChoice]] = {}
        self.of_device: dict[str, OpenChoice] = {}
        self.adds: dict[str, OpenChoice] = {}
        """Choices that add a node, by the name of the node."""
        self.came: dict[str, str] = {}
        """By choice, the node that joined for it, under any name."""
        self.outcomes: dict[str, Outcome] = {}
        """Outcomes of the composer's requests, by choice."""
        self.given_up: dict[str, Outcome] = {}
        """Outcomes of nodes that could not be provisioned or removed, by choice."""
        self.dirty: dict[str, None] = {}
        """Choices that may have ended, because a fact concerned them or their deadline passed."""
        self.due: dict[str, Instant] = {}
        """When each of the other choices fails by its deadline."""
        self.dues: list[tuple[Instant, str]] = []
        """The deadlines as a heap."""
        self.withheld: dict[str, None] = {}
        """Nodes that the scheduler may have drained for a choice that ended (see `Ends.given_back`)."""
        self.ended: deque[EndedChoice] = deque(maxlen=ENDED_KEPT)
        """The newest choices that ended, oldest first."""

    def mark_dirty(self, choice_id: str) -> None:
        """Note that the choice, if it is open, may have ended."""
        if choice_id in self.open:
            self.dirty[choice_id] = None

    def mark_device_dirty(self, device_uuid: str) -> None:
        """Note that the choice that removes this device may have ended."""
        choice = self.of_device.get(device_uuid)
        if choice is not None:
            self.dirty[choice.id] = None

    def add(self, choice: OpenChoice) -> None:
        """Add a new choice, or one of a checkpoint, where choices come in any order."""
        self.open[choice.id] = choice
        self.dirty[choice.id] = None
        if choice.name == ADD:
            self.adds[choice.chosen.node] = choice
        for node in choice.nodes:
            self.on.setdefault(node, {})[choice.id] = choice
        for job in choice.chosen.jobs:
            self.of_job.setdefault(job, {})[choice.id] = choice
        for device in choice.chosen.devices:
            self.of_device[device] = choice

    def remove(self, choice_id: str) -> OpenChoice | None:
        """Remove a choice that ended; return it if it was open."""
        choice = self.open.pop(choice_id, None)
        self.dirty.pop(choice_id, None)
        self.due.pop(choice_id, None)
        self.outcomes.pop(choice_id, None)
        self.given_up.pop(choice_id, None)
        self.came.pop(choice_id, None)
        if choice is None:
            return None
        if self.adds.get(choice.chosen.node) is choice:
            del self.adds[choice.chosen.node]
        for node in choice.nodes:
            _forget(self.on, node, choice_id)
        for job in choice.chosen.jobs:
            _forget(self.of_job, job, choice_id)
        for device in choice.chosen.devices:
            self.of_device.pop(device, None)
        return choice

    def in_order(self) -> list[OpenChoice]:
        """Return all open choices, oldest first."""
        return [self.open[name] for name in sorted(self.open, key=age)]

    def on_node(self, node: str) -> list[OpenChoice]:
        """Return the open choices that concern a node, oldest first."""
        found = self.on.get(node)
        return [found[name] for name in sorted(found, key=age)] if found else []


def name_of(number: int) -> str:
    """Return the name of a choice from its number among all choices ever made."""
    return f"s{number:06d}"


def is_choice(name: str) -> bool:
    """Return whether the name of a device request may be the name of a choice."""
    return name[:1] == "s" and name[1:].isdecimal()


def age(choice_id: str) -> tuple[int, str]:
    """Return the sort key of choices, oldest first: their names are numbers that may grow by a digit."""
    return len(choice_id), choice_id


def _forget(index: dict[str, dict[str, OpenChoice]], name: str, choice_id: str) -> None:
    index[name].pop(choice_id, None)
    if not index[name]:
        del index[name]


@dataclass(frozen=True, slots=True)
class Choice:
    """A choice before it is in the log."""

    name: str
    payload: ScaleChosen | NothingChosen
    causes: tuple[str, ...] = ()
    """Ids of the facts that led to it."""
    trace: str = ""
    """Trace of the job that it is for; "" if there is none."""

    @property
    def code(self) -> str:
        """The reason code of a choice of nothing; "" for other choices."""
        return self.payload.code if isinstance(self.payload, NothingChosen) else ""

    def drafts(self, choice_id: str) -> list[Draft]:
        """Return the choice's fact under this name; for a node removal, together with the request to drain the node."""
        payload = self.payload
        if self.name != REMOVE_NODE or not isinstance(payload, ScaleChosen):
            return [Draft("scale", choice_id, self.name, payload, self.causes, self.trace)]
        chosen = payload.model_copy(update={"request_id": choice_id})
        request = WithholdRequested(request_id=choice_id, reason=payload.reason)
        return [
            Draft("scale", choice_id, self.name, chosen, self.causes, self.trace, together=choice_id),
            Draft("node", payload.node, "withhold-requested", request, self.causes, self.trace, together=choice_id),
        ]


class Refusals(dict[str, Refused]):
    """The last `nothing-chosen` reports by job or node, in the order of the reports. Only folds change it."""

    def report(self, name: str, nothing: NothingChosen, *, at: Instant) -> None:
        """Store the report for a job or node."""
        self.pop(name, None)
        self[name] = Refused(name=name, case=nothing.case, code=nothing.code, at=at, reason=nothing.reason)

    def forget(self, *names: str) -> None:
        """Remove the reports for these jobs and nodes."""
        for name in names:
            self.pop(name, None)

    def is_news(self, name: str, nothing: NothingChosen) -> bool:
        """Return whether to report this for the job or node: not if the same was reported last.

        Also not if storing the report would evict another one, which would then be repeated.
        """
        known = self.get(name)
        if known is None:
            return len(self) < limits.REFUSED_KEPT
        return (known.case, known.code) != (nothing.case, nothing.code)


LATE = "it was given after it had been asked for no longer"
"""The reason for returning a node that no open choice requests."""


class End(NamedTuple):
    """How a choice ended."""

    failed: bool
    reason: str
    cause: str = ""
    """The fact by which it ended; "" if its deadline passed."""


@dataclass(frozen=True, slots=True, eq=False)
class Ends:
    """Ends choices that are done, failed or overdue."""

    cluster: Cluster
    choices: Choices
    attachments: Attachments

    def make(self, now: Instant) -> Iterator[Draft]:
        """Yield `ended` for choices that are done, failed or overdue; a node that stays becomes schedulable again.

        Only choices that a fact concerned, and choices whose deadline passed, are checked.
        """
        choices = self.choices
        while choices.dues and choices.dues[0][0] <= now:
            due, name = heappop(choices.dues)
            if choices.due.get(name) == due:
                del choices.due[name]
                choices.mark_dirty(name)
        for choice in [choices.open[name] for name in sorted(choices.dirty, key=age)]:
            end = self.end_of(choice, now)
            if end is None:
                del choices.dirty[choice.id]
                self._watch(choice)
                continue
            causes = tuple(fact for fact in (choice.fact, end.cause) if fact)
            took_s = seconds_between(choice.chosen_at, now)
            payload = ScaleEnded(failed=end.failed, reason=end.reason, took_s=took_s)
            key = choice.id if end.failed and choice.name == REMOVE_NODE else ""
            yield Draft("scale", choice.id, ENDED, payload, causes, choice.trace, key)
            if key and self.cluster.nodes.description(choice.chosen.node) is not None:
                back = WithholdWithdrawn(
                    request_id=choice.chosen.request_id, reason=end.reason, after_withheld=choice.withheld
                )
                yield Draft("node", choice.chosen.node, "withhold-withdrawn", back, causes, choice.trace, key)

    def given_back(self) -> Iterator[Draft]:
        """Withdraw the drain requests of nodes that the scheduler drained for choices that are over.

        The scheduler may drain a node at the moment at which the scaler withdraws the request: the two facts cross, in
        either order, and the answer stands. So the scaler withdraws again, now knowing the answer.
        """
        for name in sorted(self.choices.withheld):
            record = self.cluster.nodes.get(name)
            requests = record.wishes if record is not None and record.description is not None else ()
            mine = [request.request_id for request in requests if request.answered and is_choice(request.request_id)]
            if not mine:
                del self.choices.withheld[name]
            for request_id in mine:
                if request_id not in self.choices.open:
                    back = WithholdWithdrawn(request_id=request_id, reason=LATE, after_withheld=True)
                    causes = (record.last_fact,) if record is not None and record.last_fact else ()
                    yield Draft("node", name, "withhold-withdrawn", back, causes)

    def end_of(self, choice: OpenChoice, now: Instant) -> End | None:
        """Return how a choice ended; None while it is open."""
        if self._is_done(choice):
            return End(False, "")
        given_up = self.choices.given_up.get(choice.id) or self.choices.outcomes.get(choice.id)
        if given_up is not None and (given_up.failed or choice.name == ATTACH):
            return End(True, given_up.reason or "its devices went back", given_up.fact)
        if choice.name == REMOVE_GPU and (kept := self._kept_devices(choice)):
            return End(True, f"{kept[0]} stays where it is" + (f", and {len(kept) - 1} more" if kept[1:] else ""))
        if now >= self.due_at(choice):
            return End(True, self._overdue(choice))
        return None

    def due_at(self, choice: OpenChoice) -> Instant:
        """Return when a choice fails if nothing happens."""
        settings, composer = self.cluster.config.settings, self.cluster.config.composer
        if choice.name == ADD:
            return after(choice.chosen_at, settings.node_provision_s_max)
        if choice.name == REMOVE_NODE:
            return after(choice.chosen_at, settings.node_provision_s_max if choice.withheld else settings.withhold_s)
        comes_s, goes_s = composer.attach_s_max, settings.withhold_s + composer.detach_s_max
        waits_s = goes_s if choice.name == REMOVE_GPU else comes_s + (goes_s if choice.chosen.devices else 0.0)
        return after(choice.chosen_at, waits_s + composer.visible_s_max + limits.DEVICE_SPARE_S)

    def next_end(self) -> Instant | None:
        """Return the earliest deadline of the open choices."""
        choices = self.choices
        while choices.dues and choices.due.get(choices.dues[0][1]) != choices.dues[0][0]:
            heappop(choices.dues)
        moments = [self.due_at(choices.open[name]) for name in choices.dirty]
        return min([*moments, *(due for due, _ in choices.dues[:1])], default=None)

    def _watch(self, choice: OpenChoice) -> None:
        due = self.due_at(choice)
        if self.choices.due.get(choice.id) != due:
            self.choices.due[choice.id] = due
            heappush(self.choices.dues, (due, choice.id))

    def _is_done(self, choice: OpenChoice) -> bool:
        chosen, attachments = choice.chosen, self.attachments
        match choice.name:
            case name if name == ATTACH:
                mine = attachments.of_request.get(choice.id, {}).values()
                return sum(one.phase is AttachmentPhase.ONLINE for one in mine) >= sum(
                    part.count for part in chosen.parts
                )
            case name if name == ADD:
                record = self.cluster.nodes.get(self.choices.came.get(choice.id, chosen.node))
                return record is not None and record.usable
            case name if name == REMOVE_NODE:
                return self.cluster.nodes.description(chosen.node) is None
            case _:
                return not any(device in attachments.of_device for device in chosen.devices)

    def _kept_devices(self, choice: OpenChoice) -> list[str]:
        """Return devices of a removal that the composer has put back into use since the choice."""
        known = [(device, self.attachments.of_device.get(device)) for device in choice.chosen.devices]
        if any(one is not None and one.phase is not AttachmentPhase.ONLINE for _, one in known):
            return []  # other devices are still on their way
        return [device for device, one in known if one is not None and one.since > choice.chosen_at]

    def _overdue(self, choice: OpenChoice) -> str:
        waited_s = seconds_between(choice.chosen_at, self.due_at(choice))
        what = {
            ADD: "the node is not there and released",
            ATTACH: "not all devices can be used",
            REMOVE_GPU: "the devices are not back in the pool",
            REMOVE_NODE: "the node is still there" if choice.withheld else "the node did not come free",
        }[choice.name]
        return f"{what} after {waited_s:.0f} s"
