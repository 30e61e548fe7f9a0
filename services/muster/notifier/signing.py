"""Signatures of requests, after the Standard Webhooks specification (standardwebhooks.com, version 1). Pure.

Signed is `<id>.<timestamp>.<body>`; a signature is `v1,` and the base 64 of its HMAC-SHA256. Several are separated by
spaces, so that a receiver can change from one key to the next.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence

from muster.notifier.limits import SECRET_BYTES_MAX, SECRET_BYTES_MIN, SECRETS_MAX

PREFIX = "whsec_"
HEADER_ID = "webhook-id"
HEADER_TIMESTAMP = "webhook-timestamp"
HEADER_SIGNATURE = "webhook-signature"
_FORM = (
    f"a key is `{PREFIX}` and the base 64 of {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} random bytes, one a line, "
    f"at most {SECRETS_MAX}"
)


class SecretError(ValueError):
    """A text that should hold keys does not. The message never quotes it."""


def parse_secrets(text: str) -> tuple[bytes, ...]:
    """Return the keys of a secret file, one a line, without empty lines. Raises SecretError."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not 1 <= len(lines) <= SECRETS_MAX:
        raise SecretError(f"{len(lines)} lines: {_FORM}")
    return tuple(_key(line, number=number) for number, line in enumerate(lines, start=1))


def _key(line: str, *, number: int) -> bytes:
    if not line.startswith(PREFIX):
        raise SecretError(f"line {number} does not begin with `{PREFIX}`: {_FORM}")
    try:
        key = base64.b64decode(line.removeprefix(PREFIX), validate=True)
    except binascii.Error:
        raise SecretError(f"line {number} is not base 64: {_FORM}") from None
    if not SECRET_BYTES_MIN <= len(key) <= SECRET_BYTES_MAX:
        raise SecretError(f"line {number} holds {len(key)} bytes: {_FORM}")
    return key


def signature(keys: Sequence[bytes], *, message_id: str, timestamp_s: int, body: bytes) -> str:
    """Value of the header `webhook-signature`. timestamp_s: of this attempt, seconds since the Unix epoch."""
    signed = f"{message_id}.{timestamp_s}.".encode() + body
    digests = (hmac.new(key, signed, hashlib.sha256).digest() for key in keys)
    return " ".join(f"v1,{base64.b64encode(digest).decode()}" for digest in digests)
