"""An answer as a stream of lines: a watch, or a page of metrics that is never held whole."""

import asyncio
import ssl
from collections.abc import AsyncIterator

import aiohttp

from muster.kube.bounds import LINE_BYTES_MAX, READ_BYTES
from muster.kube.errors import Asked, KubeError, UnavailableError


class Lines:
    """Complete lines of one answer, in batches as they arrive. Bounded: one read and one unfinished line.

    silence_s: so long may pass without a byte; half-open connections look like this and nothing else tells of them.
    """

    def __init__(self, response: aiohttp.ClientResponse, *, asked: Asked, silence_s: float) -> None:
        self._content = response.content
        self._asked = asked
        self._silence_s = silence_s

    async def batches(self) -> AsyncIterator[list[bytes]]:
        """Never empty; ends where the answer ends. Raises UnavailableError if it breaks off or falls silent."""
        unfinished = bytearray()
        while chunk := await self._read():
            await asyncio.sleep(0)  # a full buffer is read without waiting, and the rest of the process lives too
            unfinished += chunk
            end = unfinished.rfind(b"\n")
            if len(unfinished) - end > LINE_BYTES_MAX:
                raise UnavailableError(
                    f"{self._asked}: a line is longer than {LINE_BYTES_MAX} bytes", asked=self._asked
                )
            if end < 0:
                continue
            complete = bytes(memoryview(unfinished)[:end])
            del unfinished[: end + 1]
            yield complete.split(b"\n")
        if unfinished:
            yield [bytes(unfinished)]

    async def _read(self) -> bytes:
        try:
            async with asyncio.timeout(self._silence_s):
                return await self._content.read(READ_BYTES)
        except TimeoutError as error:
            raise UnavailableError(
                f"{self._asked}: no byte in {self._silence_s:g} s; the connection may be half open", asked=self._asked
            ) from error
        except aiohttp.ClientError as error:
            raise UnavailableError(f"{self._asked}: the answer broke off: {error}", asked=self._asked) from error


def no_answer(asked: Asked, error: Exception, *, sent: bool) -> KubeError:
    """What a request without an answer stands for. sent: the server may have read it."""
    said = str(error) or type(error).__name__
    changes = asked.verb not in {"get", "list", "watch"}
    unknown = sent and changes
    hint = "it may have been done: look before repeating it" if unknown else "nothing was done"
    if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientConnectorSSLError | ssl.SSLError):
        hint = "check certificate-authority, tls-server-name and the server's address in the kubeconfig"
    return UnavailableError(
        f"{asked}: the API server cannot be reached: {said}; {hint}", asked=asked, effect_unknown=unknown
    )
