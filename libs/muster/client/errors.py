"""Errors of the client."""

from muster.schemas.views import Problem


class MusterError(Exception):
    """Base class of all errors of this SDK."""


class RefusedError(MusterError):
    """The request was refused (4xx). `problem` names the field and a hint; the same request will fail again."""

    def __init__(self, problem: Problem) -> None:
        field = f"{problem.field}: " if problem.field else ""
        cure = f" {problem.cure}" if problem.cure else ""
        super().__init__(f"{field}{problem.detail or problem.title}.{cure}".replace("..", "."))
        self.problem = problem


class NotFoundError(RefusedError):
    """The resource does not exist (404), or is no longer kept (410)."""


class NotAllowedError(RefusedError):
    """The token is missing or invalid (401), or its principal may not do this (403)."""


class ConflictError(RefusedError):
    """Conflicts with the current state (409): the key was used for another job, or the job has ended."""


class UnreachableError(MusterError):
    """No answer, or a temporary failure (5xx), also after retries.

    The outcome of the request is unknown; sending it again with the same idempotency key is safe.
    """


class UnavailableError(UnreachableError):
    """The gateway cannot serve the request now (5xx) and names the missing service, also after retries."""


class StateDirError(UnreachableError):
    """A state directory lacks the endpoints or the token of its stack."""


def refusal(problem: Problem) -> RefusedError:
    """Return the error of a problem document."""
    match problem.status:
        case 404 | 410:
            return NotFoundError(problem)
        case 401 | 403:
            return NotAllowedError(problem)
        case 409:
            return ConflictError(problem)
        case _:
            return RefusedError(problem)
