"""Choices that came to their end: carried out, or not."""

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple

from muster.core import Draft, Instant, after, seconds_between
from muster.scaler.core import limits
from muster.scaler.core.choices import (
    ADD,
    ATTACH,
    ENDED,
    REMOVE_GPU,
    REMOVE_NODE,
    Choices,
    OpenChoice,
    age,
    is_choice,
)
from muster.scaler.core.cluster import Cluster
from muster.scaler.core.fabrics import Attachments
from muster.schemas.devices import AttachmentPhase
from muster.schemas.facts.node import WithholdWithdrawn
from muster.schemas.facts.scale import ScaleEnded

LATE = "it was given after it had been asked for no longer"
"""Why a node is given back that no open choice asks for."""


class End(NamedTuple):
    """How a choice ended."""

    failed: bool
    reason: str
    cause: str = ""
    """The fact by which it ended; "" if its time is over."""


@dataclass(frozen=True, slots=True, eq=False)
class Ends:
    """Ends the choices that are done, failed or overdue."""

    cluster: Cluster
    choices: Choices
    attachments: Attachments

    def make(self, now: Instant) -> Iterator[Draft]:
        """`ended` of all choices that are done, failed or overdue; a node that stays may be used again.

        Only those are looked at of which something was folded since, and those whose time is over.
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
        """Withdraw the requests for nodes that the scheduler withheld for choices that are over.

        The scheduler may withhold a node at the moment at which the scaler withdraws the request: the two facts cross,
        in either order, and the answer stands. So the scaler withdraws once more, now knowing of the answer.
        """
        for name in sorted(self.choices.withheld):
            record = self.cluster.nodes.get(name)
            wishes = record.wishes if record is not None and record.description is not None else ()
            mine = [wish.request_id for wish in wishes if wish.answered and is_choice(wish.request_id)]
            if not mine:
                del self.choices.withheld[name]
            for request_id in mine:
                if request_id not in self.choices.open:
                    back = WithholdWithdrawn(request_id=request_id, reason=LATE, after_withheld=True)
                    causes = (record.last_fact,) if record is not None and record.last_fact else ()
                    yield Draft("node", name, "withhold-withdrawn", back, causes)

    def end_of(self, choice: OpenChoice, now: Instant) -> End | None:
        """How it ended; None while it is under way."""
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
        """When it has failed if nothing happened."""
        settings, composer = self.cluster.config.settings, self.cluster.config.composer
        if choice.name == ADD:
            return after(choice.chosen_at, settings.node_provision_s_max)
        if choice.name == REMOVE_NODE:
            return after(choice.chosen_at, settings.node_provision_s_max if choice.withheld else settings.withhold_s)
        comes_s, goes_s = composer.attach_s_max, settings.withhold_s + composer.detach_s_max
        waits_s = goes_s if choice.name == REMOVE_GPU else comes_s + (goes_s if choice.chosen.devices else 0.0)
        return after(choice.chosen_at, waits_s + composer.visible_s_max + limits.DEVICE_SPARE_S)

    def next_end(self) -> Instant | None:
        """When the first of the choices is overdue."""
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
        """Devices of a removal that the composer has put back into use since it was chosen."""
        known = [(device, self.attachments.of_device.get(device)) for device in choice.chosen.devices]
        if any(one is not None and one.phase is not AttachmentPhase.ONLINE for _, one in known):
            return []  # the others are still on their way
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
