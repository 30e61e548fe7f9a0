"""What can go wrong when one talks to Muster."""

from muster.schemas.views import Problem


class MusterError(Exception):
    """Every error of this SDK."""


class RefusedError(MusterError):
    """Muster answered, and said no (4xx). `problem` names the field and the cure; the same request will fail again."""

    def __init__(self, problem: Problem) -> None:
        field = f"{problem.field}: " if problem.field else ""
        cure = f" {problem.cure}" if problem.cure else ""
        super().__init__(f"{field}{problem.detail or problem.title}.{cure}".replace("..", "."))
        self.problem = problem


class NotFoundError(RefusedError):
    """There is none of that name (404), or it is no longer kept (410)."""


class NotAllowedError(RefusedError):
    """The token is missing or unknown (401), or its bearer may not do this (403)."""


class ConflictError(RefusedError):
    """It contradicts what stands (409): the key was used for another job, or the job has ended."""


class UnreachableError(MusterError):
    """Nobody answered, or only that it cannot be served now (5xx), also after retries.

    Whether a request took effect is unknown; sending it again with the same idempotency key is safe.
    """


class UnavailableError(UnreachableError):
    """The gateway answered that it cannot serve this now, and says who is away (5xx), also after retries."""


class StateDirError(UnreachableError):
    """A state directory does not say where its stack listens, or with which token."""


def refusal(problem: Problem) -> RefusedError:
    """The error of a problem document."""
    match problem.status:
        case 404 | 410:
            return NotFoundError(problem)
        case 401 | 403:
            return NotAllowedError(problem)
        case 409:
            return ConflictError(problem)
        case _:
            return RefusedError(problem)
