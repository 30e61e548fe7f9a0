"""One signed HTTP request to a receiver, and its outcome. Nothing here is retried.

No redirect is followed: data of a team's jobs goes only to configured hosts. The body of a response is never logged,
since it may repeat the request.
"""

import asyncio
import logging
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http.cookiejar import CookieJar, DefaultCookiePolicy
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from muster.bus.clock import TimeSource
from muster.bus.settings import WebhookSettings
from muster.core.instant import NS_PER_S
from muster.notifier.limits import FILE_BYTES_MAX, RESPONSE_BYTES_MAX, WORDS_MAX
from muster.notifier.message import CONTENT_TYPE, Message
from muster.notifier.signing import HEADER_ID, HEADER_SIGNATURE, HEADER_TIMESTAMP, SecretError, parse_secrets, signature


class WebhookFileError(Exception):
    """A file that a webhook's settings name cannot be used."""


def address(webhook: WebhookSettings) -> str:
    """Return the URL of the receiver. Raises WebhookFileError."""
    if webhook.url is not None:
        return webhook.url
    assert webhook.url_file is not None, "the settings see to that one of the two is given"
    url = _read(webhook.url_file, field="url_file").strip()
    if not is_address(url):
        raise WebhookFileError(f"url_file: {webhook.url_file} holds no address that begins with https:// or http://")
    return url


def keys(webhook: WebhookSettings) -> tuple[bytes, ...]:
    """Return the signing keys; nothing if no secret is set. Raises WebhookFileError."""
    if webhook.secret is None:
        return ()
    try:
        return parse_secrets(_read(webhook.secret, field="secret"))
    except SecretError as error:
        raise WebhookFileError(f"secret: {webhook.secret}: {error}") from None


def is_address(url: str) -> bool:
    """Return whether this is one line with a scheme and a host."""
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and len(url.split()) == 1
    except ValueError:
        return False


def host(webhook: WebhookSettings) -> str:
    """Return the host of the receiver, without user and path, which are secret. Raises WebhookFileError."""
    parts = urlsplit(address(webhook))
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _read(path: Path, *, field: str) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
        text = content.decode()
    except OSError as error:
        raise WebhookFileError(f"{field}: {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise WebhookFileError(f"{field}: {path} is not text") from None
    if len(content) > FILE_BYTES_MAX:
        raise WebhookFileError(f"{field}: {path} is larger than {FILE_BYTES_MAX} bytes")
    return text


USER_AGENT = "muster-webhooks"


@dataclass(frozen=True, slots=True)
class Answer:
    """Response of a receiver. status: 0 without a complete response, then `error` is the reason. words: its text,
    printable."""

    status: int = 0
    error: str = ""
    retry_after_s: float | None = None
    took_s: float = 0.0
    words: str = ""

    @property
    def summary(self) -> str:
        """In words that hold no secret."""
        if self.error:
            return self.error
        if 300 <= self.status < 400:
            return f"{self.status}: redirects are not followed; set the url to where the receiver is"
        return f"the receiver answered {self.status}"


def new_client(*, connections: int) -> httpx.AsyncClient:
    """Connections to receivers: none follows a redirect, no proxy of the environment sees a message, and none keeps
    what a receiver would have repeated to it.
    """
    logging.getLogger("httpx").setLevel(logging.WARNING)  # its line per request would show addresses that are secrets
    return httpx.AsyncClient(
        verify=ssl.create_default_context(),
        trust_env=False,
        follow_redirects=False,
        timeout=None,  # noqa: S113 - every request has a deadline of its own, as a whole
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
        limits=httpx.Limits(max_connections=connections, max_keepalive_connections=connections),
    )


class Sender:
    """Posts messages."""

    def __init__(self, client: httpx.AsyncClient, time: TimeSource) -> None:
        self._client = client
        self._time = time

    async def send(self, webhook: WebhookSettings, message: Message) -> Answer:
        """Post once. What goes wrong is the answer; only a defect is raised."""
        started_s = self._time.monotonic_s()
        try:
            url, headers = await asyncio.to_thread(self._prepared, webhook, message)
            async with asyncio.timeout(webhook.timeout_s):
                status, retry_after, words = await self._exchange(url, headers, message.body)
        except WebhookFileError as error:
            return Answer(error=str(error))
        except (TimeoutError, httpx.TimeoutException):
            return Answer(error=f"no answer within {webhook.timeout_s:g} s", took_s=self._since(started_s))
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
            return Answer(
                error=f"the receiver cannot be reached: {type(error).__name__}", took_s=self._since(started_s)
            )
        after_s = retry_after_s(retry_after, now_s=self._time.wall() // NS_PER_S)
        return Answer(status, retry_after_s=after_s, took_s=self._since(started_s), words=words)

    def _prepared(self, webhook: WebhookSettings, message: Message) -> tuple[str, dict[str, str]]:
        """Address and headers, from files that may be new since the last attempt. Raises WebhookFileError."""
        timestamp_s = self._time.wall() // NS_PER_S
        headers = {
            "Content-Type": CONTENT_TYPE,
            "User-Agent": USER_AGENT,
            "Accept-Encoding": "identity",
            HEADER_ID: message.id,
            HEADER_TIMESTAMP: str(timestamp_s),
        }
        if signing := keys(webhook):
            headers[HEADER_SIGNATURE] = signature(
                signing, message_id=message.id, timestamp_s=timestamp_s, body=message.body
            )
        if message.trace:
            headers["traceparent"] = message.trace
        return address(webhook), headers

    async def _exchange(self, url: str, headers: dict[str, str], body: bytes) -> tuple[int, str, str]:
        request = self._client.build_request("POST", url, headers=headers, content=body)
        response = await self._client.send(request, stream=True)
        try:
            kept = bytearray()
            async for chunk in response.aiter_raw():  # undecoded: a small compressed answer can be a giant one
                kept += chunk[: RESPONSE_BYTES_MAX - len(kept)]
                if len(kept) >= RESPONSE_BYTES_MAX:
                    break
            words = "".join(one for one in kept.decode(errors="replace") if one.isprintable())
            return response.status_code, response.headers.get("Retry-After", ""), words[:WORDS_MAX]
        finally:
            await response.aclose()

    def _since(self, started_s: float) -> float:
        return self._time.monotonic_s() - started_s


def retry_after_s(value: str, *, now_s: int) -> float | None:
    """Seconds that a `Retry-After` asks for (RFC 9110, 10.2.3: a number, or a date); None if it says nothing."""
    value = value.strip()
    if value.isdecimal() and len(value) < 10:
        return float(value)
    try:
        until = parsedate_to_datetime(value)
        if until.tzinfo is None:
            until = until.replace(tzinfo=UTC)
        return max(0.0, (until - datetime.fromtimestamp(now_s, UTC)).total_seconds())
    except (ValueError, OverflowError):  # numbers that no date can hold: whatever a receiver sends ends no delivery
        return None
