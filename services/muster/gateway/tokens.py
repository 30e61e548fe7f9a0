"""Keep all tokens in memory, so that a request is authenticated by one look-up of a hash."""

import asyncio
import logging

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.errors import Error as JetStreamError
from nats.js.kv import KV_DEL, KV_OP, KV_PURGE, KeyValue
from pydantic import ValidationError

from muster.bus.jsapi import stream_info
from muster.bus.names import bucket_stream
from muster.bus.ports import LogCounters, LogError
from muster.bus.reader import RawReader
from muster.gateway.authorise import Principal
from muster.gateway.background import end_if_cancelled
from muster.gateway.ports import UnreachableError
from muster.schemas.access import TOKENS_BUCKET, TokenRecord, TokenView, token_hash

WATCH_RETRY_S = 1.0
WATCH_SILENT_S = 30.0
"""Time without messages after which a watch is restarted, in seconds: the broker may have lost it."""
_STREAM = bucket_stream(TOKENS_BUCKET)
_KEYS = f"$KV.{TOKENS_BUCKET}."

_log = logging.getLogger(__name__)


class TokenTable:
    """Tokens in memory. The comparison of hashes need not take constant time: a client cannot choose the hash."""

    def __init__(self) -> None:
        self._records: dict[str, TokenRecord] = {}
        self._principals: dict[str, Principal] = {}
        self.is_ready = False

    def principal(self, token_id: str) -> Principal | None:
        """Return the principal of the token with this id (its hash). The token may have expired."""
        return self._principals.get(token_id)

    def views(self) -> tuple[TokenView, ...]:
        """Return all tokens, by principal."""
        rows = sorted(self._records.items(), key=lambda item: (item[1].principal, item[0]))
        return tuple(TokenView(id=token_id, **record.model_dump()) for token_id, record in rows)

    def set(self, token_id: str, record: TokenRecord) -> TokenView:
        """Store a record under the token's hash."""
        self._records[token_id] = record
        self._principals[token_id] = Principal(
            record.principal, record.role, frozenset(record.teams), record.expires_at_s
        )
        return TokenView(id=token_id, **record.model_dump())

    def drop(self, token_id: str) -> bool:
        """Remove a token; return False if it is unknown."""
        self._principals.pop(token_id, None)
        return self._records.pop(token_id, None) is not None


class NatsTokens(TokenTable):
    """The KV bucket `tokens`: writes go through to it, and a watch receives the writes of other gateways."""

    def __init__(self, client: Client, *, silent_s: float = WATCH_SILENT_S) -> None:
        super().__init__()
        self._client = client
        self._silent_s = silent_s

    async def put(self, token: str, record: TokenRecord) -> TokenView:
        """Store a token for its principal. Raises UnreachableError."""
        token_id = token_hash(token)
        try:
            await (await self._bucket()).put(token_id, record.model_dump_json().encode())
        except (nats.errors.Error, JetStreamError, OSError) as error:
            raise UnreachableError(f"the token was not stored: {error}") from error
        return self.set(token_id, record)

    async def delete(self, token_id: str) -> bool:
        """Revoke a token; return False if it does not exist. Raises UnreachableError."""
        was_known = token_id in self._records  # the watch may see the deletion before the broker answers
        try:
            await (await self._bucket()).delete(token_id)
        except (nats.errors.Error, JetStreamError, OSError) as error:
            raise UnreachableError(f"the token was not revoked: {error}") from error
        return self.drop(token_id) or was_known

    async def watch(self) -> None:
        """Follow the bucket until cancelled; restart a broken or silent watch and drop tokens that no longer exist."""
        while True:
            end_if_cancelled()
            try:
                await self._follow()
            except (nats.errors.Error, JetStreamError, LogError, OSError) as error:
                _log.warning("the token watch failed: %s; retrying in %.1f s", error, WATCH_RETRY_S)
            await asyncio.sleep(WATCH_RETRY_S)

    async def _follow(self) -> None:
        """Read the bucket with a pull consumer: a push consumer would deliver in the account of the streams."""
        raw = RawReader(self._client, _STREAM, after_seq=0, counters=LogCounters())
        seen: set[str] = set()
        try:
            await raw.open()
            info = await stream_info(self._client, _STREAM)
            head = info.state.last_seq if info is not None and info.state.messages else 0
            last_seq, is_whole = 0, False
            while True:
                end_if_cancelled()
                if not is_whole and last_seq >= head:  # all records that existed at the start have been read
                    self.is_ready = is_whole = True
                    for token_id in self._records.keys() - seen:
                        self.drop(token_id)
                    seen.clear()
                if not await raw.fill(self._silent_s):
                    return
                taken = tuple(raw.waiting)
                for delivered in taken:
                    last_seq = delivered.at.seq
                    key = delivered.message.subject.removeprefix(_KEYS)
                    if not is_whole:
                        seen.add(key)
                    self._take(key, delivered.message)
                await raw.take(len(taken))
        finally:
            await raw.close()

    def _take(self, key: str, message: Msg) -> None:
        if (message.headers or {}).get(KV_OP) in (KV_DEL, KV_PURGE) or not message.data:
            self.drop(key)
            return
        try:
            self.set(key, TokenRecord.model_validate_json(message.data))
        except ValidationError as error:
            _log.warning("token %s… cannot be read and is not accepted: %s", key[:8], error)
            self.drop(key)

    async def _bucket(self) -> KeyValue:
        return await self._client.jetstream().key_value(TOKENS_BUCKET)
