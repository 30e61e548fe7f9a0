"""Revoking a token where the watch of tokens hears of it before the broker has answered."""

from dataclasses import dataclass
from typing import cast

from nats.aio.client import Client
from nats.js.kv import KeyValue

from muster.gateway.tokens import NatsTokens
from muster.schemas.access import Role, TokenRecord, token_hash

RECORD = TokenRecord(principal="eve", role=Role.VIEWER)


@dataclass
class EagerBucket:
    """Deletes a key, and the watch takes note of it at once."""

    tokens: NatsTokens

    async def delete(self, key: str) -> None:
        self.tokens.drop(key)


class Tokens(NatsTokens):
    async def _bucket(self) -> KeyValue:
        return cast("KeyValue", EagerBucket(self))


async def test_a_token_that_the_watch_has_forgotten_meanwhile_was_revoked() -> None:
    tokens = Tokens(cast("Client", None))
    tokens.set(token_hash("eve"), RECORD)
    assert await tokens.delete(token_hash("eve"))
    assert not await tokens.delete(token_hash("eve"))
