"""Closing nodes over HTTP: who may, what is stored, what is answered."""

import pytest

from kit.http.gateway import FakeHarness
from muster.gateway.api import changes
from muster.schemas.facts.node import CordonRequested
from muster.schemas.views import NodeReason, NodeView


def node(name: str = "n1", *whats: str) -> NodeView:
    return NodeView(name=name, cluster="atlas", reasons=tuple(NodeReason(what=what) for what in whats))


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "CHANGE_WAIT_S", 0.01)
    monkeypatch.setattr(changes, "CHANGE_POLL_S", 0.0)


@pytest.mark.parametrize("ask", ["cordon", "drain", "resume"])
@pytest.mark.parametrize(("who", "status"), [("eve", 403), ("ann", 403), ("olga", 202)])
async def test_operators_may_close_nodes(who: str, status: int, ask: str) -> None:
    harness = FakeHarness()
    harness.scheduler.node_rows = [node("n1", "cordoned" if ask == "resume" else "lost")]
    async with harness.client(who) as client:
        answer = await client.post(f"/v1/nodes/n1/{ask}", params={"reason": "smells of smoke"})
    assert answer.status_code == status
    stored = [(draft.name, draft.payload) for draft in harness.log.operations.values()]
    payload = CordonRequested(principal="olga", reason="smells of smoke", cluster="atlas")
    assert stored == ([(f"{ask}-requested", payload)] if status == 202 else [])


@pytest.mark.parametrize(
    ("ask", "whats"), [("cordon", ("cordoned",)), ("drain", ("drained", "withheld")), ("resume", ("withheld",))]
)
async def test_once_the_scheduler_has_it_the_node_is_answered_as_it_is(ask: str, whats: tuple[str, ...]) -> None:
    harness = FakeHarness()
    harness.scheduler.node_rows = [node("n0"), node("n1", *whats)]
    async with harness.client("olga") as client:
        answer = await client.post(f"/v1/nodes/n1/{ask}")
    assert (answer.status_code, answer.json()["name"]) == (200, "n1")
    assert tuple(reason["what"] for reason in answer.json()["reasons"]) == whats


async def test_a_node_that_is_not_there_is_not_closed() -> None:
    harness = FakeHarness()
    async with harness.client("olga") as client:
        answer = await client.post("/v1/nodes/n7/cordon")
    assert answer.status_code == 404
    assert not harness.log.operations
