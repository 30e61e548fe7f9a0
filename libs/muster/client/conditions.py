"""How nodes and GPUs are, and what people tell health: a part of `Muster`."""

from urllib.parse import quote

from muster.client.bodies import own_key
from muster.client.http import Door
from muster.schemas.conditions import ConditionsAnswer


class ConditionMethods:
    """Every method raises RefusedError or UnreachableError. cluster: "" is the first one."""

    _door: Door

    async def conditions(self, *, cluster: str = "") -> ConditionsAnswer:
        """Nodes and GPUs that are not healthy, what ended lately, and the brake."""
        params = {"cluster": cluster} if cluster else {}
        return ConditionsAnswer.model_validate_json(await self._door.ask("GET", "/v1/conditions", params=params))

    async def condition(self, node: str, *, cluster: str = "") -> ConditionsAnswer:
        """One node with what was seen of it lately; NotFoundError if there is none of that name."""
        params = {"cluster": cluster} if cluster else {}
        return ConditionsAnswer.model_validate_json(await self._door.ask("GET", _of(node), params=params))

    async def verify(self, node: str, *, trust: bool = False, reason: str = "", cluster: str = "") -> ConditionsAnswer:
        """A person looked after the node (operators): it is checked and given back; with `trust` without checks."""
        params = {"trust": str(trust).lower()} | {
            name: value for name, value in (("reason", reason), ("cluster", cluster)) if value
        }
        told = await self._door.ask("POST", f"{_of(node)}/verify", params=params, headers=own_key())
        return ConditionsAnswer.model_validate_json(told)

    async def reset_brake(self, *, skip: bool = False, reason: str = "", cluster: str = "") -> ConditionsAnswer:
        """Let health act again (operators). skip: what waited for it is dropped."""
        params = {"skip": str(skip).lower()} | {
            name: value for name, value in (("reason", reason), ("cluster", cluster)) if value
        }
        told = await self._door.ask("POST", "/v1/brake/reset", params=params, headers=own_key())
        return ConditionsAnswer.model_validate_json(told)


def _of(node: str) -> str:
    return f"/v1/conditions/{quote(node, safe='')}"
