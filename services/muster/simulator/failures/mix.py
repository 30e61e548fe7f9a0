"""What fails, how often, and what of it can be seen: the published mix as data.

Counts are those of Llama 3 405B's 54 days on 16,384 GPUs ("The Llama 3 Herd of Models", 2024, table 5): 419
interruptions that nobody planned, and 47 that were. What each shows, and what mends it, is ours to say: it is not told
there.
"""

from dataclasses import dataclass, replace
from enum import IntEnum, StrEnum

PUBLISHED_GPUS, PUBLISHED_DAYS = 16_384, 54.0
PUBLISHED_PLANNED = 47
PLANNED = "planned maintenance"


class Shown(StrEnum):
    """What an exporter's page shows of it. nothing: only the program ends. lost: the node does not answer."""

    NOTHING = "nothing"
    XID = "xid"
    WATCH = "watch"
    MISSING = "missing"
    PENDING = "pending"
    LOST = "lost"


class Mend(IntEnum):
    """The least that mends it. PERSON: nothing but another part, put in by somebody. NONE: nothing is broken."""

    NONE = 0
    RESET = 1
    REBOOT = 2
    PERSON = 3


@dataclass(frozen=True, slots=True)
class Sign:
    """One way in which a cause shows itself. share: of the cause's incidents. code: of Shown.XID; watch: of WATCH.

    dies_s: until the program ends of it, median; it does no work from the start. None: it goes on working. person:
    share that nothing but a person mends; what mends the others is `mend`. nodes: 0: all of the rack, at once.
    """

    shown: Shown
    share: float = 1.0
    code: int = 0
    watch: str = ""
    dies_s: float | None = 30.0
    mend: Mend = Mend.RESET
    person: float = 0.0
    nodes: int = 1


@dataclass(frozen=True, slots=True)
class Cause:
    """count: published, in 54 days on 16,384 GPUs."""

    name: str
    count: int
    signs: tuple[Sign, ...]


HANG_S = 600.0
"""A rank that is silent is missed when the collective's time limit is over: PyTorch's default for NCCL, 10 minutes."""
DIES_S = 30.0
"""A rank that fails ends the program: the error, its launcher, and the launchers of all others."""

_BUS = Sign(Shown.MISSING, 0.4, mend=Mend.REBOOT, person=0.6)
_LINK = Sign(Shown.XID, 0.3, code=74, person=0.5)
_STUCK = Sign(Shown.XID, 0.1, code=62, mend=Mend.REBOOT, person=0.5)
_GONE = Sign(Shown.WATCH, 0.2, watch="ALL", mend=Mend.REBOOT, person=0.6)
_NO_SIGN = Sign(Shown.NOTHING, dies_s=HANG_S, mend=Mend.PERSON, person=1.0)
_PORT = Sign(Shown.WATCH, watch="CONNECTX", dies_s=HANG_S, mend=Mend.PERSON)
_HOST = Sign(Shown.LOST, mend=Mend.PERSON)

MIX: tuple[Cause, ...] = (
    Cause("faulty GPU", 148, (_BUS, _LINK, _STUCK, _GONE)),
    Cause(
        "GPU HBM3 memory",
        72,
        (
            Sign(Shown.XID, 0.5, code=48, person=0.3),
            Sign(Shown.XID, 0.2, code=94, person=0.1),
            Sign(Shown.PENDING, 0.2, dies_s=None),
            Sign(Shown.XID, 0.1, code=64, mend=Mend.PERSON),
        ),
    ),
    Cause(
        "software bug",
        54,
        (Sign(Shown.XID, 0.5, code=31, mend=Mend.NONE), Sign(Shown.NOTHING, 0.5, mend=Mend.NONE)),
    ),
    Cause(
        "network switch or cable",
        35,
        (
            Sign(Shown.LOST, 0.2, mend=Mend.PERSON, nodes=0),
            Sign(Shown.NOTHING, 0.5, dies_s=HANG_S, mend=Mend.NONE),
            replace(_PORT, share=0.3),
        ),
    ),
    Cause("host maintenance", 32, (_HOST,)),
    Cause("GPU SRAM memory", 19, (Sign(Shown.XID, code=95, person=0.3),)),
    Cause("GPU system processor", 17, (Sign(Shown.XID, code=119, mend=Mend.REBOOT, person=0.3),)),
    Cause("NIC", 7, (_PORT,)),
    Cause("NCCL watchdog timeout", 7, (Sign(Shown.NOTHING, dies_s=HANG_S, mend=Mend.NONE),)),
    Cause("silent data corruption", 6, (_NO_SIGN,)),
    Cause("GPU thermal interface", 6, (Sign(Shown.WATCH, watch="THERMAL", dies_s=None, person=1.0),)),
    Cause("SSD", 3, (_HOST,)),
    Cause("power supply", 3, (_HOST,)),
    Cause("server chassis", 2, (_HOST,)),
    Cause("IO expansion board", 2, (Sign(Shown.WATCH, watch="PCIE", mend=Mend.REBOOT, person=1.0),)),
    Cause("dependency", 2, (Sign(Shown.NOTHING, mend=Mend.NONE),)),
    Cause("CPU", 2, (_HOST,)),
    Cause("system memory", 2, (_HOST,)),
)
PUBLISHED = sum(cause.count for cause in MIX)
"""419."""
RATE = PUBLISHED / (PUBLISHED_GPUS / 8 * PUBLISHED_DAYS) * 1000
"""Per 1,000 node-days: 3.79."""
