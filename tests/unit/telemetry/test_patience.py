"""Nodes without an exporter are asked ever less often; those that had one are asked in every round."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from kit.clocks import FakeTime
from kit.telemetry import BEGAN, VirtualTelemetry, joined
from kit.virtual_time import virtually
from muster.bus.service import LeaderHandle
from muster.schemas.facts.node import NodeJoined, NodeLeft
from muster.schemas.telemetry import ExporterState
from muster.telemetry.app import Answer, Exporters, Scrapes
from muster.telemetry.core.exporters import ROUNDS_MAX, ScrapeBackoff

NODE = joined("n1")
PAGE = 'DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-n1-0"} 40\n'


def asked(
    patience: ScrapeBackoff, rounds: range, *, there: range = range(0), description: NodeJoined = NODE
) -> list[int]:
    """In which rounds the node was asked. there: rounds in which somebody answers."""
    found = []
    for number in rounds:
        if patience.is_due("n1", description, number):
            found.append(number)
            patience.record_attempt("n1", description, number, somebody=number in there)
    return found


def test_where_nobody_ever_answers_the_pauses_double_up_to_a_bound() -> None:
    found = asked(ScrapeBackoff(), range(1, 400))
    pauses = [after - before for before, after in pairwise(found)]
    assert pauses[0] == 1
    assert pauses == sorted(pauses)
    assert ROUNDS_MAX // 2 <= pauses[-1] <= ROUNDS_MAX
    assert len(found) <= 5 + 400 / (ROUNDS_MAX // 2)


def test_nodes_without_an_exporter_do_not_all_have_the_same_round() -> None:
    patience = ScrapeBackoff()
    rounds: Counter[int] = Counter()
    for number in range(1, 400):
        for node in range(200):
            if patience.is_due(f"n{node}", NODE, number):
                rounds[number] += 1
                patience.record_attempt(f"n{node}", NODE, number, somebody=False)
    assert max(rounds[number] for number in range(300, 400)) < 50


def test_one_that_answered_once_is_asked_in_every_round_however_long_it_is_silent() -> None:
    assert asked(ScrapeBackoff(), range(1, 100), there=range(1, 2)) == list(range(1, 100))


def test_one_that_comes_late_is_asked_in_every_round_from_then_on() -> None:
    patience = ScrapeBackoff()
    asked(patience, range(1, 100))
    found = asked(patience, range(100, 200), there=range(100, 200))
    assert found == list(range(found[0], 200))
    assert found[0] <= 100 + ROUNDS_MAX


def test_a_node_that_joins_anew_starts_anew() -> None:
    patience = ScrapeBackoff()
    asked(patience, range(1, 100))
    again = NodeJoined(**dict(NODE))
    assert asked(patience, range(100, 102), description=again) == [100, 101]


def test_a_node_that_left_is_forgotten() -> None:
    patience = ScrapeBackoff()
    asked(patience, range(1, 100))
    patience.keep({"n2"})
    assert asked(patience, range(100, 102)) == [100, 101]


# --- the service, in virtual time ------------------------------------------------------------------------------------


@dataclass
class Nodes:
    """What the nodes answer, and when each was asked. there: those with an exporter."""

    there: set[str]
    asked: dict[str, list[float]] = field(default_factory=dict)

    async def ask(self, url: str) -> Answer:
        node = url.removeprefix("http://").removesuffix("/")
        self.asked.setdefault(node, []).append(asyncio.get_running_loop().time())
        return Answer(ExporterState.OK, PAGE) if node in self.there else Answer(ExporterState.DOWN, error="nobody")


class Nobody:
    """A connection on which nothing arrives."""

    is_connected = False

    async def publish(self, subject: str, payload: bytes = b"") -> None:
        raise AssertionError(subject, payload)


async def read_for(harness: VirtualTelemetry, seconds: float) -> float:
    """Read all nodes for so long. Returns when that began."""
    sink = Scrapes(
        cluster="atlas", url="http://{node}/", interval_s=10.0, timeout_s=5.0, stale_s=60.0,
        clock=FakeTime(wall_ns=BEGAN),
    )  # fmt: skip
    began_s = asyncio.get_running_loop().time()
    await sink.open(harness.core, Nobody(), LeaderHandle())
    await asyncio.sleep(seconds / 2)
    harness.write("agent", "node", "gone", "left", NodeLeft())
    harness.join("gone")
    await asyncio.sleep(seconds / 2)
    await sink.after_fold((), last_seq=0, now=BEGAN)
    looks = dict(harness.core.fleet.nodes)
    await sink.close()
    harness.core.fleet.nodes.update(looks)
    return began_s


def test_the_service_leaves_nodes_without_an_exporter_alone_most_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = Nodes({"n1"})
    monkeypatch.setattr(Exporters, "ask", nodes.ask)
    harness = VirtualTelemetry()
    harness.join("n1", "n2", "gone")
    began_s = virtually(read_for(harness, 3_600.0))
    assert len(nodes.asked["n1"]) == 360
    assert 3_600 / 10 / ROUNDS_MAX <= len(nodes.asked["n2"]) <= 60
    half_s = began_s + 1_800
    again = [at for at in nodes.asked["gone"] if half_s <= at <= half_s + 60]
    assert len(again) >= 3, "it joined anew"
    looks = harness.core.fleet.nodes
    assert (looks["n2"].state, looks["n2"].was_there, looks["n1"].was_there) == (ExporterState.DOWN, False, True)
