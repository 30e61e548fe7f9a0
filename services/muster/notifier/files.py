"""Addresses and keys that settings name by file. They are read for every request, so a new one needs no restart.

An error names the file and what is wrong with it, never what it holds.
"""

from pathlib import Path
from urllib.parse import urlsplit

from muster.bus.settings import WebhookSettings
from muster.notifier.limits import FILE_BYTES_MAX
from muster.notifier.signing import SecretError, parse_secrets


class WebhookFileError(Exception):
    """A file that a webhook's settings name cannot be used."""


def address(webhook: WebhookSettings) -> str:
    """Where to post. Raises WebhookFileError."""
    if webhook.url is not None:
        return webhook.url
    assert webhook.url_file is not None, "the settings see to that one of the two is given"
    url = _read(webhook.url_file, field="url_file").strip()
    if not is_address(url):
        raise WebhookFileError(f"url_file: {webhook.url_file} holds no address that begins with https:// or http://")
    return url


def keys(webhook: WebhookSettings) -> tuple[bytes, ...]:
    """What to sign with; nothing if no secret is set. Raises WebhookFileError."""
    if webhook.secret is None:
        return ()
    try:
        return parse_secrets(_read(webhook.secret, field="secret"))
    except SecretError as error:
        raise WebhookFileError(f"secret: {webhook.secret}: {error}") from None


def is_address(url: str) -> bool:
    """Whether this is one line with a scheme and a host."""
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and len(url.split()) == 1
    except ValueError:
        return False


def host(webhook: WebhookSettings) -> str:
    """Whom the webhook goes to, as far as it may be shown: neither path nor user. Raises WebhookFileError."""
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
