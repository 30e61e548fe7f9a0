"""Jobs that another cluster may be given run here only while the federation is heard: else they are ended in time.

The agent says so (`contact-lost`) by its own clock, and what it folds of that ends the pods: so a leader that was
deposed ends nothing, and whoever follows it ends the same. Pinned jobs, and all where no cluster is ever given up, have
no `lost_after_s` and are never looked at.

A log that is full takes no `contact-lost`, and no sign of life either. So who leads ends the pods without it when it
did not come for a while (`end_unheard`); the log hears of it when it has room, `contact-lost` before the exits.
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
"""Of the margin: so long the pods may take to end at most. The rest is for clocks and messages."""

UNHEARD_SHARE = 0.25
"""Of the margin: so late `contact-lost` may be in the log. Pods that are ended without it have no grace, so that they
are gone no later than with it, though an append that was refused is tried again some seconds later only."""


class Leases:
    """pods: of the cluster's attempts."""

    FOLDS = Folds["Leases", bool]()

    def __init__(self, pods: Attempts) -> None:
        self._pods = pods
        self._contact = Contact()
        self._cluster = ""

    def restore(self, cluster: str, state: ClusterState) -> None:
        """What the scheduler's part of a checkpoint says."""
        self._cluster = cluster
        self._contact.restore(state.contact)

    def decide(self, now: Instant) -> list[Draft]:
        """`contact-lost` once the time is over."""
        contact = self._contact
        if not contact.is_over(now):
            return []
        lost = ContactLost(number=contact.number, until=contact.until)
        return [Draft("cluster", self._cluster, "contact-lost", lost)]

    def end_unheard(self, now: Instant, cluster: Cluster) -> int:
        """End what the log should tell to end and cannot; of how many attempts. An effect: for who leads alone.

        The fold is as before: it is `contact-lost` that changes it. Any number of times.
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
        """When the time is over, if nothing is heard."""
        return self._contact.ends_at()

    def placed(self, job: JobRecord, pods: Attempt, fact: Fact) -> None:
        """A placement may pass the loss of contact, also one that nobody could say yet."""
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
        """Every attempt that may be given away is told to end, with as much of its grace as the margin allows."""
        if not self._contact.lost(lost):
            return False
        grace_s = GRACE_SHARE * self._contact.margin_s
        for job in self._pods.jobs.values():
            if job.lost_after_s and job.pods is not None and job.spec is not None:
                self._pods.end(job.pods, at=fact.time, cause=fact.id, grace_s=min(job.spec.grace_s, grace_s))
        return True

    @FOLDS.on("job", "returned", JobReturned)
    def _returned(self, fact: Fact, _: JobReturned) -> bool:
        """The job is none of this cluster's any more."""
        job = self._pods.jobs.get(fact.subject_id)
        if job is None or job.pods is not None:
            return False
        del self._pods.jobs[fact.subject_id]
        return True
