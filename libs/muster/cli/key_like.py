"""Values that look like keys, in places that are kept for good. Pure."""

import math
import re
from collections import Counter
from collections.abc import Iterator

from muster.schemas.job import JobSpec

_KNOWN = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b|\bgh[pousr]_\w{20,}"
    r"|\bgithub_pat_\w{20,}|\bglpat-[\w-]{16,}"
    r"|\bsk-[\w-]{16,}|\bxox[abeoprs]-[\w-]{10,}|\bhf_\w{20,}|\bAIza[\w-]{30,}|\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{8,}"
)
_NAMED = re.compile(r"(?:^|_)(?:TOKEN|SECRET|PASSWORD|PASSWD|KEY|APIKEY|CREDENTIALS?)$", re.IGNORECASE)
_RANDOM = re.compile(r"[A-Za-z0-9+/=_-]{24,}")
_BITS_MIN = 4.0
"""Of each character, in a value that was drawn and not written."""


def warnings(spec: JobSpec) -> Iterator[str]:
    """One line for each variable and command of the job that looks like it holds a key."""
    for name, value in spec.pod.env.items():
        if looks_like_key(name, value):
            yield (
                f"pod.env.{name} looks like a key, and what a job asks for is kept in the log for good; name a Secret "
                f"instead: --env-secret {name}=SECRET/KEY, or pod.secret_env in a file"
            )
    commands = [("command", spec.command)]
    commands += [(f"task_groups.{group.name}.command", group.command) for group in spec.task_groups]
    for place, words in commands:
        if any(_KNOWN.search(word) for word in words):
            yield f"{place} holds what looks like a key, and is kept in the log for good; pass it by --env-secret"


def looks_like_key(name: str, value: str) -> bool:
    """Whether the value of a variable of this name is probably a secret. A path or an address is none."""
    if _KNOWN.search(value):
        return True
    if not value or value.startswith(("/", "./", "~")) or "://" in value:
        return False
    return bool(_NAMED.search(name)) or _is_random(value)


def _is_random(value: str) -> bool:
    kinds = (str.islower, str.isupper, str.isdigit)
    if not _RANDOM.fullmatch(value) or not all(any(map(kind, value)) for kind in kinds):
        return False
    shares = [count / len(value) for count in Counter(value).values()]
    return -sum(share * math.log2(share) for share in shares) >= _BITS_MIN
