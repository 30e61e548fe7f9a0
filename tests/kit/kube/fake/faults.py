"""Ways in which an API server fails, under a test's control."""

from collections.abc import Callable
from dataclasses import dataclass, field

from kit.kube.fake.store import Refusal


@dataclass
class Rule:
    """Requests of these verbs and resources ("pods/binding"; empty: all) get this answer, so many times.

    after_work: the change is made, and then this is answered. retry_after_s: that header. path: a part of the path.
    """

    code: int
    verbs: frozenset[str] = frozenset()
    resources: frozenset[str] = frozenset()
    times: int = 1
    after_work: bool = False
    retry_after_s: int | None = None
    reason: str = "InternalError"
    message: str = "told to fail"
    hang_up: bool = False

    def concerns(self, verb: str, resource: str, *, after_work: bool) -> bool:
        return (
            self.times > 0
            and self.after_work == after_work
            and (not self.verbs or verb in self.verbs)
            and (not self.resources or resource in self.resources)
        )


@dataclass
class Faults:
    """What is wrong at the moment; by default nothing."""

    rules: list[Rule] = field(default_factory=list)
    latency_s: float = 0.0
    """Before every answer."""
    forbidden: set[tuple[str, str]] = field(default_factory=set)
    """(verb, resource): refused with 403, also in reviews of access. "*" for any verb."""
    protected: set[str] = field(default_factory=set)
    """Names of pods that a disruption budget keeps from eviction."""
    lost_events: int = 0
    """So many of the next events reach no watch; its bookmarks go on."""
    frozen: bool = False
    """Watches send no byte, as over a half-open connection."""
    hook: Callable[[str, str, str], None] | None = None
    """Called with (verb, resource, name) before the work; may raise Refusal."""

    def fail(self, code: int, *, verbs: str = "", resources: str = "", **rest: object) -> Rule:
        """Add a rule; verbs and resources with spaces between."""
        rule = Rule(code, frozenset(verbs.split()), frozenset(resources.split()), **rest)  # type: ignore[arg-type]
        self.rules.append(rule)
        return rule

    def meet(self, verb: str, resource: str, *, after_work: bool) -> Rule | None:
        """The rule that is used up by this request."""
        for rule in self.rules:
            if rule.concerns(verb, resource, after_work=after_work):
                rule.times -= 1
                return rule
        return None

    def forbids(self, verb: str, resource: str) -> bool:
        return (verb, resource) in self.forbidden or ("*", resource) in self.forbidden

    def refuse_forbidden(self, verb: str, resource: str, group: str, namespace: str) -> None:
        if self.forbids(verb, resource):
            raise Refusal(
                403,
                "Forbidden",
                f'{resource} is forbidden: User "test" cannot {verb} resource "{resource}" in API group "{group}"'
                + (f' in the namespace "{namespace}"' if namespace else " at the cluster scope"),
            )
