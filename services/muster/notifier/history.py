"""Look up the story of a job: its facts in the logs, by their subjects; after a trim, its row."""

import asyncio
from typing import Protocol

import redis.exceptions
from nats.aio.client import Client
from pydantic import ValidationError
from redis.asyncio import Redis

from muster.bus.decode import Decoder
from muster.bus.jsapi import last_on_subject
from muster.bus.ports import ApiError, LogUnavailableError
from muster.core.fact import Fact
from muster.notifier.limits import REDIS_TIMEOUT_S
from muster.notifier.story import JobStory, places, story_of, story_of_row, with_run
from muster.schemas.readmodel import read_model
from muster.schemas.subjects import FED_LOG, LogName
from muster.schemas.views import JobView


class HistoryUnavailableError(Exception):
    """The history of a job cannot be read now, but may be later."""


class History(Protocol):
    """The history of jobs."""

    async def story(self, log: LogName, job_id: str, *, whole: bool) -> JobStory | None:
        """Return the job's story; None if it is unknown. whole: also how it ran. Raises HistoryUnavailableError."""
        ...

    @property
    def is_centre(self) -> bool:
        """Return whether clusters have brokers of their own, so that a log is trusted only for jobs of its cluster."""
        ...


class LogHistory:
    """Reads the log, which is authoritative; it is trimmed, so the start of a long job may only be in its row."""

    def __init__(self, client: Client, redis_url: str, *, is_centre: bool = False) -> None:
        """Create the history. redis_url: connected to only when needed. is_centre: of a center."""
        self._client = client
        self._is_centre = is_centre
        self._redis = Redis.from_url(
            redis_url, socket_timeout=REDIS_TIMEOUT_S, socket_connect_timeout=REDIS_TIMEOUT_S, max_connections=2
        )
        self._decoders: dict[LogName, Decoder] = {}

    async def story(self, log: LogName, job_id: str, *, whole: bool) -> JobStory | None:
        """Return the job's story; None if it is unknown. Raises HistoryUnavailableError."""
        asked = places(log, job_id, whole=whole, is_centre=self._is_centre)
        try:
            found = await asyncio.gather(*(self._fact(of, subject) for of, subject in asked))
        except (LogUnavailableError, ApiError) as error:
            raise HistoryUnavailableError(f"{log.stream}: {error}") from error
        story = story_of(fact for fact in found if fact is not None)
        if story is not None or not self._is_centre:
            return story or await self._row(log, job_id)
        story = await self._row(FED_LOG, job_id)
        if story is None or not whole or story.cluster != log.cluster:
            return story
        ran = await self._row(log, job_id)
        return story if ran is None else with_run(story, ran)

    @property
    def is_centre(self) -> bool:
        """Return whether this is a center."""
        return self._is_centre

    async def close(self) -> None:
        """Close the connection to Redis; the bus connection belongs to the caller."""
        await self._redis.aclose()

    async def _fact(self, log: LogName, subject: str) -> Fact | None:
        stored = await last_on_subject(self._client, log.stream, subject)
        if stored is None:
            return None
        decoder = self._decoders.setdefault(log, Decoder(log))
        fact = decoder.decode(stored.subject, stored.headers, stored.body, seq=stored.seq, time=stored.time)
        return fact if isinstance(fact, Fact) else None

    async def _row(self, log: LogName, job_id: str) -> JobStory | None:
        try:
            row = await self._redis.hget(read_model(log).key("jobs"), job_id)
            return None if row is None else story_of_row(JobView.model_validate_json(row))
        except (redis.exceptions.RedisError, OSError) as error:
            raise HistoryUnavailableError(f"the read model does not answer: {type(error).__name__}") from error
        except ValidationError as error:
            raise HistoryUnavailableError(
                f"the row of job {job_id} cannot be read: {error.errors()[0]['msg']}"
            ) from error
