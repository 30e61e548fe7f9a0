"""The state directory: its layout, the marker that says it is ours, and the lock that lets one stack use it.

settings.json, token            0600
creds/<user>.creds, keys/       0600
nats/{nats-server.conf,store/}  redis/  logs/<child>.log
run/{lock,<child>.pid,endpoints.json}
"""

import datetime as dt
import fcntl
import json
import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TextIO

MARKER = ".muster-state"
LOCK_TRIES = 10  # `muster status` holds the lock for an instant to see whether it is free
LOCK_PAUSE_S = 0.02
_MARKER_TEXT = "A state directory of Muster. `muster up --fresh` empties a directory only where this file stands.\n"


class StateDirError(Exception):
    """The state directory cannot be used as asked."""


class NotAStateDirError(StateDirError):
    """The directory holds something that Muster did not put there."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Who uses a state directory. since: seconds since the Unix epoch. command: how it was started."""

    pid: int
    since_s: int
    command: str


class StateDirLockedError(StateDirError):
    """Another process uses this state directory; `holder` is None if it did not say yet who it is."""

    def __init__(self, path: Path, holder: Holder | None) -> None:
        self.path = path
        self.holder = holder
        who = f"process {holder.pid} ({holder.command}), since {_utc(holder.since_s)}" if holder else "another process"
        super().__init__(f"{path} is in use by {who}: stop it with `muster down --state-dir {path}`, or use another")


def default_state_dir(environment: Mapping[str, str], *, home: Path) -> Path:
    """`$XDG_STATE_HOME/muster`, or `~/.local/state/muster` (XDG Base Directory Specification 0.8)."""
    base = environment.get("XDG_STATE_HOME", "")
    return (Path(base) if base and Path(base).is_absolute() else home / ".local" / "state") / "muster"


@dataclass(frozen=True, slots=True)
class StateDir:
    """Paths of one state directory."""

    path: Path

    @property
    def settings(self) -> Path:
        """What services read."""
        return self.path / "settings.json"

    @property
    def token(self) -> Path:
        """The admin's API token."""
        return self.path / "token"

    @property
    def creds(self) -> Path:
        """One file per NATS user."""
        return self.path / "creds"

    @property
    def keys(self) -> Path:
        """nkeys, made once."""
        return self.path / "keys"

    @property
    def nats(self) -> Path:
        """nats-server's configuration and store."""
        return self.path / "nats"

    @property
    def redis(self) -> Path:
        """Redis' configuration."""
        return self.path / "redis"

    @property
    def logs(self) -> Path:
        """What children said."""
        return self.path / "logs"

    @property
    def run(self) -> Path:
        """What is true only while a stack runs (and the ports that it prefers next time)."""
        return self.path / "run"

    @property
    def lock(self) -> Path:
        """Locked by the stack that runs."""
        return self.run / "lock"

    @property
    def endpoints(self) -> Path:
        """Where the stack listens."""
        return self.run / "endpoints.json"

    def prepare(self) -> None:
        """Make the directory, readable by this user only.

        Raises NotAStateDirError if it holds foreign files, StateDirError if it cannot be made or read.
        """
        try:
            self._prepare()
        except OSError as error:
            raise StateDirError(
                f"{self.path} cannot be used ({error.strerror}): choose another with --state-dir"
            ) from error

    def _prepare(self) -> None:
        marker = self.path / MARKER
        if self.path.exists() and not marker.exists() and any(self.path.iterdir()):
            raise NotAStateDirError(
                f"{self.path} is not empty and not a state directory of Muster: choose another with --state-dir"
            )
        for directory in (self.path, self.creds, self.keys, self.nats, self.redis, self.logs, self.run):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path.chmod(0o700)
        marker.write_text(_MARKER_TEXT)

    def wipe(self) -> None:
        """Remove everything but the marker and the lock, which the caller holds. Raises NotAStateDirError."""
        if not (self.path / MARKER).is_file():
            raise NotAStateDirError(f"{self.path} carries no {MARKER}: nothing was removed")
        for entry in self.path.iterdir():
            if entry == self.run:
                for file in set(entry.iterdir()) - {self.lock}:
                    _remove(file)
            elif entry.name != MARKER:
                _remove(entry)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


class StateDirLock:
    """The kernel's lock on `run/lock`: it ends with the process that holds it, however that ends."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    @classmethod
    def acquire(cls, state: StateDir, *, holder: Holder) -> "StateDirLock":
        """Take the lock. Raises StateDirLockedError, which says who holds it."""
        file = os.fdopen(os.open(state.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+")
        if not any(_try_lock(file, attempt) for attempt in range(LOCK_TRIES)):
            with file:
                raise StateDirLockedError(state.path, _holder(file.read()))
        file.truncate()
        file.write(json.dumps(asdict(holder)))
        file.flush()
        return cls(file)

    def release(self) -> None:
        """Let the next one in."""
        self._file.seek(0)
        self._file.truncate()
        self._file.close()


def _try_lock(file: TextIO, attempt: int) -> bool:
    if attempt:
        time.sleep(LOCK_PAUSE_S)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def holder_of(state: StateDir) -> Holder | None:
    """Who holds the lock now; None if nobody does. Raises StateDirLockedError if the holder did not say who it is."""
    try:
        file = state.lock.open("r+")
    except FileNotFoundError:
        return None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _holder(file.read())
            if holder is None:
                raise StateDirLockedError(state.path, None) from None
            return holder
    return None


def _holder(text: str) -> Holder | None:
    try:
        fields = json.loads(text)
        return Holder(int(fields["pid"]), int(fields["since_s"]), str(fields["command"]))
    except (ValueError, KeyError, TypeError):
        return None  # it has the lock and is just about to write its name


def _utc(seconds: int) -> str:
    return dt.datetime.fromtimestamp(seconds, dt.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
