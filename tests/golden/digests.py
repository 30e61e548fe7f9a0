"""Prints, as JSON, a digest of each service's state and next decisions after folding its golden log.

Run by a test in processes with other hash seeds: an order taken from a set would show.
"""

import json
import sys

from golden.folding import digest, folded, services_of
from golden.logs import LOGS, facts_of


def digests() -> dict[str, str]:
    """By stream and service."""
    found = {}
    for log in LOGS:
        facts = facts_of(log)
        for name, service in services_of(log).items():
            half, whole = folded(service, facts[: len(facts) // 2]), folded(service, facts)
            decided = [core.decide(facts[-1].time) for core in (half, whole)]
            found[f"{log.stream} {name}"] = digest((half, whole, decided))
    return found


if __name__ == "__main__":
    sys.stdout.write(json.dumps(digests()))
