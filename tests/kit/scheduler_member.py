"""The federation as the scheduler's tests play it: it gives jobs, wants them back, is heard or not."""

from kit.scheduler import CLUSTER, VirtualScheduler
from muster.core import Fact
from muster.schemas.facts.control import ClusterSummary
from muster.schemas.facts.federation import ContactLost, ContactRenewed, JobRecalled
from muster.schemas.facts.job import JobRouted
from muster.schemas.job import Job

LOST_AFTER_S, MARGIN_S = 100.0, 10.0


class MemberScheduler(VirtualScheduler):
    """A cluster of several."""

    def give(self, one: Job, *, assignment: int = 1, lost_after_s: float = 0.0, age_s: float = 0.0) -> None:
        routed = JobRouted(job=one, cluster=CLUSTER, assignment=assignment, lost_after_s=lost_after_s, age_s=age_s)
        self.write("federation", "job", one.id, "routed", routed, trace=one.trace)
        self.settle()

    def recall(self, one: Job, *, assignment: int = 1) -> Fact:
        return self._want(one, "recall-forwarded", assignment)

    def drop(self, one: Job, *, assignment: int = 1) -> Fact:
        return self._want(one, "drop-forwarded", assignment)

    def _want(self, one: Job, name: str, assignment: int) -> Fact:
        wanted = JobRecalled(assignment=assignment, reason="drained")
        fact = self.write("federation", "job", one.id, name, wanted, trace=one.trace)
        self.settle()
        return fact

    def summaries(self) -> list[ClusterSummary]:
        return [fact.payload for fact in self.log if fact.name == "summarised"]  # type: ignore[misc]

    def renew(self, number: int | None = None) -> None:
        """The federation answers a summary, the newest unless another is named."""
        known = self.summaries()[-1].number if number is None else number
        renewed = ContactRenewed(number=known, lost_after_s=LOST_AFTER_S, margin_s=MARGIN_S)
        self.write("federation", "cluster", CLUSTER, "contact-renewed", renewed)
        self.settle()

    def renew_later(self, seconds: float) -> None:
        """The federation is heard again after so long."""
        self.advance(seconds)
        self.renew()

    def lose_contact(self) -> None:
        self.write("agent", "cluster", CLUSTER, "contact-lost", ContactLost())
        self.settle()

    def of(self, one: Job) -> list[str]:
        """Names of the scheduler's own facts about the job."""
        return [fact.name for fact in self.log if fact.subject_id == one.id and fact.writer == "scheduler"]
