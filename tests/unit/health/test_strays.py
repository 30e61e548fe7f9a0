"""Requests to withhold what is gone: withdrawn, so that what comes again under its name may be used."""

import pytest

from kit.health import VirtualHealth, device, uuid
from muster.core import Draft, after
from muster.core.virtual import recover
from muster.schemas.facts.health import HealthPhase
from muster.schemas.facts.node import DrainRequest, GrantState, NodeJoined, NodeLeft, Withheld, WithholdWithdrawn


@pytest.fixture
def harness() -> VirtualHealth:
    """Node a is suspect, and what holds it has not ended yet."""
    one = VirtualHealth(answers=False)
    one.join("a", "b")
    for node in ("a", "b"):
        one.page(node)
    one.now = after(one.now, 10)
    one.page("a", device("a", 3, xid=79))
    one.settle()
    assert one.phase("node", "a") is HealthPhase.SUSPECT
    return one


def asked(harness: VirtualHealth) -> str:
    """The request that was made last."""
    return str(harness.facts("withhold-requested")[-1].payload.request_id)  # type: ignore[attr-defined]


def withdrawn(harness: VirtualHealth) -> list[tuple[str, bool]]:
    """What was withdrawn, and whether as answered."""
    found = [fact.payload for fact in harness.facts("withhold-withdrawn")]
    return [(one.request_id, one.after_withheld) for one in found if isinstance(one, WithholdWithdrawn)]


def test_the_request_for_a_node_that_left_is_withdrawn(harness: VirtualHealth) -> None:
    harness.write("agent", "node", "a", "left", NodeLeft())
    harness.settle()
    assert withdrawn(harness) == [(asked(harness), False)]


def test_an_answer_that_crosses_the_withdrawal_is_given_back(harness: VirtualHealth) -> None:
    harness.write("agent", "node", "a", "left", NodeLeft())
    (draft,) = harness.core.decide(harness.now)
    harness.write("scheduler", "node", "a", "withheld", Withheld(request_id=asked(harness)))
    harness.write("health", "node", "a", draft.name, draft.payload)
    harness.settle()
    assert withdrawn(harness) == [(asked(harness), False), (asked(harness), True)]


def test_an_answer_to_a_withdrawn_request_is_given_back_also_if_the_node_came_again(harness: VirtualHealth) -> None:
    harness.write("agent", "node", "a", "left", NodeLeft())
    harness.settle()
    harness.join("a")
    harness.write("scheduler", "node", "a", "withheld", Withheld(request_id=asked(harness)))
    harness.settle()
    assert withdrawn(harness)[-1] == (asked(harness), True)
    assert harness.phase("node", "a") is HealthPhase.HEALTHY


def test_a_request_that_the_node_did_not_live_to_see_is_withdrawn() -> None:
    harness = VirtualHealth(answers=False)
    harness.join("a")
    harness.page("a")
    harness.now = after(harness.now, 10)
    harness.page("a", device("a", 3, xid=79))
    drafts = list[Draft]()
    while not any(draft.name == "withhold-requested" for draft in drafts):
        drafts = harness.core.decide(harness.now)
        for draft in drafts:
            if draft.name == "withhold-requested":
                harness.write("agent", "node", "a", "left", NodeLeft())
            harness.write("health", draft.kind, draft.subject_id, draft.name, draft.payload)
    harness.settle()
    assert withdrawn(harness) == [(asked(harness), False)]


def test_a_device_that_was_taken_away_leaves_no_request_behind() -> None:
    harness = VirtualHealth(answers=False)
    harness.join("a")
    harness.page("a")
    harness.now = after(harness.now, 10)
    harness.page("a", device("a", 3, xid=48))
    harness.settle()
    assert harness.phase("device", uuid("a", 3)) is HealthPhase.SUSPECT
    uuids = tuple(uuid("a", index) for index in range(8))
    less = NodeJoined(cpu_milli=96_000, memory_mib=1_000_000, gpu_uuids=uuids, absent=(3,))
    harness.write("agent", "node", "a", "joined", less)
    harness.settle()
    assert withdrawn(harness) == [(asked(harness), False)]


@pytest.mark.parametrize("unit_first", [True, False])
def test_who_starts_from_a_checkpoint_withdraws_what_is_of_nothing_and_keeps_what_is_wanted(
    harness: VirtualHealth, *, unit_first: bool
) -> None:
    requests = (
        DrainRequest(request_id=asked(harness), fact="f", by="health"),
        DrainRequest(request_id="health.a.7.1", fact="f", by="health", answered=True),
        DrainRequest(request_id="health.8.1.1.hold.a", fact="f", by="upgrader", answered=True),
    )
    grant = Draft("node", "a", "state-recorded", GrantState(released=True, wishes=requests))
    grants, own = harness.state_facts("scheduler", [grant]), harness.snapshot()
    parts = [*own, *grants] if unit_first else [*grants, *own]
    other = VirtualHealth(answers=False, now=harness.now)
    other.join("a", "b")
    recover(other.core, parts)
    other.settle()
    assert withdrawn(other) == [("health.a.7.1", True)]
