"""The built dashboard in memory: its files, compressed once, and the headers that keep strangers' code out of it."""

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
"""Here each name holds a hash of what is in the file, so it never changes."""
FILE_BYTES_MAX = 16 * 1024 * 1024
COMPRESSED = ("text/", "application/javascript", "application/json", "application/manifest+json", "image/svg+xml")
FOREVER = "public, max-age=31536000, immutable"
ASK_AGAIN = "no-cache"

mimetypes.add_type("text/javascript", ".js")  # what a machine's own table says may differ, and then nothing runs
mimetypes.add_type("image/svg+xml", ".svg")
mimetypes.add_type("application/manifest+json", ".webmanifest")


@dataclass(frozen=True, slots=True)
class File:
    """One file as it is answered. packed: gzip, None where that would not help."""

    body: bytes
    packed: bytes | None
    media_type: str
    etag: str
    cache: str


@dataclass
class Site:
    """The files of the built dashboard. They are read when they are first asked for, and again after a new build."""

    directory: Path
    headers: Mapping[str, str]
    _files: dict[str, File] = field(default_factory=dict)
    _built: int = -1

    def file(self, name: str) -> File | None:
        """The file of that path; None if there is none. Raises OSError where one cannot be read."""
        built = self._built_at()
        if built != self._built:
            self._files = {} if built < 0 else _files(self.directory)
            self._built = built
        return self._files.get(name)

    def _built_at(self) -> int:
        """Changes with every build; -1 while there is none. The index is what a build writes last."""
        try:
            return (self.directory / INDEX).stat().st_mtime_ns
        except FileNotFoundError:
            return -1


def headers(websocket_url: str) -> dict[str, str]:
    """Of every answer: nothing is loaded from, or shown within, anybody else's pages, and only the broker is spoken to.

    websocket_url: where browsers reach the broker, "" if they do not.
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
    """Return a file that is answered as these bytes, compressed once where that helps."""
    packed = gzip.compress(body, mtime=0) if media_type.startswith(COMPRESSED) else None
    return File(
        body,
        packed if packed is not None and len(packed) < len(body) else None,
        media_type,
        f'"{hashlib.sha256(body).hexdigest()[:32]}"',
        cache,
    )
