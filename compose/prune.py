"""Names the installed distributions that one of them does not need, so that they can be uninstalled.

`python prune.py "gpumuster[server]"`, in an environment with the wheel and its build tools: what remains is what
the wheel runs with.
"""

import re
import sys
from importlib import metadata

from packaging.requirements import Requirement


def name_of(text: str) -> str:
    """A distribution's normalised name (PEP 503)."""
    return re.sub(r"[-_.]+", "-", text).lower()


def needed_by(root: str) -> set[str]:
    """The root and all that it requires here, extras included. Raises PackageNotFoundError if something is missing."""
    seen: set[tuple[str, str]] = set()
    wanted_root = Requirement(root)
    waiting = [(name_of(wanted_root.name), extra) for extra in ("", *wanted_root.extras)]
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        for text in metadata.requires(name) or ():
            required = Requirement(text)
            if required.marker is None or required.marker.evaluate({"extra": extra}):
                waiting += ((name_of(required.name), wanted) for wanted in ("", *required.extras))
    return {name for name, _ in seen}


def main(root: str) -> None:
    """Print what is not needed, a name per line."""
    installed = {name_of(found.metadata["Name"]) for found in metadata.distributions()}
    sys.stdout.write("".join(f"{name}\n" for name in sorted(installed - needed_by(root))))


if __name__ == "__main__":
    main(sys.argv[1])
