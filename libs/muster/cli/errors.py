"""Define the exit codes, and the error that carries them."""

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of commands. JOBS_FAILED is only for commands that wait for jobs (`--watch`, `watch ID`)."""

    OK = 0
    JOBS_FAILED = 1
    USAGE = 2
    REFUSED = 3
    UNREACHABLE = 4


class CliError(Exception):
    """Ends the command with `code`; the message is a sentence that names the field and the remedy."""

    def __init__(self, message: str, *, code: ExitCode = ExitCode.USAGE) -> None:
        super().__init__(message)
        self.code = code


def usage(message: str) -> CliError:
    """Return the error for an invalid command or input file."""
    return CliError(message, code=ExitCode.USAGE)


def refused(message: str) -> CliError:
    """Return the error for a request that Muster refused."""
    return CliError(message, code=ExitCode.REFUSED)


def unreachable(message: str) -> CliError:
    """Return the error for a server that did not answer."""
    return CliError(message, code=ExitCode.UNREACHABLE)


class JobsFailedError(CliError):
    """A job that the command waited for did not succeed: exit code 1."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code=ExitCode.JOBS_FAILED)
