"""One simulated manager: a fabric's model, its clock, who may ask, and what is kept of it.

Whatever protocol a request came by, it begins operations here and then settles them: the answer waits until the
switches are done and kept, and is spoilt as the operations' fault says.
"""

import asyncio
import base64
import hashlib
import hmac
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from starlette.requests import Request

from muster.bus.settings import FabricSettings
from muster.core import NS_PER_S, Instant, after
from muster.fabric.driver import FabricUnavailableError, MachineDevice
from muster.fabric.simulator.build import Machine
from muster.fabric.simulator.clock import FabricClock
from muster.fabric.simulator.model import FabricModel
from muster.fabric.simulator.operation import Fault, Operation
from muster.fabric.simulator.problems import Nonsense, Refusal, Silence
from muster.fabric.simulator.saved import FabricStore, LayoutRecord
from muster.fabric.token import Credentials
from muster.schemas.devices import GPU

_logger = logging.getLogger(__name__)

HOLD_S_MAX = 900.0
"""Maximum time for which a call without an answer may hold its connection."""
DEVICES_MAX = 64
"""Devices of one request."""


def read_login(path: Path) -> Credentials:
    """Read the login from a JSON file. Raises OSError and pydantic.ValidationError, which names the field only."""
    return Credentials.model_validate_json(path.read_bytes())


@dataclass(frozen=True, slots=True)
class Tokens:
    """Gives tokens for one fabric and knows them again: the OpenID Connect password grant of a Fsas manager.

    A token is a JWT (RFC 7519) signed with HMAC-SHA256 by a key that follows from the credentials, so it stays good
    over a restart until its `exp`. life_s: how long one is good.
    """

    fabric: str
    login: Credentials
    life_s: float

    def grant(self, realm: str, form: dict[str, str], *, now: Instant) -> dict[str, object]:
        """Return the answer to a token request. Raises Refusal: 404, no such realm; 400, grant; 401, wrong login."""
        if realm != self.login.realm:
            raise Refusal(404, "invalid_request", f"realm {realm!r} does not exist")
        if form.get("grant_type") != "password":
            raise Refusal(400, "unsupported_grant_type", "grant_type: only password is served")
        for name, known in self._known().items():
            if not hmac.compare_digest(form.get(name, "").encode(), known.encode()):
                client = name.startswith("client")
                code = "invalid_client" if client else "invalid_grant"
                raise Refusal(401, code, "the client is not known" if client else "username or password is wrong")
        token = self._token(now)
        return {
            "access_token": token,
            "id_token": token,
            "token_type": "Bearer",
            "expires_in": self.life_s,
            "scope": "openid",
        }

    def check(self, authorization: str | None, *, now: Instant) -> None:
        """Raise Refusal (401) unless the header carries a valid token of this manager."""
        scheme, _, token = (authorization or "").partition(" ")
        signed, _, signature = token.rpartition(".")
        if scheme.lower() != "bearer" or not hmac.compare_digest(signature.encode(), self._sign(signed).encode()):
            raise Refusal(401, "Unauthorized", "Authorization: a bearer token of this manager is needed")
        claims = json.loads(_decoded(signed.partition(".")[2]))
        if now >= claims["exp"] * NS_PER_S:
            raise Refusal(401, "Unauthorized", "the token has expired")

    def _known(self) -> dict[str, str]:
        """Fields of the form, in the order in which they are compared."""
        return {
            "client_id": self.login.client_id,
            "client_secret": self.login.client_secret.get_secret_value(),
            "username": self.login.username,
            "password": self.login.password.get_secret_value(),
        }

    def _token(self, now: Instant) -> str:
        begun_s = now / NS_PER_S
        claims = {
            "iss": f"fabric-simulator/{self.fabric}",
            "preferred_username": self.login.username,
            "iat": round(begun_s, 3),
            "exp": round(begun_s + self.life_s, 3),
        }
        head = _encoded(json.dumps({"alg": "HS256", "typ": "JWT"}).encode())
        signed = f"{head}.{_encoded(json.dumps(claims).encode())}"
        return f"{signed}.{self._sign(signed)}"

    def _sign(self, signed: str) -> str:
        known = self._known()
        key = "\x1f".join((self.fabric, self.login.realm, known["password"], known["client_secret"])).encode()
        return _encoded(hmac.digest(hashlib.sha256(key).digest(), signed.encode(), "sha256"))


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


@dataclass
class Manager:
    """Manager of one fabric. tokens: None disables authentication. store: None keeps nothing.

    outage: result of every call, including reads and tokens: none, refuse, drop or nonsense. delay_s: wait before every
    call.
    """

    model: FabricModel
    settings: FabricSettings
    machines: Mapping[str, Machine]
    clock: FabricClock
    tokens: Tokens | None = None
    store: FabricStore | None = None
    outage: Fault = Fault.NONE
    delay_s: float = 0.0
    layouts: dict[str, LayoutRecord] = field(default_factory=dict)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def now(self) -> Instant:
        """Return the time, after finishing everything that is due by then."""
        now = self.clock.now()
        self.model.advance(now)
        return now

    def machine(self, name: str) -> Machine:
        """Return the machine by its id. Raises Refusal (404)."""
        found = self.machines.get(name)
        if found is None:
            raise Refusal(404, "NoSuchMachine", f"machine {name!r} does not exist in fabric {self.model.name}")
        return found

    def devices_on(self, machine: str) -> tuple[MachineDevice, ...]:
        """Return the devices on a machine. Raises Refusal (404)."""
        self.machine(machine)
        self.now()
        return self.model.on_machine(machine)

    def attach(
        self, machine: str, *, model: str, kind: str = GPU, device_id: str = "", trace: str = ""
    ) -> tuple[Operation, ...]:
        """Begin to attach one, two if the request is delivered twice. Raises Refusal, FabricError."""
        self.machine(machine)
        operation = self.model.begin_attach(
            machine, type=kind, model=model, device_id=device_id, now=self.clock.now(), traceparent=trace
        )
        twin = (self.model.operation(operation.twin),) if operation.twin else ()
        return self._begun((operation, *twin))

    def attach_many(self, machine: str, *, model: str, kind: str, count: int, trace: str) -> tuple[Operation, ...]:
        """Begin to attach `count`. Raises Refusal and FabricError if none was begun; else those that were begun."""
        if count > DEVICES_MAX:
            raise Refusal(400, "TooMany", f"{count} devices in one request; at most {DEVICES_MAX}")
        begun: tuple[Operation, ...] = ()
        for _ in range(count):
            try:
                begun += self.attach(machine, model=model, kind=kind, trace=trace)
            except FabricUnavailableError:
                if not begun:
                    raise
                break
        return begun

    def detach(self, machine: str, device_id: str, *, trace: str = "") -> tuple[Operation, ...]:
        """Begin to take one away. Raises Refusal (404 for what is not there), FabricError."""
        if device_id not in self.model.moving() and all(
            device.device_id != device_id for device in self.devices_on(machine)
        ):
            raise Refusal(404, "NoSuchResource", f"resource {device_id!r} is not on machine {machine}")
        return self._begun(
            (self.model.begin_detach(machine, device_id=device_id, now=self.clock.now(), traceparent=trace),)
        )

    async def settle(self, request: Request, operations: Sequence[Operation]) -> None:
        """Return when these are over and kept. Raises what their fault makes of the answer."""
        last = max((one.due for one in operations), default=self.clock.now())
        await asyncio.gather(self.keep(), self.clock.until(last))
        self.now()
        await self.spoil(request, operations, halves=True)

    async def spoil(self, request: Request, operations: Sequence[Operation], *, halves: bool) -> None:
        """Make of the answer what the operations' fault wants; halves: also fail for one that is half done."""
        faults = {one.fault for one in operations}
        if Fault.DROP in faults:
            await hold(request)
        if Fault.NONSENSE in faults:
            raise Nonsense
        if Fault.HALF in faults and halves:
            numbers = ", ".join(str(one.id) for one in operations if one.fault is Fault.HALF)
            raise Refusal(500, "HalfDone", f"operation {numbers} failed; look at the machine")

    async def keep(self) -> None:
        """Return when the state as of now survives this process. Raises OSError."""
        if self.store is not None:
            await self.store.save()

    async def strike(self, request: Request) -> None:
        """Be slow, if that is wanted; if nothing works at present raise, or hold the caller, instead of an answer."""
        if self.delay_s:
            await self.clock.until(after(self.clock.now(), self.delay_s))
        match self.outage:
            case Fault.REFUSE:
                raise Refusal(503, "ServiceUnavailable", "the manager is out of service")
            case Fault.DROP:
                await hold(request)
            case Fault.NONSENSE:
                raise Nonsense
            case _:
                return

    def _begun(self, operations: tuple[Operation, ...]) -> tuple[Operation, ...]:
        for one in operations:
            device = self.model.device(one.device_id)
            _logger.info(
                "%s: operation %d: %s %s, machine %s, fault %s, trace %s",
                self.model.name, one.id, one.kind, device.device_uuid if device is not None else "nothing",
                one.machine, one.fault, one.traceparent or "-",
            )  # fmt: skip
        return operations


async def hold(request: Request) -> None:
    """Keep the caller waiting until it goes, at most HOLD_S_MAX. Always raises Silence."""
    try:
        async with asyncio.timeout(HOLD_S_MAX):
            while (await request.receive())["type"] != "http.disconnect":
                pass
    except TimeoutError:
        _logger.warning("a caller waited %g s for an answer that it was not to get", HOLD_S_MAX)
    raise Silence
