"""Find what endangers the API servers: one check for each kind of advice, a function from a look to findings.

To add a kind of advice, write a check and add it to `CHECKS`.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from muster.guard.core.config import GuardConfig
from muster.guard.core.limits import (
    BETTER,
    GOGC_ADVISED,
    GOGC_DEFAULT,
    KUBELET_WATCHES,
    MEMORY_LIMIT_PART,
    STREAMS_PART,
    TERMINATED_DEFAULT,
    TERMINATED_MIN,
    TERMINATED_PART,
)
from muster.guard.core.look import ClientLists, FlowLook, Look, Replica
from muster.guard.core.pages import MIB
from muster.guard.core.printable import printable
from muster.schemas.facts.guard import AdviceRaised, Figure

DEGREE = "degree"
"""Figure of every advice: its severity as a number, 1 at the threshold that raises it."""
_HASH_BYTES = 5


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem of the API servers, with its advice."""

    degree: float
    """Severity: 1 raises the advice, less than limits.BETTER clears it."""
    subject: str
    """Subject id of the advice's facts, from a bounded alphabet."""
    advice: AdviceRaised
    """Body of the fact."""


def finding(
    *,
    code: str,
    degree: float,
    detail: str,
    cure: str,
    about: str = "",
    severity: Literal["info", "warning", "critical"] = "warning",
    figures: Sequence[tuple[str, float]] = (),
) -> Finding:
    """Return a finding about `about` ("" for the cluster). Names in `figures` end with their unit.

    Text from clients is made printable and cut to what a fact may hold.
    """
    about_hash = hashlib.blake2b(about.encode(), digest_size=_HASH_BYTES).hexdigest()
    advice = AdviceRaised(
        code=code,
        about=printable(about),
        severity=severity,
        detail=printable(detail),
        cure=printable(cure),
        figures=tuple(Figure(name=name, value=round(value, 3)) for name, value in ((DEGREE, degree), *figures)),
    )
    return Finding(degree, f"{code}-{about_hash}" if about else code, advice)


def degree_of(raised: AdviceRaised) -> float:
    """Return the degree with which the advice was raised."""
    return next((figure.value for figure in raised.figures if figure.name == DEGREE), 1.0)


Check = Callable[[Look, GuardConfig], Sequence[Finding] | None]
"""Findings, including those below the threshold; None if the look cannot tell, which leaves the advice unchanged."""


LISTS = "lists-too-much"
_LISTS_HINT = (
    "watch after one list (as informers do), or list metadata only or in pages; until then "
    "`muster guard apply` limits its concurrent LISTs"
)


def check_lists(look: Look, config: GuardConfig) -> list[Finding] | None:
    """Find clients that list too often; None where no source reports clients."""
    if not look.clients_from:
        return None
    threshold = config.lists_per_minute
    return [_of_client(look, one, threshold) for one in look.clients if one.per_minute >= BETTER * threshold]


def _of_client(look: Look, client: ClientLists, threshold: float) -> Finding:
    name = client_name(client)
    mib = mib_per_list(look, client.resource)
    size = f", about {mib:.1f} MiB each ({mib * client.per_minute:.0f} MiB a minute)" if mib else ""
    seen = "" if look.clients_from == "audit" else "; counted from requests in flight, the real number is higher"
    return finding(
        code=LISTS,
        about=f"{name} {client.resource}",
        degree=client.per_minute / threshold,
        detail=f"{name} lists {client.resource} {client.per_minute:.0f} times a minute{size}{seen}",
        cure=_LISTS_HINT,
        figures=(("lists_per_minute", client.per_minute), ("list_mib", mib)),
    )


def client_name(client: ClientLists) -> str:
    """Return the name for display: "fleet-doctor/1.2 (system:serviceaccount:ops:doctor)"."""
    return f"{client.agent} ({client.user})" if client.agent else client.user


def mib_per_list(look: Look, resource: str) -> float:
    """Return the size of one LIST of all objects, estimated by the API server; 0 if unknown."""
    return max((replica.page.sizes.get(resource, 0.0) for replica in look.up if replica.page), default=0.0) / MIB


MEMORY_SKEW = "memory-skew"
_TWO = 2
_ADVISED_CHANCE = 0.001


def check_skew(look: Look, config: GuardConfig) -> list[Finding] | None:
    """Compare the largest and smallest resident memory; None with fewer than two API servers to compare."""
    up = sorted(look.up, key=lambda replica: (replica.memory_mib, replica.name))
    if len(up) < _TWO:
        return None if len(look.replicas) >= _TWO else []
    least, most = up[0], up[-1]
    ratio = skew_of(look)
    if most.memory_mib - least.memory_mib < config.skew_floor_mib:
        return []
    return [
        finding(
            code=MEMORY_SKEW,
            degree=ratio / config.skew_ratio,
            detail=f"{_described(most)}, {_described(least)}: {ratio:.1f} times as much",
            cure=_skew_hint(look),
            figures=(
                ("ratio", ratio),
                ("most_mib", most.memory_mib),
                ("least_mib", least.memory_mib),
                ("most_watches", float(_watches_of(most))),
                ("least_watches", float(_watches_of(least))),
            ),
        )
    ]


def skew_of(look: Look) -> float:
    """Return the ratio of the largest to the smallest memory; 1 for a single API server."""
    found = [replica.memory_mib for replica in look.up if replica.memory_mib > 0]
    return max(found) / min(found) if found else 1.0


def _skew_hint(look: Look) -> str:
    chance = look.pods.goaway_chance if look.pods else None
    ours = (
        "it moves only HTTP/2 clients; Python clients (HTTP/1.1) must renew their connections, as "
        "Muster does; restarting the API server with most memory balances them for a while"
    )
    if chance:
        return f"--goaway-chance is {chance:g}: {ours}"
    return f"start API servers behind a load balancer with --goaway-chance={_ADVISED_CHANCE:g}: {ours}"


def _watches_of(replica: Replica) -> int:
    return sum(replica.page.watches.values()) if replica.page else 0


def _described(replica: Replica) -> str:
    return f"{replica.name} has {replica.memory_mib:.0f} MiB and {_watches_of(replica)} watches"


GARBAGE = "garbage-collection"
_PERCENT = 100.0
_GARBAGE_HINT = (
    f"start it with the environment variables GOGC={GOGC_ADVISED} and GOMEMLIMIT={MEMORY_LIMIT_PART:.0%} of its "
    f"memory limit (there are no flags for them); `muster guard apply` limits bursts of LISTs"
)


def check_garbage_collection(look: Look, config: GuardConfig) -> list[Finding] | None:
    """Find large API servers with Go's default GOGC or more and no memory limit."""
    if not look.up:
        return None
    measured = gogc_effect(look)
    floor_mib = config.memory_floor_mib
    return [_of_replica(one, measured, floor_mib) for one in look.up if _is_concerned(one, floor_mib)]


def _is_concerned(replica: Replica, floor_mib: float) -> bool:
    page = replica.page
    return (
        page is not None
        and page.gogc is not None
        and (page.gogc >= GOGC_DEFAULT or page.gogc < 0)
        and page.memory_limit_bytes is None
        and replica.memory_mib >= floor_mib * BETTER
    )


def _of_replica(replica: Replica, measured: str, floor_mib: float) -> Finding:
    page = replica.page
    assert page is not None
    live_mib, goal_mib = live_mib_of(replica), page.heap_goal_bytes / MIB
    advised_mib = live_mib * (1 + GOGC_ADVISED / _PERCENT)
    return finding(
        code=GARBAGE,
        about=replica.name,
        severity="info",
        degree=replica.memory_mib / floor_mib,
        detail=(
            f"{replica.name} has {replica.memory_mib:.0f} MiB with GOGC={page.gogc}: from {live_mib:.0f} MiB live "
            f"the heap grows to {goal_mib:.0f} MiB before garbage is collected; with GOGC={GOGC_ADVISED} to "
            f"{advised_mib:.0f} MiB{measured}"
        ),
        cure=_GARBAGE_HINT,
        figures=(
            ("memory_mib", replica.memory_mib),
            ("live_mib", live_mib),
            ("goal_mib", goal_mib),
            ("advised_goal_mib", advised_mib),
        ),
    )


def live_mib_of(replica: Replica) -> float:
    """Return the live heap at the last collection: goal = live * (1 + GOGC/100) (Go's GC guide)."""
    page = replica.page
    if page is None or page.gogc is None or page.gogc < 0:
        return 0.0
    return page.heap_goal_bytes / MIB / (1 + page.gogc / _PERCENT)


def gogc_effect(look: Look) -> str:
    """Compare API servers with different GOGC: memory over live heap of each; "" with fewer than two values."""
    by_gogc: dict[int, list[float]] = {}
    for replica in look.up:
        live_mib = live_mib_of(replica)
        if replica.page is not None and replica.page.gogc is not None and live_mib > 0:
            by_gogc.setdefault(replica.page.gogc, []).append(replica.memory_mib / live_mib)
    if len(by_gogc) < 2:
        return ""
    said = ", ".join(f"{sum(found) / len(found):.1f} with GOGC={gogc}" for gogc, found in sorted(by_gogc.items()))
    return f"; measured here, memory over live heap: {said}"


SECRETS = "secrets-per-workload"
_SECRETS_HINT = (
    "store them as keys of one secret (up to 1 MiB), or mount short-lived tokens; mark secrets that "
    "never change `immutable: true`, so that kubelets do not watch them"
)


def check_secrets(look: Look, config: GuardConfig) -> list[Finding] | None:
    """Find workloads with many secrets; None if pods may not be read."""
    if look.pods is None:
        return None
    return [
        finding(
            code=SECRETS,
            about=one.title,
            degree=one.secrets / config.secrets_per_workload,
            detail=(
                f"{one.title} names {one.secrets} secrets: for its {one.pods} pods on {one.nodes} nodes "
                f"kubelets send {one.lists} LISTs and as many WATCHes at their start and whenever a "
                f"kubelet or an API server restarts"
            ),
            cure=_SECRETS_HINT,
            figures=(
                ("secrets", float(one.secrets)),
                ("lists", float(one.lists)),
                ("pods", float(one.pods)),
                ("nodes", float(one.nodes)),
            ),
        )
        for one in look.pods.workloads
    ]


UNLIMITED = "lists-unlimited"
_UNLIMITED_HINT = "run `muster guard apply`, or set guard.apply so that the guard does it"
_STREAMS_SINCE = (1, 33)
_ENCODES = (
    "; these API servers encode a whole LIST in memory, so a burst of large LISTs can crash them (from 1.33 on "
    "they stream JSON and Protobuf)"
)


def check_flow_limits(look: Look, config: GuardConfig) -> list[Finding] | None:
    """Find unlimited kinds; None while levels may not be read. A guard that applies flow control reports `drifted`."""
    if look.levels is None:
        return None
    if config.apply:
        return []
    return [_of_flow(look, flow) for flow in look.flows if not flow.is_right]


def _of_flow(look: Look, flow: FlowLook) -> Finding:
    has = "it has no priority level" if flow.found is None else f"level {flow.level} has {_seats(flow.found)}"
    return finding(
        code=UNLIMITED,
        about=flow.resource,
        severity="warning" if _encodes_whole(look) else "info",
        degree=1.0,
        detail=(
            f"LISTs of {flow.resource} are not limited to {flow.wanted} at a time: {has}"
            f"{_ENCODES if _encodes_whole(look) else ''}"
        ),
        cure=_UNLIMITED_HINT if flow.total else flow.reason,
        figures=(("seats_wanted", float(flow.wanted)),),
    )


def _seats(found: tuple[int, int]) -> str:
    low, high = found
    return f"{low} seats" if low == high else f"{low} to {high} seats"


def _encodes_whole(look: Look) -> bool:
    """Return whether some API server is older than streaming encoding."""
    return any(
        version < _STREAMS_SINCE for replica in look.up if replica.page and (version := minor_of(replica.page.version))
    )


def minor_of(version: str) -> tuple[int, int] | None:
    """Return (1, 34) for "v1.34.4"; None if it is not a version."""
    parts = version.removeprefix("v").split(".")
    try:
        return int(parts[0]), int("".join(letter for letter in parts[1] if letter.isdecimal()))
    except (IndexError, ValueError):
        return None


STREAMS = "http2-streams"
_ROUND = 250


def check_streams(look: Look, config: GuardConfig) -> list[Finding] | None:  # noqa: ARG001 - a check
    """Compare the HTTP/2 stream limit with the watches of the busiest node's kubelet."""
    offered = min((replica.streams_max for replica in look.up if replica.streams_max), default=0)
    if look.pods is None or not offered:
        return None
    wanted = look.pods.watches_of_node + KUBELET_WATCHES
    advised = -(-2 * wanted // _ROUND) * _ROUND
    return [
        finding(
            code=STREAMS,
            degree=wanted / (offered * STREAMS_PART),
            detail=(
                f"the kubelet of {look.pods.busiest_node or 'the busiest node'} keeps about {wanted} watches "
                f"({look.pods.watches_of_node} of secrets and config maps) on one connection, and API servers allow "
                f"{offered} streams on it: its other requests wait for a free stream"
            ),
            cure=(
                f"start API servers with --http2-max-streams-per-connection={advised}, or use fewer "
                f"secrets per workload"
            ),
            figures=(("watches", float(wanted)), ("streams_max", float(offered))),
        )
    ]


ENDED_PODS = "pod-garbage"


def check_ended_pods(look: Look, config: GuardConfig) -> list[Finding] | None:  # noqa: ARG001 - a check
    """Find too many terminated pods; None if pods may not be read."""
    if look.pods is None:
        return None
    pods, ended = look.pods.pods, look.pods.terminated
    if not ended or ended < TERMINATED_PART * pods:
        return []
    known = look.pods.threshold
    limit = f"{known}" if known is not None else f"{TERMINATED_DEFAULT} by default"
    return [
        finding(
            code=ENDED_PODS,
            severity="info",
            degree=ended / TERMINATED_MIN,
            detail=(
                f"{ended} of {pods} pods have ended and are still there; the controller manager removes them beyond "
                f"{limit} (--terminated-pod-gc-threshold)"
            ),
            cure=(
                f"start kube-controller-manager with --terminated-pod-gc-threshold={TERMINATED_MIN}, and give Jobs "
                f"ttlSecondsAfterFinished; Muster removes the pods of its own jobs"
            ),
            figures=(("terminated", float(ended)), ("pods", float(pods))),
        )
    ]


CHECKS: Mapping[str, Check] = {
    LISTS: check_lists,
    MEMORY_SKEW: check_skew,
    GARBAGE: check_garbage_collection,
    SECRETS: check_secrets,
    UNLIMITED: check_flow_limits,
    STREAMS: check_streams,
    ENDED_PODS: check_ended_pods,
}
"""Checks by advice code."""
