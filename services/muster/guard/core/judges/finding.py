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
    """One thing that endangers the API servers. about: whom it concerns, "" for the cluster.

    degree: how bad it is; 1 raises advice, less than limits.BETTER clears it. figures: with their units last.
    """

    code: str
    degree: float
    detail: str
    cure: str
    about: str = ""
    severity: Literal["info", "warning", "critical"] = "warning"
    figures: tuple[tuple[str, float], ...] = ()

    @property
    def subject(self) -> str:
        """Subject id of the advice's facts; of a bounded alphabet, whatever a client calls itself."""
        if not self.about:
            return self.code
        return f"{self.code}-{hashlib.blake2b(self.about.encode(), digest_size=_HASH_BYTES).hexdigest()}"

    @property
    def payload(self) -> AdviceRaised:
        """As the log takes it."""
        figures = ((DEGREE, self.degree), *self.figures)
        return AdviceRaised(
            code=self.code,
            about=shown(self.about),
            severity=self.severity,
            detail=shown(self.detail),
            cure=shown(self.cure),
            figures=tuple(Figure(name=name, value=round(value, 3)) for name, value in figures),
        )


def degree_of(raised: AdviceRaised) -> float:
    """How bad it was said to be."""
    return next((figure.value for figure in raised.figures if figure.name == DEGREE), 1.0)


Judge = Callable[[Look, GuardConfig], Sequence[Finding] | None]
"""What it finds, the mild things too; None if it cannot tell from this look: then what stands, stands."""
