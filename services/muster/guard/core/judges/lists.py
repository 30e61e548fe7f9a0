"""`lists-too-much`: one client lists a resource again and again."""

from muster.guard.core.config import GuardConfig
from muster.guard.core.judges.finding import Finding, finding
from muster.guard.core.limits import BETTER
from muster.guard.core.look import ClientLists, Look
from muster.guard.core.pages import MIB

CODE = "lists-too-much"
_CURE = (
    "let it watch after one list (an informer does), ask for metadata alone, or for pages; until then "
    "`muster guard apply` lets only a few of its LISTs through at a time"
)


def judge(look: Look, config: GuardConfig) -> list[Finding] | None:
    """From the clients' own LISTs; None where nobody reports clients."""
    if not look.clients_from:
        return None
    threshold = config.lists_per_minute
    return [_finding(look, one, threshold) for one in look.clients if one.per_minute >= BETTER * threshold]


def _finding(look: Look, client: ClientLists, threshold: float) -> Finding:
    name = who(client)
    mib = mib_each(look, client.resource)
    size = f", about {mib:.1f} MiB each ({mib * client.per_minute:.0f} MiB a minute)" if mib else ""
    seen = "" if look.clients_from == "audit" else "; it was seen at work so often, the real number is higher"
    return finding(
        code=CODE,
        about=f"{name} {client.resource}",
        degree=client.per_minute / threshold,
        detail=f"{name} lists {client.resource} {client.per_minute:.0f} times a minute{size}{seen}",
        cure=_CURE,
        figures=(("lists_per_minute", client.per_minute), ("list_mib", mib)),
    )


def who(client: ClientLists) -> str:
    """For people: "fleet-doctor/1.2 (system:serviceaccount:ops:doctor)"."""
    return f"{client.agent} ({client.user})" if client.agent else client.user


def mib_each(look: Look, resource: str) -> float:
    """What one LIST of all has to send, by the API server's own estimate; 0 if unknown."""
    return max((replica.page.sizes.get(resource, 0.0) for replica in look.up if replica.page), default=0.0) / MIB
