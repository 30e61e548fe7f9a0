"""Pin the public images that compose, the Dockerfile and k8s name by digest: a tag may mean another image tomorrow.

    python compose/pin_images.py           # what is not pinned; exit code 1 if anything is
    python compose/pin_images.py --write   # asks the registries, through `docker buildx imagetools`, and writes digests

A tag stays in front of its digest, for people. An image that is pinned already is left as it is.
"""

import argparse
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PATTERNS = ("compose/*.yaml", "compose/Dockerfile", "k8s/**/*.yaml")
NAMED = re.compile(
    r"^(?P<before>\s*(?:- )?image:\s*|ARG PYTHON_IMAGE=)(?P<image>[\w./-]+:[\w.-]+(?:@\S+)?)", re.MULTILINE
)
"""A public image has a tag. Muster's own is built or set by whoever installs it: `muster`, `${MUSTER_IMAGE...}`."""
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
ASK_S = 60

Resolve = Callable[[str], str]
"""From an image's name and tag to its digest. Raises ResolveError."""


class ResolveError(Exception):
    """Nobody could say which image a tag means now."""


def files(root: Path) -> Iterator[Path]:
    """Where images are named."""
    return (path for pattern in PATTERNS for path in sorted(root.glob(pattern)))


def unpinned(text: str) -> list[str]:
    """Images without a digest, in their order."""
    return [one["image"] for one in NAMED.finditer(text) if not _is_pinned(one["image"])]


def pinned(text: str, resolve: Resolve) -> str:
    """The same text with a digest behind each tag. Raises ResolveError."""

    def pin(found: re.Match[str]) -> str:
        image = found["image"]
        return found[0] if _is_pinned(image) else f"{found['before']}{image}@{resolve(image)}"

    return NAMED.sub(pin, text)


def ask_registry(image: str) -> str:
    """The digest of the tag, of all its platforms together. Raises ResolveError."""
    argv = ("docker", "buildx", "imagetools", "inspect", image, "--format", "{{.Manifest.Digest}}")
    try:
        answer = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=ASK_S)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ResolveError(f"{image}: docker could not be asked: {error}") from error
    digest = answer.stdout.strip()
    if answer.returncode or not DIGEST.fullmatch(digest):
        raise ResolveError(f"{image}: no digest from its registry: {(answer.stderr or answer.stdout).strip()[:500]}")
    return digest


def _is_pinned(image: str) -> bool:
    return DIGEST.fullmatch(image.partition("@")[2]) is not None


def main(arguments: list[str], *, root: Path = ROOT, resolve: Resolve = ask_registry) -> int:
    """Check, or write; the exit code. Nothing is written where one image has no answer."""
    parser = argparse.ArgumentParser(description="Pin public images by digest.")
    parser.add_argument("--write", action="store_true", help="Ask the registries and write the digests.")
    asked = parser.parse_args(arguments)
    texts = {path: path.read_text(encoding="utf-8") for path in files(root)}
    if not asked.write:
        loose = [(path, image) for path, text in texts.items() for image in unpinned(text)]
        for path, image in loose:
            sys.stderr.write(f"{path.relative_to(root)}: {image} has no digest; make pin-images writes it\n")
        return 1 if loose else 0
    digests: dict[str, str] = {}
    try:
        for image in dict.fromkeys(image for text in texts.values() for image in unpinned(text)):
            digests[image] = resolve(image)
    except ResolveError as error:
        sys.stderr.write(f"{error}; no file was changed\n")
        return 1
    for path, text in texts.items():
        if (changed := pinned(text, digests.__getitem__)) != text:
            path.write_text(changed, encoding="utf-8")
            sys.stdout.write(f"{path.relative_to(root)}: pinned\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
