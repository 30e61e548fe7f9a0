"""Questions to a service's leader over the bus. They are asked with a user that can write no fact."""

from nats.aio.client import Client

from muster.bus import query
from muster.gateway.ports import Answer, UnreachableError
from muster.gateway.problems import ProblemError
from muster.schemas.base import Wire
from muster.schemas.subjects import query_subject

ASK_TIMEOUT_S = 1.0
"""Of questions that a submission waits for: it is refused, to be sent again, rather than kept waiting."""
LOOK_TIMEOUT_S = 3.0
"""Of those that nobody else can answer, and that only somebody who looks waits for: late is better than not at all.
Where nobody is there to be asked, the broker says so at once.
"""


class Leader:
    """Whoever leads `service` of one cluster just now."""

    def __init__(self, client: Client, *, cluster: str, service: str, timeout_s: float = LOOK_TIMEOUT_S) -> None:
        self._client = client
        self._cluster = cluster
        self._service = service
        self._timeout_s = timeout_s

    async def ask(self, name: str, question: Wire, answer: type[Answer]) -> Answer:
        """Its answer. Raises UnreachableError if nobody leads, or it fails; ProblemError if it refuses the question."""
        subject = query_subject(self._cluster, self._service, name)
        try:
            return await query.ask(self._client, subject, question, answer, timeout_s=self._timeout_s)
        except query.UnansweredError as error:
            raise UnreachableError(f"the {self._service} does not answer: {error}") from error
        except query.ProblemError as error:
            problem = error.problem
            if problem.status >= 500:
                raise UnreachableError(f"{problem.title}: {problem.detail}") from error
            raise ProblemError(
                problem.status, problem.title, detail=problem.detail, field=problem.field, cure=problem.cure
            ) from error


class NatsLeaders:
    """Implements `Leaders` for one cluster."""

    def __init__(self, client: Client, *, cluster: str) -> None:
        self._client = client
        self._cluster = cluster

    async def ask(self, service: str, name: str, question: Wire, answer: type[Answer]) -> Answer:
        """See `Leaders.ask`."""
        return await Leader(self._client, cluster=self._cluster, service=service).ask(name, question, answer)


class NoLeaders:
    """Nobody is there to be asked."""

    async def ask(self, service: str, name: str, question: Wire, answer: type[Answer]) -> Answer:  # noqa: ARG002 - the port
        """See `Leaders.ask`."""
        raise UnreachableError(f"the {service} does not answer")
