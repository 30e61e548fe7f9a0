"""End jobs that another cluster may be given, in time, when the federation is silent.

The agent emits `contact-lost` by its own clock, and folding it ends the pods: a deposed leader ends nothing, and its
successor ends the same pods. Pinned jobs, and jobs of clusters that are never given up, have no `lost_after_s` and are
ignored.
A full log accepts neither `contact-lost` nor a sign of life. Then the leader ends the pods without it after a while
(`end_unheard`); once the log has room, it gets `contact-lost` before the exits.
"""

from muster.agent.core.attempts import Attempts
from muster.agent.core.cluster import Cluster, DeletePods
from muster.agent.core.state import Attempt, JobRecord
from muster.core import Draft, Fact, Instant, after
from muster.core.contact import Contact
from muster.core.folding import Folds
from muster.schemas.facts.control import ClusterState, ClusterSummary
from muster.schemas.facts.federation import ContactLost, ContactRenewed, JobReturned

GRACE_SHARE = 0.5
"""Part of the margin that pods have to end. The rest is for clocks and messages."""

UNHEARD_SHARE = 0.25
"""Part of the margin after which `contact-lost` is no longer awaited. Pods that are ended without it have no grace,
so they are gone no later than with it, although a refused append is repeated only some seconds later."""


class Leases:
    """Limits the run time of jobs without contact to the federation."""

    FOLDS = Folds["Leases", bool]()

    def __init__(self, pods: Attempts) -> None:
        self._pods = pods
        self._contact = Contact()
        self._cluster = ""

    def restore(self, cluster: str, state: ClusterState) -> None:
        """Restore from the scheduler's part of a checkpoint."""
        self._cluster = cluster
        self._contact.restore(state.contact)

    def decide(self, now: Instant) -> list[Draft]:
        """Return `contact-lost` once the time is over."""
        contact = self._contact
        if not contact.is_over(now):
            return []
        lost = ContactLost(number=contact.number, until=contact.until)
        return [Draft("cluster", self._cluster, "contact-lost", lost)]

    def end_unheard(self, now: Instant, cluster: Cluster) -> int:
        """End the pods that a full log cannot tell to end; return the number of attempts. Only for the leader.

        It is an effect that changes no state (`contact-lost` does), and may be repeated.
        """
        contact = self._contact
        if not contact.is_over(now) or now < after(Instant(contact.until), UNHEARD_SHARE * contact.margin_s):
            return 0
        given = [job.pods for job in self._pods.jobs.values() if job.lost_after_s]
        ended = [pods for pods in given if pods is not None and not pods.ending_at]
        for pods in ended:
            cluster.carry_out(DeletePods(pods.job_id, pods.attempt, now))
        return len(ended)

    def next_change(self) -> Instant | None:
        """Return when the time is over, if the federation stays silent."""
        return self._contact.ends_at()

    def placed(self, job: JobRecord, pods: Attempt, fact: Fact) -> None:
        """End a placement that crossed the loss of contact, even one that is not in the log yet."""
        if job.lost_after_s and (self._contact.is_lost or self._contact.is_over(fact.time)):
            self._pods.end(pods, at=fact.time, cause=fact.id)

    @FOLDS.on("cluster", "summarised", ClusterSummary)
    def _summarised(self, fact: Fact, summary: ClusterSummary) -> bool:
        self._cluster = fact.subject_id
        self._contact.summarised(summary, at=fact.time)
        return True

    @FOLDS.on("cluster", "contact-renewed", ContactRenewed)
    def _renewed(self, fact: Fact, renewed: ContactRenewed) -> bool:
        self._cluster = fact.subject_id
        self._contact.renewed(renewed, at=fact.time)
        return True

    @FOLDS.on("cluster", "contact-lost", ContactLost)
    def _lost(self, fact: Fact, lost: ContactLost) -> bool:
        """End every attempt that may be given away, with as much of its grace as the margin allows."""
        if not self._contact.lost(lost):
            return False
        grace_s = GRACE_SHARE * self._contact.margin_s
        for job in self._pods.jobs.values():
            if job.lost_after_s and job.pods is not None and job.spec is not None:
                self._pods.end(job.pods, at=fact.time, cause=fact.id, grace_s=min(job.spec.grace_s, grace_s))
        return True

    @FOLDS.on("job", "returned", JobReturned)
    def _returned(self, fact: Fact, _: JobReturned) -> bool:
        """Forget a job that was handed back to the federation."""
        job = self._pods.jobs.get(fact.subject_id)
        if job is None or job.pods is not None:
            return False
        del self._pods.jobs[fact.subject_id]
        return True
