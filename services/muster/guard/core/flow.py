"""Build the wanted flow-control objects, and compare them with those in the cluster."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from muster.guard.core.config import LEVEL_PREFIX, Kind, Subjects
from muster.guard.core.seats import Impossible, Plan, ServerSeats, Want, are_right, plan_for
from muster.kube.objects import JsonObject, at, integer, mapping, name_of, strings, text

API_VERSION = "flowcontrol.apiserver.k8s.io/v1"
LEVEL, SCHEMA = "PriorityLevelConfiguration", "FlowSchema"
BALLAST = "muster-ballast"
MANAGER = "muster-guard"
MANAGED_BY = "app.kubernetes.io/managed-by"
PRECEDENCE = 850
"""Nodes (400, 500), leader election (100 to 200), controllers and the scheduler (800) match earlier, so they keep their
levels; service accounts of kube-system (900) and all others (from 9000) match later. `exempt` (1) matches first."""
QUEUES, HAND_SIZE, QUEUE_LENGTH = 16, 4, 100
"""Up to HAND_SIZE * QUEUE_LENGTH requests of one user wait; the server rejects a request that waited a quarter of
--request-timeout, 15 s."""
_GROUPS = {Subjects.SERVICE_ACCOUNTS: "system:serviceaccounts", Subjects.EVERYBODY: "system:authenticated"}


@dataclass(frozen=True, slots=True)
class Level:
    """A priority level in the cluster."""

    name: str
    shares: int
    lendable: int = 0
    borrowing: int | None = None
    """Percent of its seats that it may borrow; None for no limit."""
    managed: bool = False
    """Whether it belongs to the guard."""


def is_ours(raw: JsonObject) -> bool:
    """Return whether the guard owns the object, by label and name: a copied label alone does not count."""
    name = name_of(raw)
    labelled = strings(raw, "metadata", "labels").get(MANAGED_BY) == MANAGER
    return labelled and (name == BALLAST or name.startswith(LEVEL_PREFIX))


def level_of(raw: JsonObject) -> Level:
    """Return the level of a PriorityLevelConfiguration; absent numbers are the API's defaults."""
    is_exempt = text(raw, "spec", "type") == "Exempt"
    spec = mapping(raw, "spec", "exempt" if is_exempt else "limited")
    limit = at(spec, "borrowingLimitPercent")
    return Level(
        name=name_of(raw),
        shares=integer(spec, "nominalConcurrencyShares", default=0 if is_exempt else 30),
        lendable=integer(spec, "lendablePercent"),
        borrowing=limit if isinstance(limit, int) else None,
        managed=is_ours(raw),
    )


def wants_of(kinds: Sequence[Kind]) -> tuple[Want, ...]:
    """Return the wanted levels of these kinds."""
    return tuple(Want(kind.level, kind.seats) for kind in kinds)


def plan_of(kinds: Sequence[Kind], levels: Sequence[Level], *, server: ServerSeats) -> Plan | Impossible:
    """Return shares for these kinds beside the other levels; existing shares that are right are kept."""
    wants = wants_of(kinds)
    own = {want.level for want in wants} | {BALLAST}
    standing = {level.name: level for level in levels if level.name in own}
    others = sum(level.shares for level in levels if level.name not in own and not level.managed)
    if all(want.level in standing for want in wants):
        shares = tuple(standing[want.level].shares for want in wants)
        ballast = standing[BALLAST].shares if BALLAST in standing else 0
        total = others + sum(shares) + ballast
        if are_right(shares, wants, total=total, server=server):
            return Plan(shares, ballast, total)
    return plan_for(wants, others=others, server=server)


def objects_of(kinds: Sequence[Kind], subjects: Subjects, plan: Plan) -> list[JsonObject]:
    """Return every object, each after the objects that it references."""
    levels = [_level(kind.level, shares) for kind, shares in zip(kinds, plan.shares, strict=True)]
    if plan.ballast:
        levels.append(_level(BALLAST, plan.ballast, lendable=100))
    return [*levels, *(_schema(kind, subjects) for kind in kinds)]


def leftovers(found: Sequence[JsonObject], wanted: Sequence[JsonObject]) -> list[JsonObject]:
    """Return the guard's objects that are no longer wanted, schemas first: they reference levels."""
    keep = {(text(one, "kind"), name_of(one)) for one in wanted}
    gone = [one for one in found if is_ours(one) and (text(one, "kind"), name_of(one)) not in keep]
    return sorted(gone, key=lambda one: text(one, "kind") != SCHEMA)


def differences(found: Sequence[JsonObject], wanted: Sequence[JsonObject]) -> Iterator[JsonObject]:
    """Yield the wanted objects that are missing or differ."""
    known = {(text(one, "kind"), name_of(one)): one for one in found}
    for one in wanted:
        there = known.get((text(one, "kind"), name_of(one)))
        if there is None or not _covers(at(there, "spec"), at(one, "spec")):
            yield one


def _covers(found: object, wanted: object) -> bool:
    """Return whether `found` has every wanted value; defaults added by the server are ignored."""
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(_covers(found.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list):
        return (
            isinstance(found, list)
            and len(found) == len(wanted)
            and all(_covers(one, other) for one, other in zip(found, wanted, strict=True))
        )
    return found == wanted


def _object(kind: str, name: str, spec: JsonObject) -> JsonObject:
    metadata: JsonObject = {"name": name, "labels": {MANAGED_BY: MANAGER}}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}


def _level(name: str, shares: int, *, lendable: int = 0) -> JsonObject:
    """Return a level. borrowingLimitPercent must be set: without it a level borrows without limit."""
    queuing = {"queues": QUEUES, "handSize": HAND_SIZE, "queueLengthLimit": QUEUE_LENGTH}
    limited: JsonObject = {
        "nominalConcurrencyShares": shares,
        "lendablePercent": lendable,
        "borrowingLimitPercent": 0,
        "limitResponse": {"type": "Queue", "queuing": queuing},
    }
    return _object(LEVEL, name, {"type": "Limited", "limited": limited})


def _schema(kind: Kind, subjects: Subjects) -> JsonObject:
    rule: JsonObject = {
        "subjects": [{"kind": "Group", "group": {"name": _GROUPS[subjects]}}],
        "resourceRules": [
            {
                "verbs": ["list"],
                "apiGroups": [kind.group],
                "resources": [kind.resource],
                "clusterScope": True,
                "namespaces": ["*"],
            }
        ],
    }
    spec: JsonObject = {
        "priorityLevelConfiguration": {"name": kind.level},
        "matchingPrecedence": PRECEDENCE,
        "distinguisherMethod": {"type": "ByUser"},
        "rules": [rule],
    }
    return _object(SCHEMA, kind.level, spec)
