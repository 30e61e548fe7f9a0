"""Calls become requests, and answers outcomes. Each is sent once: who asked decides whether to ask again."""

from http import HTTPStatus

from muster.agent.core.kubernetes.calls import (
    Bind,
    Call,
    Create,
    Delete,
    Done,
    Evict,
    Kind,
    Merge,
    Outcome,
    Read,
    Refused,
    Replace,
    Unanswered,
)
from muster.kube import resources
from muster.kube.connection import KubeConnection
from muster.kube.errors import KubeConfigError, KubeError, TooManyRequestsError, UnauthorizedError, UnavailableError
from muster.kube.objects import JsonObject
from muster.kube.resources import PODS, Resource
from muster.kube.shapes import Patch

UNAUTHORIZED_S = 5.0
"""Until a call is sent again whose credentials were refused: they may be renewed in their file."""
_KNOWN = {value.title: value for value in vars(resources).values() if isinstance(value, Resource)}


def resource_of(kind: Kind) -> Resource:
    """Where objects of this kind are. Raises KeyError for one that `muster.kube.resources` does not know."""
    return _KNOWN[kind.value]


async def perform(connection: KubeConnection, call: Call) -> Outcome:
    """Send it once. Raises nothing that an API server can bring about."""
    try:
        return Done(await _sent(connection, call))
    except TooManyRequestsError as error:
        if error.by_budget:
            return Refused(error.code, error.reason, str(error))
        return Unanswered(str(error), error.retry_after_s, reached=True)
    except UnavailableError as error:
        return Unanswered(str(error), error.retry_after_s, reached=bool(error.code))
    except UnauthorizedError as error:
        return Unanswered(str(error), UNAUTHORIZED_S, reached=True)
    except KubeConfigError as error:
        return Unanswered(str(error), UNAUTHORIZED_S)
    except KubeError as error:
        return Refused(error.code or HTTPStatus.BAD_REQUEST, error.reason, str(error))


async def _sent(connection: KubeConnection, call: Call) -> JsonObject:
    match call:
        case Create():
            return await connection.create(
                resource_of(call.kind), call.body, namespace=call.namespace, metadata_only=call.brief
            )
        case Bind():
            body = _binding(call)
            return await connection.create_subresource(PODS, call.name, "binding", body, namespace=call.namespace)
        case Delete():
            return await connection.delete(
                resource_of(call.kind), call.name, namespace=call.namespace, uid=call.uid, grace_s=call.grace_s
            )
        case Evict():
            body = _eviction(call)
            return await connection.create_subresource(PODS, call.name, "eviction", body, namespace=call.namespace)
        case Replace():
            return await connection.replace(
                resource_of(call.kind), call.name, call.body, namespace=call.namespace, subresource=call.subresource
            )
        case Merge():
            return await connection.patch(
                resource_of(call.kind),
                call.name,
                call.body,
                kind=Patch.MERGE,
                namespace=call.namespace,
                subresource=call.subresource,
            )
        case Read():
            return await connection.get(resource_of(call.kind), call.name, namespace=call.namespace)


def _binding(call: Bind) -> JsonObject:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": call.name, "namespace": call.namespace, "uid": call.uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": call.node},
    }


def _eviction(call: Evict) -> JsonObject:
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": call.name, "namespace": call.namespace},
        "deleteOptions": {"gracePeriodSeconds": call.grace_s, "preconditions": {"uid": call.uid}},
    }
