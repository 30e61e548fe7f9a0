"""Who closes nodes and devices, as the read model tells it."""

from kit.projector_nodes import after
from muster.schemas.facts.node import (
    Cordon,
    CordonRequested,
    DrainRequest,
    GrantState,
    RunningJobs,
    Withheld,
    WithholdRequested,
    WithholdWithdrawn,
)
from muster.schemas.views import NodeView

ASKED = WithholdRequested(request_id="u1", reason="driver", running=RunningJobs.MOVE)
BY_ADA = CordonRequested(principal="ada", reason="smoke")


def told(node: NodeView) -> list[tuple[str, str, str]]:
    return [(reason.what, reason.by, reason.device) for reason in node.reasons]


def test_a_cordon_stands_until_it_is_taken_back() -> None:
    cordoned = after(("node", "n1", "cordon-forwarded", BY_ADA))
    assert (cordoned.usable, cordoned.reason, told(cordoned)) == (
        False,
        "cordoned by ada: smoke",
        [("cordoned", "ada", "")],
    )
    drained = after(("node", "n1", "cordon-forwarded", BY_ADA), ("node", "n1", "drain-forwarded", BY_ADA))
    assert drained.reasons[0].what == "drained"
    resumed = after(("node", "n1", "drain-forwarded", BY_ADA), ("node", "n1", "resume-forwarded", BY_ADA))
    assert (resumed.usable, resumed.reason, told(resumed)) == (True, "", [])


def test_what_services_ask_is_told_from_the_request_on_with_what_becomes_of_jobs() -> None:
    node = after(("node", "n1", "withhold-requested", ASKED))
    (reason,) = node.reasons
    assert (reason.what, reason.reason, reason.request_id, reason.running) == (
        "withheld", "driver", "u1", RunningJobs.MOVE,
    )  # fmt: skip
    later = after(("node", "n1", "withhold-requested", ASKED.model_copy(update={"from_at": 1 << 62})))
    assert [reason.what for reason in later.reasons] == ["planned"]
    assert later.usable
    gone = after(
        ("node", "n1", "withhold-requested", ASKED),
        ("node", "n1", "withheld", Withheld(request_id="u1")),
        ("node", "n1", "withhold-withdrawn", WithholdWithdrawn(request_id="u1", after_withheld=True)),
    )
    assert [reason.what for reason in gone.reasons] == ["not-released"]


def test_a_device_is_told_by_its_uuid_on_the_node_that_shows_it() -> None:
    node = after(("device", "n1-3", "withhold-requested", ASKED), ("device", "elsewhere", "withhold-requested", ASKED))
    assert [(reason.what, reason.device) for reason in node.reasons] == [("withheld", "n1-3")]
    assert node.usable
    again = after(
        ("device", "n1-3", "withhold-requested", ASKED),
        ("device", "n1-3", "withhold-withdrawn", WithholdWithdrawn(request_id="u1")),
    )
    assert again.reasons == ()


def test_a_checkpoint_tells_the_same() -> None:
    request = DrainRequest(request_id="u1", by="upgrader", answered=True)
    grant = GrantState(released=False, wishes=(request,), cordon=Cordon(principal="ada", draining=True))
    node = after(("node", "n1", "state-recorded", grant))
    assert told(node) == [("drained", "ada", ""), ("withheld", "upgrader", "")]
