"""Delivers the events of one log to one webhook: fetch an event, post it, and acknowledge or retry it.

Pure functions decide on an answer: jitter is a hash of the retried event. Labels of the metrics are the webhook's
name and the log; never an address or an id.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.client import JetStreamContext
from prometheus_client import Counter, Gauge, Histogram

from muster.bus.clock import SystemTime, TimeSource
from muster.bus.dead import letter
from muster.bus.decode import Dead, Decoder, position
from muster.bus.ports import ApiError, LogError
from muster.bus.requests import Outcome, publish
from muster.bus.settings import Settings, WebhookSettings
from muster.core.fact import Fact
from muster.core.instant import Instant, seconds_between
from muster.core.seeded import uniform
from muster.notifier.catalogue import event_of
from muster.notifier.consumer import Place, ensure, follow, look
from muster.notifier.events import AnyEvent, EventSource
from muster.notifier.history import History, HistoryUnavailableError, LogHistory
from muster.notifier.limits import (
    HISTORY_ATTEMPTS_MAX,
    IDLE_FETCH_S,
    JITTER,
    PAUSE_S_MAX,
    PAUSE_S_MIN,
    REFUSED_ATTEMPTS_MAX,
    RETRY_AFTER_S_MAX,
)
from muster.notifier.message import Message, make_message
from muster.notifier.sender import Answer, Sender, new_client
from muster.notifier.story import JobStory
from muster.schemas.registry import StreamRole

DELIVERIES = Counter("muster_webhook_deliveries", "Settled events, by outcome.", ("webhook", "outcome"))
"""outcome: delivered, dead, lost (dead, and its dead letter could not be stored), foreign (about a job of another
cluster), not-for-it (no recipient), unknown-job, unreadable.
"""
ATTEMPTS = Counter(
    "muster_webhook_attempts", "Requests to receivers, by the class of the answer.", ("webhook", "answer")
)
"""answer: 2xx, 3xx, 4xx, 5xx, or none."""
SECONDS = Histogram(
    "muster_webhook_attempt_seconds",
    "Duration of one request, in seconds.",
    ("webhook",),
    buckets=(0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0),
)
DELAY = Histogram(
    "muster_webhook_delay_seconds",
    "Time from the event to its delivery, in seconds.",
    ("webhook",),
    buckets=(0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0, 1_800.0, 7_200.0),
)
WAITING = Gauge("muster_webhook_waiting_events", "Events in the log that are not settled.", ("webhook", "log"))
STOPPED = Gauge(
    "muster_webhook_stopped", "1 while delivery is stopped because the receiver answered 410.", ("webhook",)
)


def answer_class(status: int) -> str:
    """Return the class of a status, such as `2xx`; `none` without an answer."""
    return f"{status // 100}xx" if status else "none"


GONE = 410
_BODY_IS_WRONG = frozenset({400, 413, 415, 422})
_SEED = 0


class Step(StrEnum):
    """The step after an attempt. STOP: the receiver refuses all further events."""

    DONE = "done"
    RETRY = "retry"
    BURY = "bury"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class Policy:
    """Number of attempts, and the pauses between them."""

    attempts_max: int
    backoff_s: float
    backoff_s_max: float


@dataclass(frozen=True, slots=True)
class Next:
    """The next step. delay_s: before the next attempt."""

    step: Step
    delay_s: float = 0.0


def next_step(
    status: int, *, attempt: int, message_id: str, policy: Policy, retry_after_s: float | None = None
) -> Next:
    """Return the step after attempt number `attempt` (from 1) with a status, 0 without an answer. 2xx is success.
    410 stops the webhook. 400, 413, 415 and 422 concern the message, so it is retried only a few times. All others
    may be temporary: an outage, a redirect that is not followed, an address or key that is being corrected."""
    if 200 <= status < 300:
        return Next(Step.DONE)
    if status == GONE:
        return Next(Step.STOP)
    attempts_max = min(policy.attempts_max, REFUSED_ATTEMPTS_MAX) if status in _BODY_IS_WRONG else policy.attempts_max
    if attempt >= attempts_max:
        return Next(Step.BURY)
    asked_s = min(retry_after_s or 0.0, RETRY_AFTER_S_MAX)
    return Next(Step.RETRY, max(asked_s, backoff_s(attempt, message_id=message_id, policy=policy)))


def backoff_s(attempt: int, *, message_id: str, policy: Policy) -> float:
    """Return the pause after attempt number `attempt`: doubled up to the maximum, with jitter."""
    doubled = min(policy.backoff_s_max, policy.backoff_s * 2.0 ** min(attempt - 1, 64))
    return doubled * (1.0 + JITTER * (2.0 * uniform(_SEED, message_id, attempt) - 1.0))


JOB = "job"
"""Kind of facts about one job."""

_logger = logging.getLogger(__name__)


class Posting(Protocol):
    """A sender of requests."""

    async def send(self, webhook: WebhookSettings, message: Message) -> Answer:
        """Send one request; failures are part of the answer."""
        ...


@dataclass(frozen=True)
class DeliveryPorts:
    """The dependencies shared by all deliveries."""

    client: Client
    history: History
    sender: Posting
    time: TimeSource
    dashboard_url: str = ""


@dataclass(frozen=True, slots=True)
class Offered:
    """An event as the broker delivered it. attempt: number of deliveries, from 1."""

    fact: Fact
    attempt: int
    raw: Msg


class Delivery:
    """Delivers the events of one log to one webhook. Run it as a task of its own."""

    def __init__(self, webhook: WebhookSettings, place: Place, ports: DeliveryPorts) -> None:
        self._webhook = webhook
        self._place = place
        self._ports = ports
        self._decoder = Decoder(place.log)
        self._policy = Policy(webhook.attempts_max, webhook.backoff_s, webhook.backoff_s_max)
        self._teams = frozenset(webhook.teams)
        self._waiting = WAITING.labels(webhook.name, place.log.stream)
        STOPPED.labels(webhook.name).set(0)

    async def run(self) -> None:
        """Deliver until the receiver answers 410. Failures of the broker are retried."""
        pause_s = PAUSE_S_MIN
        while True:
            try:
                await ensure(self._ports.client, self._place, self._webhook)
                events = await follow(self._ports.client, self._place)
                try:
                    pause_s = PAUSE_S_MIN
                    while await self._turn(events):
                        pass
                finally:
                    await events.unsubscribe()
            except (ApiError, LogError, nats.errors.Error) as error:
                _logger.warning("webhook %s: events of %s cannot be read now: %s", *self._names, error)
                await asyncio.sleep(pause_s)
                pause_s = min(PAUSE_S_MAX, 2 * pause_s)
            else:
                STOPPED.labels(self._webhook.name).set(1)
                _logger.error(
                    "webhook %s: the receiver answered 410, so no event of %s is sent until the notifier restarts; "
                    "remove the webhook from the settings, or correct its url", *self._names,
                )  # fmt: skip
                return

    @property
    def name(self) -> str:
        """Return the name of its task."""
        return f"webhook {self._webhook.name} {self._place.log.stream}"

    @property
    def _names(self) -> tuple[str, str]:
        return self._webhook.name, self._place.log.stream

    async def _turn(self, events: JetStreamContext.PullSubscription) -> bool:
        """Handle at most one event. Return False if the receiver stops the webhook. Raises errors of the broker."""
        loop = asyncio.get_running_loop()
        asked_s = loop.time()
        try:
            fetched = await events.fetch(1, timeout=IDLE_FETCH_S)
        except TimeoutError:
            await self._show_waiting()
            if loop.time() - asked_s < PAUSE_S_MIN:  # the fetch was refused, not idle
                await asyncio.sleep(PAUSE_S_MIN)
            return True
        try:
            _end_if_cancelled()
            return await self._handle(fetched[0])
        except asyncio.CancelledError:
            if not fetched[0].is_acked:
                await fetched[0].nak()  # another replica gets the event at once
            raise

    async def _show_waiting(self) -> None:
        state = await look(self._ports.client, self._place.log, self._webhook.name)
        if state is None:
            raise ApiError(0, f"the consumer of webhook {self._webhook.name} does not exist")
        self._waiting.set(state.waiting)

    async def _handle(self, raw: Msg) -> bool:
        offered = self._offered(raw)
        event = None if offered is None else event_of(self._webhook.events, offered.fact)
        if offered is None or event is None:
            return await self._done(raw, "unreadable")
        try:
            jobs, foreign = await self._jobs(event, offered)
            source = EventSource(offered.fact, jobs, self._teams, self._ports.dashboard_url, foreign)
            if (why_not := self._not_for_it(event, source)) is not None:
                return await self._done(raw, why_not)
            message = make_message(event, source, form=self._webhook.format)
        except HistoryUnavailableError as error:
            return await self._after(offered, Answer(error=str(error)), body=b"")
        except Exception as error:
            _logger.exception("webhook %s: no message can be made of event %s", self._webhook.name, offered.fact.id)
            return await self._after(offered, Answer(error=f"it cannot be told: {type(error).__name__}"), body=b"")
        answer = await self._ports.sender.send(self._webhook, message)
        ATTEMPTS.labels(self._webhook.name, answer_class(answer.status)).inc()
        SECONDS.labels(self._webhook.name).observe(answer.took_s)
        return await self._after(offered, answer, body=message.body)

    def _offered(self, raw: Msg) -> Offered | None:
        """Return the event; None if the message is not a fact (the log's readers move it to the dead letters)."""
        where = position(raw.reply)
        assert where is not None, f"{raw.reply} is no reply subject of a consumer"
        self._waiting.set(where.pending + 1)
        fact = self._decoder.decode(raw.subject, raw.headers, raw.data, seq=where.seq, time=where.time)
        return Offered(fact, raw.metadata.num_delivered, raw) if isinstance(fact, Fact) else None

    async def _jobs(self, event: AnyEvent, offered: Offered) -> tuple[dict[str, JobStory], frozenset[str]]:
        """Return the known jobs of the event, and at a center those that are not in this cluster.

        Raises HistoryUnavailableError while a retry may help; at a center always, since the event may be invented.
        """
        log, history = self._place.log, self._ports.history
        ids = tuple(dict.fromkeys(event.jobs(offered.fact)))
        try:
            found = await asyncio.gather(*(history.story(log, job_id, whole=event.whole) for job_id in ids))
        except HistoryUnavailableError:
            if history.is_centre or offered.attempt < min(HISTORY_ATTEMPTS_MAX, self._policy.attempts_max):
                raise
            return {}, frozenset()
        jobs = {story.id: story for story in found if story is not None}
        if not history.is_centre or log.role is StreamRole.FED:
            return jobs, frozenset()
        here = {job_id: story for job_id, story in jobs.items() if story.cluster == log.cluster}
        return here, frozenset(ids) - here.keys()

    def _not_for_it(self, event: AnyEvent, source: EventSource) -> str | None:
        """Return why the event is not sent, or None. A webhook with teams gets events of their jobs only."""
        fact, jobs = source.fact, source.jobs
        if fact.kind == JOB and fact.subject_id in source.foreign:
            _logger.warning(
                "webhook %s: cluster %s tells %s of job %s, which the federation has not given to it: not sent",
                self._webhook.name, fact.cluster, fact.name, fact.subject_id,
            )  # fmt: skip
            return "foreign"
        if not self._teams or any(job.team in self._teams for job in jobs.values()):
            return None
        if len(jobs) < len(set(event.jobs(fact)) - source.foreign):
            _logger.warning(
                "webhook %s: %s of %s is not sent, because the teams of its jobs are unknown",
                self._webhook.name, event.name, fact.subject_id,
            )  # fmt: skip
            return "unknown-job"
        return "not-for-it"

    async def _after(self, offered: Offered, answer: Answer, *, body: bytes) -> bool:
        """Settle an attempt."""
        fact, name = offered.fact, self._webhook.name
        following = next_step(
            answer.status, attempt=offered.attempt, message_id=fact.id, policy=self._policy,
            retry_after_s=answer.retry_after_s,
        )  # fmt: skip
        outcome = f"{fact.kind} {fact.subject_id} {fact.name}: attempt {offered.attempt}: {answer.summary}"
        match following.step:
            case Step.DONE:
                DELAY.labels(name).observe(max(0.0, seconds_between(fact.time, self._ports.time.wall())))
                return await self._done(offered.raw, "delivered")
            case Step.RETRY:
                _logger.warning("webhook %s: %s; retrying in %.1f s", name, outcome, following.delay_s)
                await offered.raw.nak(delay=following.delay_s)
                return True
            case Step.STOP:
                await offered.raw.nak()
                return False
            case Step.BURY:
                return await self._bury(offered, outcome, body)

    async def _bury(self, offered: Offered, outcome: str, body: bytes) -> bool:
        """Store one dead letter per webhook and event: its own subject expects to be empty."""
        fact = offered.fact
        stream = f"webhook.{self._webhook.name}.{self._place.log.stream}"
        dead = Dead(fact.seq, Instant(fact.time), offered.raw.subject, outcome)
        stored = await publish(self._ports.client, letter(stream, dead, {"webhook-id": fact.id}, body), expect_new=True)
        if stored.outcome is Outcome.UNAVAILABLE:
            await offered.raw.nak(delay=self._policy.backoff_s)
            return True
        if stored.outcome is Outcome.FULL:
            _logger.error("webhook %s: stream DEAD is full, so the event is lost: %s", self._webhook.name, outcome)
            return await self._done(offered.raw, "lost")
        _logger.error("webhook %s: given up, see `muster log dead`: %s", self._webhook.name, outcome)
        return await self._done(offered.raw, "dead")

    async def _done(self, raw: Msg, outcome: str) -> bool:
        DELIVERIES.labels(self._webhook.name, outcome).inc()
        await raw.ack()
        return True


def _end_if_cancelled() -> None:
    """Raise a cancellation that Python 3.11 loses in a reply that has just arrived."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


async def run_deliveries(client: Client, settings: Settings, places: Sequence[Place]) -> None:
    """Run a delivery for each place until cancelled. client: a connection of the notifier's user."""
    time = SystemTime()
    history = LogHistory(client, settings.redis_url, is_centre=settings.role == "centre")
    try:
        async with new_client(connections=len(places)) as http:
            ports = DeliveryPorts(client, history, Sender(http, time), time, settings.dashboard_url)
            by_name = {webhook.name: webhook for webhook in settings.webhooks}
            await _run_all([Delivery(by_name[place.webhook], place, ports) for place in places])
    finally:
        await history.close()


async def _run_all(deliveries: Sequence[Delivery]) -> None:
    """Run deliveries until cancelled: a delivery may end, the service does not. An error of one, a defect, ends all.

    Every cancellation is passed on: Python 3.11 loses one in an event that has just arrived, and the host repeats
    it.
    """
    tasks = [asyncio.create_task(delivery.run(), name=delivery.name) for delivery in deliveries]
    try:
        await asyncio.gather(*tasks, asyncio.Event().wait())
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
