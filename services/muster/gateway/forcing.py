"""Who may change what devices are where: operators. To others that ask with force it is told whom it would hurt.

Without force, too, a detached device is one that no team may have any more, and an attached one is taken from the pool
that all share; so submitters get devices by their jobs, through the scaler and within their quota, and not by asking.
"""

from collections.abc import Awaitable

from pydantic import ValidationError

from muster.gateway import composing
from muster.gateway.authorise import Principal, force_refusal, refuse_unless
from muster.gateway.context import AppContext
from muster.gateway.ports import UnreachableError
from muster.gateway.problems import ProblemError
from muster.schemas.access import Role
from muster.schemas.queries import AskCompose, AskDetach, DeviceCheckAnswer

FORCE = "force"
FORCE_DETACH = "force_detach"
_UNKNOWN = DeviceCheckAnswer()


async def refuse_unless_may_detach(
    context: AppContext, principal: Principal, asked: AskDetach, *, verb: str, force: bool
) -> None:
    """Raises ProblemError (403); with force it names the flag, and who holds the device.

    asked: what would go, without force.
    """
    if principal.is_at_least(Role.OPERATOR):
        return
    if force:
        forced = asked.model_copy(update={"force": True, "may_force": False})
        raise await _forced(principal, context.composer.detach_check(forced), verb=verb, field=FORCE, told=FORCE)
    refuse_unless(principal, Role.OPERATOR, verb=verb)


async def refuse_unless_may_compose(context: AppContext, principal: Principal, body: bytes, *, key: str) -> None:
    """Raises ProblemError (403); with `force_detach` it names that field, and who holds what would be taken away.

    A body that makes no sense is not told to somebody who may not ask.
    """
    if principal.is_at_least(Role.OPERATOR):
        return
    try:
        asked = composing.parse(body, principal=principal.name, key=key)
    except (ProblemError, ValidationError):
        asked = None
    if asked is not None and asked.spec.force_detach:
        question = AskCompose(name=asked.name, spec=asked.spec, may_force=False)
        field = asked.path(FORCE_DETACH)
        answer = context.composer.compose_check(question)
        raise await _forced(principal, answer, verb="attach and detach devices", field=field, told=FORCE_DETACH)
    refuse_unless(principal, Role.OPERATOR, verb="attach devices")


async def _forced(
    principal: Principal, answer: Awaitable[DeviceCheckAnswer], *, verb: str, field: str, told: str
) -> ProblemError:
    """told: the field by which the composer says that force is what it would refuse."""
    try:
        verdict = await answer
    except (UnreachableError, ProblemError):
        verdict = _UNKNOWN  # it is refused whoever holds it
    if verdict.field != told:
        verdict = _UNKNOWN
    return force_refusal(principal, verb=verb, field=field, told=verdict.reason, holder=verdict.holder)
