"""What a cell may read of FED, tried on real nats-servers by somebody with every right on the cell's own broker."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from kit.stack.leaf import ANYBODY, CELL, KEPT, Joined, joined
from kit.waiting import until_async
from muster.bus import jsapi
from muster.bus.names import CENTRE_DOMAIN, api_of
from muster.schemas.subjects import FED_LOG

pytestmark = pytest.mark.connected

Json = dict[str, object]
API = f"{api_of(CENTRE_DOMAIN)}.CONSUMER"
CREATE = f"{API}.CREATE.{FED_LOG.stream}"
OWN, OTHERS, ALL = f"muster.fed.federation.{CELL}.>", "muster.fed.federation.west.>", "muster.fed.>"
MISMATCH, SEVERAL_FILTERS = 10131, 10137
ANSWERS = "$JSC.R.asked"


class Asker:
    """Asks the centre for consumers of FED, with `config` beside what every consumer here has."""

    def __init__(self, cell: Client) -> None:
        self._cell = cell
        self._answers: dict[str, Json] = {}
        self._asked = 0

    async def open(self) -> None:
        """Wait until what may cross does, both ways."""
        await self._cell.subscribe(f"{ANSWERS}.*", cb=self._take)
        await until_async(self._own_is_answered)

    async def ask(self, path: str, **config: object) -> Json | None:
        """The answer; None if there is none, though one that was asked for later is there."""
        number = await self._send(path, config)
        assert await self._own_is_answered()
        return self._answers.get(number)

    async def _own_is_answered(self) -> bool:
        name = f"own-{self._asked}"
        number = await self._send(f"{CREATE}.{name}.{OWN}", {"name": name, "filter_subject": OWN})
        try:
            async with asyncio.timeout(5.0):
                while number not in self._answers:  # noqa: ASYNC110 - a callback fills them
                    await asyncio.sleep(0.01)
        except TimeoutError:
            return False
        return "config" in self._answers[number]

    async def _send(self, path: str, config: Json) -> str:
        self._asked += 1
        common = {"deliver_policy": "all", "ack_policy": "none", "deliver_subject": f"sync.{CELL}.x"}
        body = {"stream_name": FED_LOG.stream, "config": {**common, **config}}
        await self._cell.publish(path, json.dumps(body).encode(), reply=f"{ANSWERS}.{self._asked}")
        return str(self._asked)

    async def _take(self, message: Msg) -> None:
        self._answers[message.subject.rpartition(".")[2]] = json.loads(message.data)


@asynccontextmanager
async def _asking(brokers: Joined) -> AsyncIterator[Asker]:
    cell = await brokers.cell.connect(ANYBODY.name)
    try:
        asker = Asker(cell)
        await asker.open()
        yield asker
    finally:
        await cell.close()


@pytest.fixture
async def brokers(tmp_path: Path) -> AsyncIterator[Joined]:
    async with joined(tmp_path) as both:
        await both.bootstrap()
        yield both


async def test_a_cell_reads_nothing_of_fed_but_what_is_addressed_to_it(brokers: Joined) -> None:
    async with _asking(brokers) as asker:
        for path, config in (
            (CREATE, {}),
            (f"{CREATE}.x", {"name": "x"}),
            (f"{CREATE}.x.{ALL}", {"name": "x", "filter_subject": ALL}),
            (f"{CREATE}.x.{OTHERS}", {"name": "x", "filter_subject": OTHERS}),
            (f"{CREATE}.x.muster.fed.federation.*.>", {"name": "x", "filter_subject": "muster.fed.federation.*.>"}),
            (f"{API}.DURABLE.CREATE.{FED_LOG.stream}.x", {"durable_name": "x"}),
        ):
            assert await asker.ask(path, **config) is None, f"{path} crossed the link"


async def test_a_request_that_asks_for_more_than_it_is_named_for_is_refused(brokers: Joined) -> None:
    async with _asking(brokers) as asker:
        for config, code in (
            ({"filter_subject": ALL}, MISMATCH),
            ({"filter_subject": OTHERS}, MISMATCH),
            ({}, MISMATCH),
            ({"filter_subjects": [OWN, OTHERS]}, SEVERAL_FILTERS),
            ({"filter_subject": OWN, "filter_subjects": [ALL]}, SEVERAL_FILTERS),
        ):
            answer = await asker.ask(f"{CREATE}.x.{OWN}", name="x", **config)
            assert answer is not None
            error = answer["error"]
            assert isinstance(error, dict)
            assert error["err_code"] == code, config


async def test_a_cell_changes_no_consumer_that_the_centre_has_there(brokers: Joined) -> None:
    centre = await brokers.centre.connect(ANYBODY.name)
    config = {"durable_name": KEPT, "ack_policy": "explicit", "deliver_policy": "new", "filter_subjects": [ALL]}
    await jsapi.call(centre, f"CONSUMER.CREATE.FED.{KEPT}", {"stream_name": "FED", "config": config})
    async with _asking(brokers) as asker:
        taken = {**config, "name": KEPT, "filter_subject": OWN, "filter_subjects": None, "deliver_subject": None}
        assert await asker.ask(f"{CREATE}.{KEPT}.{OWN}", **taken) is None
    kept = json.loads(await jsapi.call(centre, f"CONSUMER.INFO.FED.{KEPT}"))["config"]
    assert kept.get("filter_subject", ALL) == kept.get("filter_subjects", [ALL])[0] == ALL
    await centre.close()
