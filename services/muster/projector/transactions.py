"""One MULTI ... EXEC as one write and one read.

The commands are encoded by hiredis: the client's asynchronous side encodes in Python, about a quarter of the
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
    """Redis holds another sequence than this writer left there: it was emptied, or somebody else writes."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What fields of a hash must hold, before and until a transaction ends."""

    key: str
    fields: Mapping[str, bytes]


async def transact(redis: Redis, batch: Iterable[Command], *, expected: Expected | None = None) -> list[object]:
    """All commands or none; their answers. Raises RedisError, OSError, TimeoutError: then nobody knows which.

    Raises ViewChangedError, with none of them done, where something else is found than is expected. A script
    could decide that in one step; the embedded Redis lets nobody run one (`muster.stack.redis_server`).
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
        await connection.disconnect(nowait=True)  # answers may be under way that nobody would read
        raise
    finally:
        await redis.connection_pool.release(connection)
    if answers is None:
        raise ViewChangedError("somebody else wrote at the same time")
    for answer in answers:
        if isinstance(answer, RedisError):
            raise answer
    return answers


async def _expect(connection: AbstractConnection, expected: Expected) -> None:
    """Watch the key: whoever changes it from here on makes the transaction fail."""
    await connection.send_command("WATCH", expected.key)
    await connection.read_response()
    await connection.send_command("HMGET", expected.key, *expected.fields)
    found = await connection.read_response()
    if found != [*expected.fields.values()]:
        raise ViewChangedError(f"{expected.key} holds {found!r}, not {[*expected.fields.values()]!r}")
