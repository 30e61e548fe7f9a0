"""What a cell's credential, with every right on the cell's own broker, is no good for: the centre's logs and other
cells. Tried on real nats-servers.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.errors import NoServersError

from kit.stack.leaf import ANYBODY, CELL, Joined, joined
from kit.waiting import until_async
from muster.bus import jsapi
from muster.bus.leaf import cell_user_name
from muster.bus.names import CENTRE_DOMAIN, api_of, telemetry_stream
from muster.schemas.subjects import FED_LOG

pytestmark = pytest.mark.connected

OWN = f"muster.fed.federation.{CELL}.>"
CREATE = f"{api_of(CENTRE_DOMAIN)}.CONSUMER.CREATE.{FED_LOG.stream}.mine.{OWN}"
ASKED = {
    "stream_name": FED_LOG.stream,
    "config": {
        "name": "mine",
        "filter_subject": OWN,
        "deliver_policy": "all",
        "ack_policy": "none",
        "deliver_subject": f"sync.{CELL}.mine",
    },
}
OWN_ANSWER = "$JSC.R.mine"


class Intruder:
    """Listens in the cell. record_attempt: subjects, in order."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.record_attempt: list[str] = []

    async def listen(self, *subjects: str) -> None:
        for subject in subjects:
            await self.client.subscribe(subject, cb=self._take)
        await self.client.flush()

    async def ask(self, *, reply: str) -> None:
        """The one request to the centre that a cell may make, with an answer where it likes."""
        await self.client.publish(CREATE, json.dumps(ASKED).encode(), reply=reply)
        await self.client.flush()

    async def is_answered(self) -> bool:
        """Whether the request and what came before it have crossed, there and back."""
        await self.ask(reply=OWN_ANSWER)
        await asyncio.sleep(0.1)  # a round trip; who asks again looks again
        return OWN_ANSWER in self.record_attempt

    async def _take(self, message: Msg) -> None:
        self.record_attempt.append(message.subject)
        if message.reply.startswith("_R_."):
            await message.respond(b"forged")


@pytest.fixture
async def brokers(tmp_path: Path) -> AsyncIterator[Joined]:
    async with joined(tmp_path) as both:
        await both.bootstrap()
        yield both


@pytest.fixture
async def intruder(brokers: Joined) -> AsyncIterator[Intruder]:
    client = await brokers.cell.connect(ANYBODY.name)
    yield Intruder(client)
    await client.close()


@pytest.fixture
async def centre(brokers: Joined) -> AsyncIterator[Client]:
    client = await brokers.centre.connect(ANYBODY.name)
    yield client
    await client.close()


async def test_an_answer_of_the_centres_broker_is_stored_in_no_log(intruder: Intruder, centre: Client) -> None:
    """Else whoever may ask chooses by the reply subject where something is stored: a fence, a job that is submitted."""
    await intruder.listen(OWN_ANSWER)
    for subject in (
        "muster.fed.federation.fence",
        "muster.fed.gateway._.job.X.submitted",
        "muster.fed.federation._.job.X.job-ended",
        f"muster.fed.federation.{CELL}.job.X.routed",
        "dead.FED.1",
    ):
        await intruder.ask(reply=subject)
    await until_async(intruder.is_answered)
    for stream in (FED_LOG.stream, "DEAD"):
        info = await jsapi.stream_info(centre, stream)
        assert info is not None
        assert info.state.messages == 0, stream


async def test_a_reading_is_acknowledged_to_no_log(intruder: Intruder, centre: Client) -> None:
    """What a cell says to whoever listens brings its reply subject along, and a stream keeps readings."""
    await intruder.listen(OWN_ANSWER)
    readings, subject = telemetry_stream(CELL), f"telemetry.{CELL}.n1"

    async def is_kept() -> bool:
        await intruder.client.publish(subject, b"{}", reply="muster.fed.federation.fence")
        await intruder.client.flush()
        return await jsapi.last_on_subject(centre, readings, subject) is not None

    await until_async(is_kept)
    await until_async(intruder.is_answered)
    info = await jsapi.stream_info(centre, FED_LOG.stream)
    assert info is not None
    assert info.state.messages == 0


async def test_answers_to_others_are_not_heard(intruder: Intruder, centre: Client) -> None:
    """They name the consumers of other cells, and who knows a name can have that consumer deliver something else."""
    await intruder.listen("$JSC.R.>", "_R_.>", "_INBOX.>")
    for subject in ("$JSC.R.west", "_R_.west", "_INBOX.federation.x"):
        await centre.publish(subject, b"for somebody else")
    await centre.flush()
    await until_async(intruder.is_answered)
    assert not [subject for subject in intruder.record_attempt if "west" in subject or "federation" in subject]


async def test_questions_to_the_centres_own_services_reach_no_cell(brokers: Joined, intruder: Intruder) -> None:
    """The federation of a centre is asked in the name of its first cluster."""
    await intruder.listen(f"query.{CELL}.>")
    asking = await brokers.centre.connect("gateway-query")

    async def answered(service: str) -> bool:
        try:
            return bool((await asking.request(f"query.{CELL}.{service}.routes", b"{}", timeout=0.5)).data)
        except NatsError:
            return False

    await until_async(lambda: answered("scheduler"))
    intruder.record_attempt.clear()
    assert not await answered("federation")
    assert not await answered("projector")
    assert intruder.record_attempt == []
    await asking.close()


async def test_nothing_of_another_cell_can_be_said(intruder: Intruder, centre: Client) -> None:
    record_attempt: set[str] = set()
    own = {f"telemetry.{CELL}.n1", f"logs.{CELL}.J", f"copy.{CELL}.x", f"telemetry.{CELL}.last"}

    async def take(message: Msg) -> None:
        record_attempt.add(message.subject)

    for pattern in ("telemetry.>", "logs.>", "copy.>", "sync.>", "$JS.ACK.>", "view.>"):
        await centre.subscribe(pattern, cb=take)
    await centre.flush()

    async def own_is_heard() -> bool:
        for cluster in ("west", CELL):  # its own last, so what comes before it has crossed, or never will
            for subject in (f"telemetry.{cluster}.n1", f"logs.{cluster}.J", f"copy.{cluster}.x"):
                await intruder.client.publish(subject, b"forged")
        for subject in (f"sync.{CELL}.x", "$JS.ACK.FED.x", f"view.{CELL}.public.x", f"telemetry.{CELL}.last"):
            await intruder.client.publish(subject, b"forged")
        await intruder.client.flush()
        return own <= record_attempt

    await until_async(own_is_heard)
    assert record_attempt == own


async def test_the_credential_is_good_for_a_broker_and_for_no_client(brokers: Joined) -> None:
    with pytest.raises((NatsError, NoServersError)):
        await brokers.centre.connect(cell_user_name(CELL), max_reconnect_attempts=0)
