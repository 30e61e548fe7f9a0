"""The gateway's questions to composer and scaler on a real NATS, asked from the account of questions."""

from collections.abc import AsyncIterator, Iterator

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from kit.servers import CLUSTER, NatsServer, running_nats
from muster.bus.declaration import Declaration, QueryType
from muster.gateway.leaders import NatsComposer, NatsScaler
from muster.gateway.ports import UnreachableError
from muster.gateway.problems import ProblemError
from muster.schemas.base import Wire
from muster.schemas.devices import AttachmentPhase, ComposabilitySpec, DeviceView, RequestPhase, RequestView
from muster.schemas.queries import (
    AskCompose,
    AskDetach,
    DeviceCheckAnswer,
    DevicesAnswer,
    RequestsAnswer,
    ScaleAnswer,
    ScaleChoiceView,
)
from muster.schemas.subjects import query_subject
from muster.schemas.views import Problem

pytestmark = pytest.mark.connected

QUESTIONS = {"composer": ("devices", "requests", "compose-check", "detach-check"), "scaler": ("choices",)}
DEVICE = DeviceView(id="a1", model="H100", node="n1", fabric="f1", phase=AttachmentPhase.ONLINE)
CHOICE = ScaleChoiceView(id="s000001", name="gpu-attach-chosen", case=1)
SPEC = ComposabilitySpec(model="H100", size=2)
REQUEST = RequestView(name="r1", spec=SPEC, phase=RequestPhase.RUNNING, resources=(DEVICE,))
COMPOSE = AskCompose(name="r1", spec=SPEC, may_force=True)
DETACH = AskDetach(device_uuid="GPU-1", force=True, may_force=True)


@pytest.fixture(scope="module")
def server() -> Iterator[NatsServer]:
    services = [
        Declaration(service, queries=tuple(QueryType(name, Wire, Wire) for name in names))
        for service, names in QUESTIONS.items()
    ]
    with running_nats(declarations=[Declaration("gateway", buckets=("tokens",)), *services]) as server:
        yield server


class Services:
    """Answers whatever is set, and keeps what was asked."""

    def __init__(self, server: NatsServer) -> None:
        self.server = server
        self.asked: list[tuple[str, bytes]] = []
        self.connections: list[Client] = []

    async def asker(self) -> Client:
        self.connections.append(await self.server.connect("gateway-query"))
        return self.connections[-1]

    async def answer(self, service: str, name: str, said: Wire) -> None:
        client = await self.server.connect(service)
        self.connections.append(client)

        async def tell(message: Msg) -> None:
            self.asked.append((name, message.data))
            await client.publish(message.reply, said.model_dump_json().encode())

        await client.subscribe(query_subject(CLUSTER, service, name), cb=tell)
        await client.flush()


@pytest.fixture
async def services(server: NatsServer) -> AsyncIterator[Services]:
    services = Services(server)
    yield services
    for connection in services.connections:
        await connection.close()


async def test_devices_requests_and_choices_are_told_with_the_cluster_that_was_asked(services: Services) -> None:
    await services.answer("composer", "devices", DevicesAnswer(devices=(DEVICE,)))
    await services.answer("composer", "requests", RequestsAnswer(requests=(REQUEST,)))
    await services.answer("scaler", "choices", ScaleAnswer(choices=(CHOICE,)))
    asker = await services.asker()
    composer = NatsComposer(asker, cluster=CLUSTER)
    here = {"cluster": CLUSTER}
    device = DEVICE.model_copy(update=here)
    assert (await composer.devices()).devices == (device,)
    request = REQUEST.model_copy(update={**here, "resources": (device,)})
    assert (await composer.requests()).requests == (request,)
    assert (await NatsScaler(asker, cluster=CLUSTER).choices()).choices == (CHOICE.model_copy(update=here),)


async def test_the_checks_carry_the_whole_question(services: Services) -> None:
    verdict = DeviceCheckAnswer(field="size", reason="the pool has 1", holder="r9")
    await services.answer("composer", "compose-check", verdict)
    await services.answer("composer", "detach-check", DeviceCheckAnswer(unknown=True, field="device_uuid"))
    composer = NatsComposer(await services.asker(), cluster=CLUSTER)
    assert await composer.compose_check(COMPOSE) == verdict
    assert (await composer.detach_check(DETACH)).unknown
    (_, compose), (_, detach) = services.asked
    assert (AskCompose.model_validate_json(compose), AskDetach.model_validate_json(detach)) == (COMPOSE, DETACH)


async def test_nobody_leads_is_unreachable_and_names_the_service(services: Services) -> None:
    asker = await services.asker()
    with pytest.raises(UnreachableError, match="composer"):
        await NatsComposer(asker, cluster=CLUSTER).devices()
    with pytest.raises(UnreachableError, match="scaler"):
        await NatsScaler(asker, cluster=CLUSTER).choices()


@pytest.mark.parametrize(("status", "raised"), [(500, UnreachableError), (422, ProblemError)])
async def test_a_question_that_fails_is_unreachable_and_one_that_is_refused_is_told(
    services: Services, status: int, raised: type[Exception]
) -> None:
    problem = Problem(title="question failed", status=status, detail="KeyError")
    await services.answer("composer", "requests", problem)
    with pytest.raises(raised, match="KeyError"):
        await NatsComposer(await services.asker(), cluster=CLUSTER).requests()
