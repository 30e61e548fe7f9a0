"""Devices of composable fabrics, and what the scaler chose: a part of `Muster`."""

from collections.abc import Sequence
from urllib.parse import quote

from pydantic import BaseModel

from muster.client.bodies import done, own_key, sent
from muster.client.http import Door
from muster.schemas.devices import ComposabilityBody, ComposabilitySpec, DeviceView, FabricView, RequestView
from muster.schemas.queries import ScaleChoiceView

_REQUESTS = "/v1/composability-requests"


class _Devices(BaseModel):
    devices: list[DeviceView]


class _Fabrics(BaseModel):
    fabrics: list[FabricView]


class _Requests(BaseModel):
    requests: list[RequestView]


class _Choices(BaseModel):
    choices: list[ScaleChoiceView]


class DeviceMethods:
    """Every method raises RefusedError (`problem.holder` names who stands in the way) or UnreachableError.

    cluster: "" is the first one.
    """

    _door: Door

    async def devices(self, *, cluster: str = "") -> Sequence[DeviceView]:
        """Devices of fabrics that are on nodes, or on their way there or back, by node."""
        return _Devices.model_validate_json(await self._door.ask("GET", "/v1/devices", params=_of(cluster))).devices

    async def fabrics(self, *, cluster: str = "") -> Sequence[FabricView]:
        """Composable fabrics: pool, circuit breaker, calls under way, orphans."""
        return _Fabrics.model_validate_json(await self._door.ask("GET", "/v1/fabrics", params=_of(cluster))).fabrics

    async def composability_requests(self, *, cluster: str = "") -> Sequence[RequestView]:
        """ComposabilityRequests, newest first, ended ones too."""
        return _Requests.model_validate_json(await self._door.ask("GET", _REQUESTS, params=_of(cluster))).requests

    async def composability_request(self, name: str, *, cluster: str = "") -> RequestView:
        """One of them with its devices; NotFoundError if there is none of that name."""
        return RequestView.model_validate_json(await self._door.ask("GET", _request(name), params=_of(cluster)))

    async def compose(
        self, spec: ComposabilitySpec, *, name: str = "", traceparent: str = "", cluster: str = ""
    ) -> RequestView | None:
        """Attach devices (operators); a request of the same name gets this specification.

        The request as it was accepted: its `resources` say how far each device is. None if after two seconds it is only
        asked for. name: without one Muster makes one. ConflictError if somebody stands in the way.
        """
        body = ComposabilityBody(spec=spec, **({"name": name} if name else {}))
        headers = {**own_key(), **({"traceparent": traceparent} if traceparent else {})}
        answer = await self._door.ask("POST", _REQUESTS, body=sent(body), params=_of(cluster), headers=headers)
        return done(RequestView, answer)

    async def decompose(self, name: str, *, force: bool = False, reason: str = "", cluster: str = "") -> RequestView:
        """Give all devices of a request back (operators): as it is now, `phase` Ended once nothing is attached.

        force: also devices that jobs hold. NotFoundError, ConflictError.
        """
        body = await self._door.ask(
            "DELETE", _request(name), params={**_why(reason, force=force), **_of(cluster)}, headers=own_key()
        )
        return RequestView.model_validate_json(body)

    async def detach(self, device_uuid: str, *, force: bool = False, reason: str = "", cluster: str = "") -> DeviceView:
        """Give one device back to its pool (operators): as it is now, `phase` detached once it is there.

        force: also if a job holds it. NotFoundError, ConflictError.
        """
        where = f"/v1/devices/{quote(device_uuid, safe='')}"
        body = await self._door.ask(
            "DELETE", where, params={**_why(reason, force=force), **_of(cluster)}, headers=own_key()
        )
        return DeviceView.model_validate_json(body)

    async def scale_choices(self, *, cluster: str = "") -> Sequence[ScaleChoiceView]:
        """The scaler's newest choices, newest first, each with the alternatives that were simulated."""
        return _Choices.model_validate_json(await self._door.ask("GET", "/v1/scale", params=_of(cluster))).choices


def _request(name: str) -> str:
    return f"{_REQUESTS}/{quote(name, safe='')}"


def _why(reason: str, *, force: bool) -> dict[str, str | int]:
    return {**({"force": "true"} if force else {}), **({"reason": reason} if reason else {})}


def _of(cluster: str) -> dict[str, str | int]:
    return {"cluster": cluster} if cluster else {}
