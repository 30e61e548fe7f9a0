"""Wishes of a cluster's objects, taken from its log with one durable consumer that all gateways share.

Each wish is acknowledged after its answer stands in FED. One that cannot be answered now is put back and comes again,
so nothing is lost while FED is full, or nobody tells which queues there are. Answering the same wish twice is answering
it once: job ids follow from the objects.
"""

import asyncio
import logging

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.client import JetStreamContext

from muster.bus import jsapi
from muster.bus.decode import Decoder, position
from muster.bus.logs import LineLimiter
from muster.bus.names import WORKLOADS_CONSUMER
from muster.bus.ports import ApiError, LogError
from muster.core.fact import Fact
from muster.core.instant import NS_PER_S
from muster.gateway.authority import Authority
from muster.gateway.background import end_if_cancelled
from muster.gateway.context import AppContext
from muster.gateway.declaration import DECLARATION
from muster.gateway.workload_answers import Answer, answer
from muster.schemas.subjects import LogName, fact_subject

CONSUMER = WORKLOADS_CONSUMER
LANES = 8
"""Wishes under way at a time, in one gateway."""
UNDER_WAY_MAX = 64
"""In all gateways together."""
ANSWER_S_MAX = 30.0
"""Then the broker offers the wish to somebody else: more than an append with all its repetitions takes."""
IDLE_FETCH_S = 5.0
PAUSE_S_MIN, PAUSE_S_MAX = 0.5, 10.0
"""Before a wish is offered again, and between attempts to get at them; doubled from one to the next."""
FOREIGN_TOLD_PER_S = 1
"""Lines about wishes that name what is not their cluster's. All are counted."""

_logger = logging.getLogger(__name__)


def consumer_config(log: LogName) -> dict[str, object]:
    """The consumer as it should be. A new one begins at the log's beginning: what waits there was never answered."""
    rows = DECLARATION.consumed
    wanted = (fact_subject(log, writer=row.writer, kind=row.kind, subject_id="*", name=row.name) for row in rows)
    return {
        "durable_name": CONSUMER,
        "description": "wishes of objects that stand for jobs",
        "deliver_policy": "all",
        "ack_policy": "explicit",
        "ack_wait": round(ANSWER_S_MAX * NS_PER_S),
        "max_deliver": -1,
        "max_ack_pending": UNDER_WAY_MAX,
        "filter_subjects": list(wanted),
    }


def pause_s(deliveries: int) -> float:
    """Before a wish that was offered so often is offered again."""
    return min(PAUSE_S_MAX, PAUSE_S_MIN * 2.0 ** min(deliveries - 1, 16))


class Workloads:
    """Follows one cluster's log. Run it as a task of its own."""

    def __init__(self, client: Client, log: LogName, context: AppContext, authority: Authority) -> None:
        self._client = client
        self._log = log
        self._context = context
        self._authority = authority
        self._decoder = Decoder(log)
        self._telling = LineLimiter(FOREIGN_TOLD_PER_S)

    async def run(self) -> None:
        """Answer until cancelled. What the broker cannot do now is tried again; all else that is raised is a defect."""
        rest_s = PAUSE_S_MIN
        while True:
            end_if_cancelled()
            try:
                await self._ensure()
                rest_s = PAUSE_S_MIN
                async with asyncio.TaskGroup() as lanes:
                    for number in range(LANES):
                        lanes.create_task(self._lane(), name=f"workloads {self._log.stream} {number}")
            except* (ApiError, LogError, nats.errors.Error) as errors:
                _logger.warning("no wishes of workloads from %s now: %s", self._log.stream, errors.exceptions[0])
            await asyncio.sleep(rest_s)
            rest_s = min(PAUSE_S_MAX, 2 * rest_s)

    async def _ensure(self) -> None:
        path = f"CONSUMER.CREATE.{self._log.stream}.{CONSUMER}"
        config = {"stream_name": self._log.stream, "config": consumer_config(self._log)}
        await jsapi.call(self._client, path, config)

    async def _lane(self) -> None:
        wishes = await self._client.jetstream().pull_subscribe_bind(consumer=CONSUMER, stream=self._log.stream)
        try:
            while True:
                await self._turn(wishes)
        finally:
            await wishes.unsubscribe()

    async def _turn(self, wishes: JetStreamContext.PullSubscription) -> None:
        """At most one wish."""
        loop = asyncio.get_running_loop()
        asked_s = loop.time()
        try:
            fetched = await wishes.fetch(1, timeout=IDLE_FETCH_S)
        except TimeoutError:
            end_if_cancelled()
            if await self._is_gone():
                raise ApiError(0, f"the consumer {CONSUMER} is gone") from None
            if loop.time() - asked_s < PAUSE_S_MIN:  # it was refused, not idle
                await asyncio.sleep(PAUSE_S_MIN)
            return
        end_if_cancelled()
        await self._handle(fetched[0])

    async def _is_gone(self) -> bool:
        try:
            await jsapi.call(self._client, f"CONSUMER.INFO.{self._log.stream}.{CONSUMER}")
        except ApiError as error:
            return error.err_code in (jsapi.NO_CONSUMER, jsapi.NO_STREAM)
        return False

    async def _handle(self, raw: Msg) -> None:
        where = position(raw.reply)
        assert where is not None, f"{raw.reply} is no reply subject of a consumer"
        fact = self._decoder.decode(raw.subject, raw.headers, raw.data, seq=where.seq, time=where.time)
        if not isinstance(fact, Fact):  # the log's readers bury it
            await raw.ack()
            return
        deliveries = raw.metadata.num_delivered
        answered = await answer(self._context, self._authority, fact, is_repeated=deliveries > 1)
        self._context.metrics.workloads.labels(answered.answer.value).inc()
        if answered.answer is Answer.AGAIN:
            _logger.warning("workload %s: %s is not answered now: %s", fact.subject_id, fact.name, answered.detail)
            await raw.nak(delay=pause_s(deliveries))
            return
        if answered.answer is Answer.FOREIGN:
            self._tell_foreign(fact, answered.detail)
        await raw.ack()

    def _tell_foreign(self, fact: Fact, detail: str) -> None:
        """Say it in the log, but never as often, nor in such words, as whoever writes the wishes may like."""
        if self._telling.allows(asyncio.get_running_loop().time()):
            more = f" ({left_out} more were not told)" if (left_out := self._telling.left_out()) else ""
            _logger.warning(
                "cluster %s asks for what is not its own: workload %s: %r%s",
                self._authority.cluster, fact.subject_id, detail, more,
            )  # fmt: skip
