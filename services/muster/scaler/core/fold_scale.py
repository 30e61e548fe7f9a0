"""How the scaler's own facts change what it believes: choices that were made, and their ends."""

from collections.abc import Callable

from muster.core import Fact
from muster.scaler.core.choices import ADD, ATTACH, REMOVE_GPU, REMOVE_NODE, EndedChoice, OpenChoice
from muster.scaler.core.state import State
from muster.schemas.facts.scale import NothingChosen, Refused, ScaleChosen, ScaleEnded


def _chosen(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, ScaleChosen)
    if fact.subject_id in state.choices.open:
        state.anomalies["chosen twice"] += 1
        return
    state.chosen += 1
    choice = OpenChoice(fact.subject_id, fact.name, fact.payload, fact.time, fact.id, fact.trace)
    state.choices.add(choice)
    lift(state, choice)
    for job in fact.payload.jobs:
        state.refused.pop(job, None)
    state.refused.pop(fact.payload.node, None)


def lift(state: State, choice: OpenChoice) -> None:
    """What the nodes of a choice will be is about to be something else, or just became so."""
    state.lift(choice.nodes)
    for device in choice.chosen.devices:
        attachment = state.attachments.of_device.get(device)
        node = attachment.node if attachment is not None else state.nodes.node_of("device", device)
        if node:
            state.lift((node,))


def _ended(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, ScaleEnded)
    known = state.choices.open.get(fact.subject_id)
    if known is None:
        state.anomalies["ended twice"] += 1
        return
    lift(state, known)
    state.choices.remove(known.id)
    state.supply += 1
    state.ended.append(EndedChoice(known, fact.payload, fact.time))
    if known.name == REMOVE_NODE:
        state.withheld[known.chosen.node] = None
    if fact.payload.failed:
        state.note_failed(known, fact.time)
    elif known.serves and not (known.name == ADD and known.chosen.parts):
        for job in known.chosen.jobs:  # a node that was added for GPUs still to be attached has not served anybody
            if job in state.jobs.records:
                state.served_at.pop(job, None)
                state.served_at[job] = fact.time


def _nothing_chosen(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, NothingChosen)
    state.refused.pop(fact.subject_id, None)
    state.refused[fact.subject_id] = Refused(
        name=fact.subject_id,
        case=fact.payload.case,
        code=fact.payload.code,
        at=fact.time,
        reason=fact.payload.reason,
    )


HANDLERS: dict[tuple[str, str], Callable[[State, Fact], None]] = {
    **{("scale", name): _chosen for name in (ATTACH, ADD, REMOVE_GPU, REMOVE_NODE)},
    ("scale", "ended"): _ended,
    ("scale", "nothing-chosen"): _nothing_chosen,
}
