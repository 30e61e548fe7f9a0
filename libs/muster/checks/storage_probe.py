"""`python -m muster.checks.storage_probe PATH MIB`: write a file there, read it back, and remove it.

A separate process, because a call to a dead file server never returns. Exit code 0: it prints MB/s; 1: the content
differs, or the storage reports an error; 2: it could not be tried.
"""

import errno
import os
import sys
import time
from pathlib import Path

BLOCK = 1024 * 1024
BROKEN = frozenset({errno.EIO, errno.EROFS, errno.ENOSPC, errno.ESTALE, errno.EDQUOT})
PASSED, FAILED, UNABLE = 0, 1, 2


def probe(folder: Path, mib: int) -> tuple[int, str]:
    """Return the exit code, and the text to print."""
    file = folder / f".muster-preflight-{os.uname().nodename}-{os.getpid()}"
    began = time.monotonic()
    try:
        try:
            _write(file, mib)
            if not _reads_back(file, mib):
                return FAILED, "what was read is not what was written"
        finally:
            file.unlink(missing_ok=True)
    except OSError as error:
        words = f"{folder}: {error.strerror}"
        return (FAILED if error.errno in BROKEN else UNABLE), words
    return PASSED, f"{2 * mib * BLOCK / 1e6 / max(1e-6, time.monotonic() - began):.3f}"


def _block(number: int) -> bytes:
    """Return a block that differs from all others."""
    return number.to_bytes(8, "big") * (BLOCK // 8)


def _write(file: Path, mib: int) -> None:
    with file.open("wb", buffering=0) as out:
        for number in range(mib):
            out.write(_block(number))
        os.fsync(out.fileno())


def _reads_back(file: Path, mib: int) -> bool:
    with file.open("rb", buffering=0) as back:
        os.posix_fadvise(back.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)  # from the storage, not from memory
        return all(back.read(BLOCK) == _block(number) for number in range(mib)) and not back.read(1)


if __name__ == "__main__":
    code, words = probe(Path(sys.argv[1]), int(sys.argv[2]))
    sys.stdout.write(words + "\n")
    sys.exit(code)
