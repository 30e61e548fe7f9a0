"""Choices: one decision before it has a name in the log, the choices under way, and those that ended."""

from collections.abc import Iterable
from dataclasses import dataclass

from muster.core import Draft, Instant
from muster.schemas.facts.node import WithholdRequested
from muster.schemas.facts.scale import NothingChosen, ScaleChosen, ScaleEnded

ATTACH, ADD, REMOVE_GPU, REMOVE_NODE, NOTHING, ENDED = (
    "gpu-attach-chosen", "node-add-chosen", "gpu-remove-chosen", "node-remove-chosen", "nothing-chosen", "ended",
)  # fmt: skip
"""Names of the scaler's facts."""


@dataclass(slots=True)
class OpenChoice:
    """One of the four that is not ended. withheld: the scheduler gave the node that goes."""

    id: str
    name: str
    chosen: ScaleChosen
    chosen_at: Instant
    fact: str
    trace: str = ""
    withheld: bool = False

    @property
    def nodes(self) -> Iterable[str]:
        """Nodes that change by it, or on which something is kept because of it."""
        names = dict.fromkeys([part.node for part in self.chosen.parts])
        names.update(dict.fromkeys([place.node for place in self.chosen.places]))
        if self.chosen.node:
            names[self.chosen.node] = None
        return names

    @property
    def serves(self) -> bool:
        """Whether it was chosen for jobs."""
        return self.name in (ATTACH, ADD)


@dataclass(frozen=True, slots=True)
class EndedChoice:
    """One that is over, as far as it is still shown."""

    choice: OpenChoice
    ended: ScaleEnded
    ended_at: Instant


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of the composer's request of the same name. fact: which says so."""

    failed: bool
    reason: str
    fact: str


class Choices:
    """Those under way, in the order in which they were made; by node, by job and by device.
    adds: those of nodes that are added, by node. came: nodes that came for a choice, under whatever name, by choice.

    dirty: those to be looked at, because something was folded that concerns them or their time is over; due: when
    each of the others fails by time, and `dues` the same as a heap.
    outcomes: of requests that are over. given_up: nodes that could not be provided, or not taken away, by choice.
    """

    def __init__(self) -> None:
        self.open: dict[str, OpenChoice] = {}
        self.on: dict[str, dict[str, OpenChoice]] = {}
        self.of_job: dict[str, dict[str, OpenChoice]] = {}
        self.of_device: dict[str, OpenChoice] = {}
        self.adds: dict[str, OpenChoice] = {}
        self.came: dict[str, str] = {}
        self.outcomes: dict[str, Outcome] = {}
        self.given_up: dict[str, Outcome] = {}
        self.dirty: dict[str, None] = {}
        self.due: dict[str, Instant] = {}
        self.dues: list[tuple[Instant, str]] = []

    def mark_dirty(self, choice_id: str) -> None:
        """Something was folded by which this one may have come to its end; nothing if it is none of these."""
        if choice_id in self.open:
            self.dirty[choice_id] = None

    def mark_device_dirty(self, device_uuid: str) -> None:
        """The same for the one by which this device goes."""
        choice = self.of_device.get(device_uuid)
        if choice is not None:
            self.dirty[choice.id] = None

    def add(self, choice: OpenChoice) -> None:
        """One more; or one as a checkpoint says, where they come in any order."""
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
        """It came to its end."""
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
        """All of them, the oldest first."""
        return [self.open[name] for name in sorted(self.open, key=age)]

    def on_node(self, node: str) -> list[OpenChoice]:
        """Those that concern a node, the oldest first."""
        found = self.on.get(node)
        return [found[name] for name in sorted(found, key=age)] if found else []


def name_of(number: int) -> str:
    """The name of a choice, by its number among all that were ever made."""
    return f"s{number:06d}"


def is_choice(name: str) -> bool:
    """Whether a request for devices may be that of a choice."""
    return name[:1] == "s" and name[1:].isdecimal()


def age(choice_id: str) -> tuple[int, str]:
    """By which choices are sorted, the oldest first: their names are numbers that may grow by a digit."""
    return len(choice_id), choice_id


def _forget(index: dict[str, dict[str, OpenChoice]], name: str, choice_id: str) -> None:
    index[name].pop(choice_id, None)
    if not index[name]:
        del index[name]


@dataclass(frozen=True, slots=True)
class Choice:
    """name: of its fact. causes: ids of the facts that led to it. trace: of the job that it is for, "" for none."""

    name: str
    payload: ScaleChosen | NothingChosen
    causes: tuple[str, ...] = ()
    trace: str = ""

    @property
    def code(self) -> str:
        """What stands in the way, of a choice of nothing; "" of others."""
        return self.payload.code if isinstance(self.payload, NothingChosen) else ""

    def drafts(self, choice_id: str) -> list[Draft]:
        """Its fact under this name; with a node that goes, the request to withhold it, never one without the other."""
        payload = self.payload
        if self.name != REMOVE_NODE or not isinstance(payload, ScaleChosen):
            return [Draft("scale", choice_id, self.name, payload, self.causes, self.trace)]
        chosen = payload.model_copy(update={"request_id": choice_id})
        wish = WithholdRequested(request_id=choice_id, reason=payload.reason)
        return [
            Draft("scale", choice_id, self.name, chosen, self.causes, self.trace, together=choice_id),
            Draft("node", payload.node, "withhold-requested", wish, self.causes, self.trace, together=choice_id),
        ]
