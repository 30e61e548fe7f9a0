"""Serve the built dashboard from memory: its files, compressed once, and the headers that block foreign code."""

import gzip
import hashlib
import mimetypes
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

STATIC = Path(__file__).parent / "static"
INDEX = "index.html"
ASSETS = "assets/"
"""Names below this path hold a hash of the file, so a file never changes."""
FILE_BYTES_MAX = 16 * 1024 * 1024
COMPRESSED = ("text/", "application/javascript", "application/json", "application/manifest+json", "image/svg+xml")
FOREVER = "public, max-age=31536000, immutable"
ASK_AGAIN = "no-cache"

mimetypes.add_type("text/javascript", ".js")  # the table of the machine may differ, and browsers then refuse the script
mimetypes.add_type("image/svg+xml", ".svg")
mimetypes.add_type("application/manifest+json", ".webmanifest")


@dataclass(frozen=True, slots=True)
class File:
    """One file as it is served. packed: gzip, None if that is not smaller."""

    body: bytes
    packed: bytes | None
    media_type: str
    etag: str
    cache: str


@dataclass
class Site:
    """The files of the built dashboard, read at the first request and again after a new build."""

    directory: Path
    headers: Mapping[str, str]
    _files: dict[str, File] = field(default_factory=dict)
    _built: int = -1

    def file(self, name: str) -> File | None:
        """Return the file of this path; None if it does not exist. Raises OSError if a file cannot be read."""
        built = self._built_at()
        if built != self._built:
            self._files = {} if built < 0 else _files(self.directory)
            self._built = built
        return self._files.get(name)

    def _built_at(self) -> int:
        """Return a number that changes with every build; -1 without a build. A build writes the index last."""
        try:
            return (self.directory / INDEX).stat().st_mtime_ns
        except FileNotFoundError:
            return -1


def headers(websocket_url: str) -> dict[str, str]:
    """Return the headers of every answer: only own content and the broker, and no framing by other pages.

    websocket_url: URL of the broker for browsers, "" if there is none.
    """
    parts = urlsplit(websocket_url)
    broker = f" {parts.scheme}://{parts.netloc}" if parts.netloc else ""
    policy = {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "img-src": "'self'",
        "font-src": "'self'",
        "manifest-src": "'self'",
        "connect-src": f"'self'{broker}",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    return {
        "Content-Security-Policy": "; ".join(f"{name} {value}" for name, value in policy.items()),
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    }


def _files(directory: Path) -> dict[str, File]:
    return {
        path.relative_to(directory).as_posix(): _file(path, path.relative_to(directory).as_posix())
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.stat().st_size <= FILE_BYTES_MAX
    }


def _file(path: Path, name: str) -> File:
    media_type = mimetypes.guess_type(name)[0] or "application/octet-stream"
    return file_of(path.read_bytes(), media_type, cache=FOREVER if name.startswith(ASSETS) else ASK_AGAIN)


def file_of(body: bytes, media_type: str, *, cache: str = ASK_AGAIN) -> File:
    """Return a file that is served as these bytes, compressed once if that is smaller."""
    packed = gzip.compress(body, mtime=0) if media_type.startswith(COMPRESSED) else None
    return File(
        body,
        packed if packed is not None and len(packed) < len(body) else None,
        media_type,
        f'"{hashlib.sha256(body).hexdigest()[:32]}"',
        cache,
    )
