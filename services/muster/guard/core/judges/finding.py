"""What a judge finds, and how it becomes advice."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from muster.guard.core.config import GuardConfig
from muster.guard.core.look import Look
from muster.guard.core.words import shown
from muster.schemas.facts.guard import AdviceRaised, Figure

DEGREE = "degree"
"""Figure of every advice: how bad it is, 1 at what raises it."""
_HASH_BYTES = 5


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that endangers the API servers, with the advice that is given for it."""

    degree: float
    """How bad it is; 1 raises advice, less than limits.BETTER clears it."""
    subject: str
    """Subject id of the advice's facts; of a bounded alphabet, whatever a client calls itself."""
    advice: AdviceRaised
    """As the log takes it."""


def finding(
    *,
    code: str,
    degree: float,
    detail: str,
    cure: str,
    about: str = "",
    severity: Literal["info", "warning", "critical"] = "warning",
    figures: Sequence[tuple[str, float]] = (),
) -> Finding:
    """Return a finding. about: what it concerns, "" for the cluster. figures: names, with their units last, and values.

    Text of clients is made printable and cut to what a fact may hold.
    """
    about_hash = hashlib.blake2b(about.encode(), digest_size=_HASH_BYTES).hexdigest()
    advice = AdviceRaised(
        code=code,
        about=shown(about),
        severity=severity,
        detail=shown(detail),
        cure=shown(cure),
        figures=tuple(Figure(name=name, value=round(value, 3)) for name, value in ((DEGREE, degree), *figures)),
    )
    return Finding(degree, f"{code}-{about_hash}" if about else code, advice)


def degree_of(raised: AdviceRaised) -> float:
    """How bad it was said to be."""
    return next((figure.value for figure in raised.figures if figure.name == DEGREE), 1.0)


Judge = Callable[[Look, GuardConfig], Sequence[Finding] | None]
"""What it finds, the mild things too; None if it cannot tell from this look: then what stands, stands."""
