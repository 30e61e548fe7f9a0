"""Choices: one decision before it has a name in the log, the choices under way, and those that ended."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from muster.core import Draft, Instant
from muster.scaler.core.limits import ENDED_KEPT
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
    """All choices under way, and the newest that ended. The fold writes it, and a what-if adds and removes its own.

    Invariant: every open choice is in `dirty`, or in `due` and `dues`.
    """

    def __init__(self) -> None:
        self.chosen = 0
        """How many choices were ever made."""
        self.open: dict[str, OpenChoice] = {}
        """Choices under way, in the order in which they were made."""
        self.on: dict[str, dict[str, OpenChoice]] = {}
        """The same by node."""
        self.of_job: dict[str, dict[str, OpenChoice]] = {}
        self.of_device: dict[str, OpenChoice] = {}
        self.adds: dict[str, OpenChoice] = {}
        """Choices that add a node, by the name of that node."""
        self.came: dict[str, str] = {}
        """The node that came for a choice, under whatever name, by choice."""
        self.outcomes: dict[str, Outcome] = {}
        """Outcomes of the composer's requests, by choice."""
        self.given_up: dict[str, Outcome] = {}
        """Outcomes of nodes that could not be provided, or not taken away, by choice."""
        self.dirty: dict[str, None] = {}
        """Choices that may have ended, because a fact concerned them or their time is over."""
        self.due: dict[str, Instant] = {}
        """When each of the others fails by time."""
        self.dues: list[tuple[Instant, str]] = []
        """The same as a heap."""
        self.withheld: dict[str, None] = {}
        """Nodes that the scheduler may have withheld for a choice that ended (see `Ends.given_back`)."""
        self.ended: deque[EndedChoice] = deque(maxlen=ENDED_KEPT)
        """The newest choices that ended, oldest first."""

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
