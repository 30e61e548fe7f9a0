"""Find the example files: in examples/ of the checkout, or in the copy of the wheel."""

import sys
from pathlib import Path

import muster.schemas as contract

QUEUES = "queues.yaml"
QUEUE_FILES = frozenset({QUEUES, "three-teams.yaml"})
DEVICE_FILES = frozenset({"composability-request.yaml"})
OTHER_FILES = QUEUE_FILES | DEVICE_FILES
"""Examples that are no jobs."""


def examples_directory() -> Path | None:
    """Return the directory of the example files, None if this installation has none."""
    roots = [Path(place).resolve().parents[2] for place in contract.__path__]
    for folder in (*(root / "examples" for root in roots), Path(sys.prefix) / "share" / "muster" / "examples"):
        if (folder / QUEUES).is_file():
            return folder
    return None


def job_files() -> tuple[Path, ...]:
    """Return the example job files by name."""
    folder = examples_directory()
    return tuple(path for path in sorted(folder.glob("*.yaml")) if path.name not in OTHER_FILES) if folder else ()


def queue_files() -> tuple[Path, ...]:
    """Return the example queue files by name."""
    folder = examples_directory()
    return tuple(path for path in sorted(folder.glob("*.yaml")) if path.name in QUEUE_FILES) if folder else ()


def device_files() -> tuple[Path, ...]:
    """Return the example ComposabilityRequests by name."""
    folder = examples_directory()
    return tuple(path for path in sorted(folder.glob("*.yaml")) if path.name in DEVICE_FILES) if folder else ()


def queue_file() -> Path | None:
    """Return the file of example queues, None if this installation has none."""
    folder = examples_directory()
    return folder / QUEUES if folder else None
