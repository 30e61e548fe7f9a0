"""Run commands as one MULTI ... EXEC, with one write and one read.

hiredis encodes the commands: the client's asynchronous side encodes in Python, which took a quarter of the
projection's cost.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import cast

import hiredis
from redis.asyncio import Redis
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import RedisError

from muster.projector.writer import Command


class ViewChangedError(RedisError):
    """Redis holds another sequence than this writer stored: it was emptied, or another writer is active."""


@dataclass(frozen=True, slots=True)
class Expected:
    """Required values of a hash's fields, from before a transaction until its end."""

    key: str
    fields: Mapping[str, bytes]


async def transact(redis: Redis, batch: Iterable[Command], *, expected: Expected | None = None) -> list[object]:
    """Run all commands or none; return their answers. After RedisError, OSError or TimeoutError the outcome is unknown.

    Raises ViewChangedError, without running any, if the expected values differ. A script could check that in one
    step, but the embedded Redis permits no scripts (`muster.stack.redis_server`).
    """
    pack = cast("Callable[[Command], bytes]", hiredis.pack_command)  # its stub knows tuples of one only
    packed = [pack(command) for command in (("MULTI",), *batch, ("EXEC",))]
    connection = await redis.connection_pool.get_connection()  # type: ignore[no-untyped-call]
    try:
        if expected is not None:
            await _expect(connection, expected)
        await connection.send_packed_command(b"".join(packed))
        for _ in packed[:-1]:
            await connection.read_response()
        answers = cast("list[object] | None", await connection.read_response())
    except BaseException:
        await connection.disconnect(nowait=True)  # answers may be under way that no call would read
        raise
    finally:
        await redis.connection_pool.release(connection)
    if answers is None:
        raise ViewChangedError("another process wrote at the same time")
    for answer in answers:
        if isinstance(answer, RedisError):
            raise answer
    return answers


async def _expect(connection: AbstractConnection, expected: Expected) -> None:
    """Watch the key: any change of it from here on makes the transaction fail."""
    await connection.send_command("WATCH", expected.key)
    await connection.read_response()
    await connection.send_command("HMGET", expected.key, *expected.fields)
    found = await connection.read_response()
    if found != [*expected.fields.values()]:
        raise ViewChangedError(f"{expected.key} holds {found!r}, not {[*expected.fields.values()]!r}")
