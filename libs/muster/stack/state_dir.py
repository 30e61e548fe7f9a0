"""The state directory: its layout, its marker file, and the lock that restricts it to one stack.

Layout: settings.json and token (0600); creds/<user>.creds and keys/ (0600); nats/{nats-server.conf,store/}; redis/;
logs/<child>.log; run/{lock,<child>.pid,endpoints.json}.
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
LOCK_TRIES = 10  # `muster status` holds the lock for an instant to check whether it is free
LOCK_PAUSE_S = 0.02
_MARKER_TEXT = "A state directory of Muster. `muster up --fresh` empties a directory only where this file stands.\n"


class StateDirError(Exception):
    """The state directory cannot be used as requested."""


class NotAStateDirError(StateDirError):
    """The directory contains files that Muster did not create."""


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that uses a state directory."""

    pid: int
    since_s: int
    """Seconds since the Unix epoch."""
    command: str
    """The command that started it."""


class StateDirLockedError(StateDirError):
    """Another process uses this state directory; `holder` is None if it has not written its name yet."""

    def __init__(self, path: Path, holder: Holder | None) -> None:
        self.path = path
        self.holder = holder
        who = f"process {holder.pid} ({holder.command}), since {_utc(holder.since_s)}" if holder else "another process"
        super().__init__(f"{path} is in use by {who}: stop it with `muster down --state-dir {path}`, or use another")


def default_state_dir(environment: Mapping[str, str], *, home: Path) -> Path:
    """Return `$XDG_STATE_HOME/muster`, or `~/.local/state/muster` (XDG Base Directory Specification 0.8)."""
    base = environment.get("XDG_STATE_HOME", "")
    return (Path(base) if base and Path(base).is_absolute() else home / ".local" / "state") / "muster"


@dataclass(frozen=True, slots=True)
class StateDir:
    """Paths of one state directory."""

    path: Path

    @property
    def settings(self) -> Path:
        """Return the path of the services' settings."""
        return self.path / "settings.json"

    @property
    def token(self) -> Path:
        """Return the path of the admin's API token."""
        return self.path / "token"

    @property
    def creds(self) -> Path:
        """Return the directory with one file per NATS user."""
        return self.path / "creds"

    @property
    def keys(self) -> Path:
        """Return the directory of nkeys, which are created once."""
        return self.path / "keys"

    @property
    def nats(self) -> Path:
        """Return the directory of nats-server's configuration and store."""
        return self.path / "nats"

    @property
    def redis(self) -> Path:
        """Return the directory of Redis's configuration."""
        return self.path / "redis"

    @property
    def logs(self) -> Path:
        """Return the directory of the children's logs."""
        return self.path / "logs"

    @property
    def run(self) -> Path:
        """Return the directory of state that is valid only while a stack runs (and of its preferred ports)."""
        return self.path / "run"

    @property
    def lock(self) -> Path:
        """Return the file that the running stack locks."""
        return self.run / "lock"

    @property
    def endpoints(self) -> Path:
        """Return the file with the stack's addresses."""
        return self.run / "endpoints.json"

    def prepare(self) -> None:
        """Create the directory, readable by this user only.

        Raises NotAStateDirError if it contains foreign files, StateDirError if it cannot be created or read.
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
            raise NotAStateDirError(f"{self.path} has no {MARKER}: nothing was removed")
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
    """The kernel's lock on `run/lock`, which ends with the process that holds it."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    @classmethod
    def acquire(cls, state: StateDir, *, holder: Holder) -> "StateDirLock":
        """Take the lock. Raises StateDirLockedError, which names the holder."""
        file = os.fdopen(os.open(state.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+")
        if not any(_try_lock(file, attempt) for attempt in range(LOCK_TRIES)):
            with file:
                raise StateDirLockedError(state.path, _holder(file.read()))
        file.truncate()
        file.write(json.dumps(asdict(holder)))
        file.flush()
        return cls(file)

    def release(self) -> None:
        """Release the lock."""
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
    """Return the lock's holder; None if it is free. Raises StateDirLockedError if the holder's name is missing."""
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
        return None  # it has the lock, but has not written its name yet


def _utc(seconds: int) -> str:
    return dt.datetime.fromtimestamp(seconds, dt.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
