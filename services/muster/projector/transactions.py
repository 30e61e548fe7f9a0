"""One MULTI ... EXEC as one write and one read.

The commands are encoded by hiredis: the client's asynchronous side encodes in Python, about a quarter of the
projection's cost.
"""

from collections.abc import Callable, Iterable
from typing import cast

import hiredis
from redis.asyncio import Redis
from redis.exceptions import RedisError

from muster.projector.writer import Command


async def transact(redis: Redis, batch: Iterable[Command]) -> list[object]:
    """All commands or none; their answers. Raises RedisError, OSError, TimeoutError: then nobody knows which."""
    pack = cast("Callable[[Command], bytes]", hiredis.pack_command)  # its stub knows tuples of one only
    packed = [pack(command) for command in (("MULTI",), *batch, ("EXEC",))]
    connection = await redis.connection_pool.get_connection()  # type: ignore[no-untyped-call]
    try:
        await connection.send_packed_command(b"".join(packed))
        for _ in packed[:-1]:
            await connection.read_response()
        answers = cast("list[object]", await connection.read_response())
    except BaseException:
        await connection.disconnect(nowait=True)  # answers may be under way that nobody would read
        raise
    finally:
        await redis.connection_pool.release(connection)
    for answer in answers:
        if isinstance(answer, RedisError):
            raise answer
    return answers
