"""What one decision has chosen or found to fit already, as if it were so, for whoever is looked at after it.

Entered on top of what is on its way, and taken back in the opposite order when the decision is made.
"""

from collections.abc import Callable, Iterable
from functools import partial
from types import TracebackType
from typing import Self

from muster.placement import Hold
from muster.placement.growth import grow, shrink
from muster.scaler.core.choices import ADD, OpenChoice
from muster.scaler.core.coming import hold_on
from muster.scaler.core.expected import new_node
from muster.scaler.core.state import State
from muster.schemas.facts.scale import ScaleChosen


class Pretence:
    """Closing it leaves the state as it was."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._fleet = state.fleet
        self._undo: list[Callable[[], object]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        while self._undo:
            self._undo.pop()()

    def hold(self, holds: Iterable[Hold]) -> None:
        """Somebody has these places."""
        for hold in holds:
            self._fleet.hold(hold)
            self._undo.append(partial(self._fleet.withdraw, hold))

    def choose(self, name: str, chosen: ScaleChosen) -> None:
        """This was chosen: it counts in the pool, in its group, and its places are kept."""
        state = self._state
        choice = OpenChoice(f"?{len(self._undo)}", name, chosen, state.now, "")
        if name == ADD:
            self._add_node(choice)
        else:
            for part in chosen.parts:
                self._grow(part.node, part.count, part.device_model)
            for device in chosen.devices:
                self._take_away(device)
        self._undo.append(state.forget_counts)
        state.choices.add(choice)
        self._undo.append(partial(state.choices.remove, choice.id))
        state.count_chosen(choice)
        self._keep(choice)

    def _add_node(self, choice: OpenChoice) -> None:
        self._fleet.add_node(new_node(self._state, choice))
        self._undo.append(partial(self._fleet.remove_node, choice.chosen.node))

    def _grow(self, name: str, count: int, model: str) -> None:
        before = self._fleet.ledger.node(name).shape.gpu_model
        grow(self._fleet, name, count, model=model)
        self._undo.append(partial(shrink, self._fleet, name, count, model=before))

    def _take_away(self, device: str) -> None:
        attachment = self._state.attachments.of_device.get(device)
        description = self._state.nodes.description(attachment.node) if attachment is not None else None
        if attachment is None or description is None:
            return
        index = next((index for index, uuid in description.present.items() if uuid == device), None)
        if index is not None and index not in self._fleet.ledger.node(attachment.node).broken:
            self._fleet.set_device_usable(attachment.node, index, False)
            self._undo.append(partial(self._fleet.set_device_usable, attachment.node, index, True))

    def _keep(self, choice: OpenChoice) -> None:
        record = self._state.jobs.records.get(choice.chosen.jobs[0]) if choice.chosen.jobs else None
        if record is None:
            return
        groups = record.shape.gang.groups
        for place in choice.chosen.places:
            for _ in range(place.replicas):
                hold = hold_on(self._fleet, place.node, groups[place.group].shape)
                if hold is None:
                    break
                self.hold((hold,))
