"""A scheduler beside one that began at its checkpoint."""

from kit.scheduler import VirtualScheduler, belief
from muster.core import Draft, Fact


class Watched(VirtualScheduler):
    """Compares, after every fact, with a core that started from a checkpoint of that moment."""

    def append(self, *args: object, **rest: object) -> Fact:
        fact = super().append(*args, **rest)
        if fact.kind == "node" and fact.writer == "agent":
            return fact  # the agent's own part of the checkpoint follows in the next line of the test's world
        for kinds in (
            ("queue", "node", "device", "agent", "job", "cluster"),
            ("cluster", "job", "agent", "node", "device", "queue"),
        ):
            other = self.recover(kinds)
            assert belief(other) == belief(self.core), f"after {fact.kind} {fact.name}"
            assert said(other.decide(self.now)) == said(self.core.decide(self.now)), f"after {fact.kind} {fact.name}"
        return fact


def said(drafts: list[Draft]) -> list[tuple[object, ...]]:
    """What is decided, whatever the order. Not recorded: which fact freed a place, and whether a summary is due."""
    kept = [draft for draft in drafts if draft.name != "summarised"]
    return sorted((draft.kind, draft.subject_id, draft.name, draft.causes[:1]) for draft in kept)
