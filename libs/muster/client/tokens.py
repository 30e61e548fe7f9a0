"""Where the token of a request comes from: the caller, a file, or a program that prints one."""

import asyncio
import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from muster.client.errors import MusterError

COMMAND_S = 60.0
"""A program that prints tokens may ask a person something."""
KILLED_S = 2.0
"""Until the end of a program that was killed is known; one that it started may hold on to the pipe."""
TOKEN_CHARS_MAX = 16 * 1024


class TokenError(MusterError):
    """There is no token to send; the message names the file or program."""


class TokenSource(Protocol):
    """Gives the token that a request carries."""

    async def token(self, *, refused: str = "") -> str:
        """Return the token. refused: one that the gateway has just refused; another may be had. Raises TokenError."""
        ...


class FixedToken:
    """Always the same token."""

    def __init__(self, token: str) -> None:
        self._token = token

    async def token(self, *, refused: str = "") -> str:  # noqa: ARG002 - there is no other
        """Return the token."""
        return self._token


class FileToken:
    """What a file holds now: tokens of service accounts are renewed in their file."""

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
    """What a program prints. It runs once, and again when the gateway refuses the token; no shell is between.

    timeout_s: after which the program is ended.
    """

    def __init__(self, words: Sequence[str], *, timeout_s: float = COMMAND_S) -> None:
        if not words:
            raise TokenError("token command: give a program that prints a token")
        self._words = tuple(words)
        self._timeout_s = timeout_s
        self._token = ""
        self._running = asyncio.Lock()

    async def token(self, *, refused: str = "") -> str:
        """Return what the program printed. Raises TokenError."""
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
                    if len(printed) > TOKEN_CHARS_MAX + 2:  # with the end of the line
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
    """Kill a program, and read what it still printed: with a full pipe nobody would hear of its end."""
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(KILLED_S):
            while process.stdout is not None and await process.stdout.read(TOKEN_CHARS_MAX):
                pass
            await process.wait()


def checked(content: str, *, of: str) -> str:
    """Return a token as it may stand in a header. of: where it came from. Raises TokenError."""
    token = content.strip()
    if not token or len(token) > TOKEN_CHARS_MAX or not token.isascii() or any(char <= " " for char in token):
        raise TokenError(f"{of} gives no token: one line of at most {TOKEN_CHARS_MAX} ASCII characters is expected")
    return token
