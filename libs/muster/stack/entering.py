"""Preparation of a broker before services start: the streams, and the admin's token."""

import asyncio
import base64
import os

import nats.errors
from nats.aio.client import Client

from muster.bus.access import BOOTSTRAP
from muster.bus.connection import connect_once
from muster.bus.ports import LogUnavailableError
from muster.bus.settings import Settings
from muster.bus.streams import bootstrap
from muster.schemas.access import TOKENS_BUCKET, Role, TokenRecord, token_hash

ADMIN = "admin"
TOKEN_BYTES = 32
ENTER_S_MAX = 10
BROKER_POLL_S = 0.25


class NoBrokerError(Exception):
    """The broker did not answer in time."""


def new_secret() -> str:
    """Return 256 random bits, as letters, digits, `-` and `_`."""
    return base64.urlsafe_b64encode(os.urandom(TOKEN_BYTES)).rstrip(b"=").decode()


def new_token() -> str:
    """Return a new API token."""
    return f"muster_{new_secret()}"


async def enter(settings: Settings, *, token: str, patience_s: float = 0.0, alone: bool = False) -> None:
    """Create the streams and store the hash of the admin's token.

    patience_s: time to wait for a broker that is starting. alone: as in `bootstrap`. Raises NoBrokerError (with
    patience), CredentialsError, LogError; without patience OSError or nats.errors.Error.
    """
    connection = await _connected(settings, patience_s=patience_s)
    try:
        await _bootstrapped(connection, settings, alone=alone, patience_s=patience_s)
        record = TokenRecord(principal=ADMIN, role=Role.ADMIN).model_dump_json().encode()
        subject = f"$KV.{TOKENS_BUCKET}.{token_hash(token)}"
        await connection.jetstream().publish(subject, record, timeout=ENTER_S_MAX)
    finally:
        await connection.close()


async def _bootstrapped(connection: Client, settings: Settings, *, alone: bool, patience_s: float) -> None:
    """Create the streams. A starting server answers before it serves streams, so the request is repeated."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + patience_s
    while True:
        try:
            await bootstrap(connection, settings, alone=alone)
        except LogUnavailableError:
            if loop.time() >= until_s:
                raise
        else:
            return
        await asyncio.sleep(BROKER_POLL_S)


async def _connected(settings: Settings, *, patience_s: float) -> Client:
    if not patience_s:
        return await connect_once(settings, BOOTSTRAP)
    said = ""
    try:
        async with asyncio.timeout(patience_s):
            while True:
                try:
                    return await connect_once(settings, BOOTSTRAP)
                except (OSError, nats.errors.Error) as error:
                    said = str(error) or type(error).__name__
                await asyncio.sleep(BROKER_POLL_S)
    except TimeoutError:
        raise NoBrokerError(
            f"nats_url: {settings.nats_url} did not answer within {patience_s:g} s ({said}); is the broker running?"
        ) from None
