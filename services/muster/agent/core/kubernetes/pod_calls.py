"""What calls about the pods of attempts are for."""

from dataclasses import dataclass, field

from muster.agent.core.kubernetes.names import PodKey
from muster.agent.core.kubernetes.worklist import Purpose


@dataclass(frozen=True, slots=True)
class PodPurpose(Purpose):
    """Something is to be done about one pod."""

    pod: PodKey
    number: int = field(default=0, compare=False)
    """`LivePod.number`: of those that have this key in turn, only the one that asked is told."""


@dataclass(frozen=True, slots=True)
class CreatePod(PodPurpose):
    """Make its object."""


@dataclass(frozen=True, slots=True)
class ReadPod(PodPurpose):
    """Read the object of this name."""


@dataclass(frozen=True, slots=True)
class BindPod(PodPurpose):
    """Bind it to its node."""


@dataclass(frozen=True, slots=True)
class OpenPodGate(PodPurpose):
    """Let its first step begin."""


@dataclass(frozen=True, slots=True)
class EndPod(PodPurpose):
    """Have it end."""

    grace_s: int | None = field(default=None, compare=False)
    """None: it was not seen, and perhaps never made; what is there is taken away."""
