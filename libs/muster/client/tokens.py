"""Sources of the token of a request: the caller, a file, or a program that prints one."""

import asyncio
import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from muster.client.errors import MusterError

COMMAND_S = 60.0
"""Timeout of a program that prints a token, in seconds; it may ask the user for input."""
KILLED_S = 2.0
"""Time to wait for the end of a killed program, in seconds; its child processes may keep the pipe open."""
TOKEN_CHARS_MAX = 16 * 1024


class TokenError(MusterError):
    """No token can be sent; the message names the file or program."""


class TokenSource(Protocol):
    """Supplies the token of a request."""

    async def token(self, *, refused: str = "") -> str:
        """Return the token. refused: a token that the gateway has just refused, to be renewed. Raises TokenError."""
        ...


class FixedToken:
    """A token that never changes."""

    def __init__(self, token: str) -> None:
        self._token = token

    async def token(self, *, refused: str = "") -> str:  # noqa: ARG002 - there is no other
        """Return the token."""
        return self._token


class FileToken:
    """The current content of a file: tokens of service accounts are renewed in their file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def token(self, *, refused: str = "") -> str:  # noqa: ARG002 - it is read anew every time
        """Return the file's content. Raises TokenError."""
        try:
            content = await asyncio.to_thread(self._path.read_text, encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise TokenError(f"token file {self._path} cannot be read: {error}") from error
        return checked(content, of=f"token file {self._path}")


class CommandToken:
    """The output of a program. It runs once, and again when the gateway refuses the token; without a shell.

    timeout_s: after which the program is killed.
    """

    def __init__(self, words: Sequence[str], *, timeout_s: float = COMMAND_S) -> None:
        if not words:
            raise TokenError("token command: give a program that prints a token")
        self._words = tuple(words)
        self._timeout_s = timeout_s
        self._token = ""
        self._running = asyncio.Lock()

    async def token(self, *, refused: str = "") -> str:
        """Return the program's output. Raises TokenError."""
        async with self._running:
            if not self._token or self._token == refused:
                self._token = checked(await self._printed(), of=f"token command {self._words[0]}")
            return self._token

    async def _printed(self) -> str:
        name = self._words[0]
        try:
            process = await asyncio.create_subprocess_exec(
                *self._words, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, limit=TOKEN_CHARS_MAX
            )
        except OSError as error:
            raise TokenError(f"token command {name} cannot be run: {error.strerror or error}") from error
        assert process.stdout is not None, "it was asked for"
        try:
            async with asyncio.timeout(self._timeout_s):
                printed = bytearray()
                while chunk := await process.stdout.read(TOKEN_CHARS_MAX):
                    printed += chunk
                    if len(printed) > TOKEN_CHARS_MAX + 2:  # with the end of line
                        raise TokenError(f"token command {name} prints more than {TOKEN_CHARS_MAX} bytes")
                status = await process.wait()
        except TimeoutError as error:
            raise TokenError(f"token command {name} did not end within {self._timeout_s:g} s") from error
        finally:
            if process.returncode is None:
                await _ended(process)
        if status != 0:
            raise TokenError(f"token command {name} failed with status {status}")
        return printed.decode("utf-8", errors="replace")


async def _ended(process: asyncio.subprocess.Process) -> None:
    """Kill a program and read its remaining output: with a full pipe, its end would not be reported."""
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(KILLED_S):
            while process.stdout is not None and await process.stdout.read(TOKEN_CHARS_MAX):
                pass
            await process.wait()


def checked(content: str, *, of: str) -> str:
    """Return a token that is valid in a header. of: its source, for errors. Raises TokenError."""
    token = content.strip()
    if not token or len(token) > TOKEN_CHARS_MAX or not token.isascii() or any(char <= " " for char in token):
        raise TokenError(f"{of} gives no token: expected one line of at most {TOKEN_CHARS_MAX} ASCII characters")
    return token
