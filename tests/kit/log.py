"""One service's core over a log in virtual time; a test writes what the other services write."""

from typing import Generic, TypeVar

from muster.core import NS_PER_S, Core, Fact, Instant
from muster.core.virtual import STEPS_MAX, VirtualCluster
from muster.schemas.base import Payload
from muster.schemas.registry import StreamRole

START = Instant(1_000_000 * NS_PER_S)
CLUSTER = "atlas"

CoreT = TypeVar("CoreT", bound=Core)


def a_fact(
    writer: str,
    kind: str,
    subject_id: str,
    name: str,
    payload: Payload,
    *,
    seq: int = 1,
    time: int | None = None,
    cluster: str = CLUSTER,
    trace: str = "",
    fact_id: str = "",
) -> Fact:
    """A fact that stands alone, as a fold that takes single facts is given it. time: its sequence, if None."""
    moment = Instant(seq if time is None else time)
    return Fact(fact_id or f"f{seq}", seq, moment, cluster, writer, kind, subject_id, name, (), trace, payload)


class VirtualService(VirtualCluster, Generic[CoreT]):
    """service: that the core is of. now, log, write, settle, advance: see VirtualCluster."""

    def __init__(
        self,
        service: str,
        core: CoreT,
        *,
        cluster: str = CLUSTER,
        start: Instant = START,
        role: StreamRole = StreamRole.LOG,
        steps_max: int = STEPS_MAX,
    ) -> None:
        super().__init__(cluster, start=start, cores={service: core}, role=role, steps_max=steps_max)
        self.service = service

    @property
    def core(self) -> CoreT:
        """The core under test; set it to let another one take its place."""
        return self.cores[self.service]  # type: ignore[return-value]

    @core.setter
    def core(self, core: CoreT) -> None:
        self.replace(self.service, core)

    def facts(self, name: str) -> list[Fact]:
        """All facts of a name, oldest first."""
        return [fact for fact in self.log if fact.name == name]

    def last(self, name: str, subject_id: str = "") -> Fact:
        """The newest fact of a name, if given about this subject."""
        found = (fact for fact in reversed(self.log) if fact.name == name and subject_id in ("", fact.subject_id))
        return next(found)
