"""`python -m muster.stack.healthy [--any] URL`: exits 0 if the URL returns 200 (--any: if it speaks HTTP at all).

For health checks of containers, which run every few seconds: it loads only a socket, and TLS for https. It sends no
secret, so it accepts any certificate: the certificate is for the public name.
"""

import socket
import sys
from collections.abc import Sequence

TIMEOUT_S = 3.0
_USAGE = 2


def answer_of(url: str) -> bytes:
    """Return the first line of the response to `GET url`, empty without one. Raises ValueError for an invalid URL."""
    scheme, _, rest = url.partition("://")
    where, _, path = rest.partition("/")
    host, _, port = where.partition(":")
    if scheme not in ("http", "https") or not host or not port.isdecimal():
        raise ValueError(f"{url!r}: write http://HOST:PORT/PATH or https://HOST:PORT/PATH")
    request = f"GET /{path} HTTP/1.0\r\nHost: {where}\r\n\r\n".encode()
    try:
        plain = socket.create_connection((host, int(port)), timeout=TIMEOUT_S)
        with plain, _over_tls(plain) if scheme == "https" else plain as line:
            line.sendall(request)
            return line.recv(256).split(b"\r\n", 1)[0]
    except OSError:
        return b""


def _over_tls(plain: socket.socket) -> socket.socket:
    """Open TLS without verification, since only the response's status is used."""
    import ssl  # noqa: PLC0415 - the import is slow, and most checks do not need it

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context.wrap_socket(plain)


def main(words: Sequence[str]) -> int:
    """Run the check and return the exit status."""
    wants_any, urls = "--any" in words, [word for word in words if word != "--any"]
    if len(urls) != 1:
        sys.stderr.write(f"{__doc__}\n")
        return _USAGE
    line = answer_of(urls[0])
    well = line.startswith(b"HTTP/") and (wants_any or line.split(b" ", 2)[1:2] == [b"200"])
    if not well:
        sys.stderr.write(f"{urls[0]}: {line.decode(errors='replace') or 'no answer'}\n")
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
