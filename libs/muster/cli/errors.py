"""How a command ends: the exit codes, and the one error that carries them to the shell."""

from enum import IntEnum


class ExitCode(IntEnum):
    """What the shell learns. Usage: the command or a file it read is wrong; refused: Muster said no.

    Jobs failed: only of commands that wait for jobs (`--watch`, `watch ID`).
    """

    OK = 0
    JOBS_FAILED = 1
    USAGE = 2
    REFUSED = 3
    UNREACHABLE = 4


class CliError(Exception):
    """Ends the command with `code`; the message is one sentence that names the field and the cure."""

    def __init__(self, message: str, *, code: ExitCode = ExitCode.USAGE) -> None:
        super().__init__(message)
        self.code = code


def usage(message: str) -> CliError:
    """The command, or a file that it read, is wrong."""
    return CliError(message, code=ExitCode.USAGE)


def refused(message: str) -> CliError:
    """Muster answered, and said no."""
    return CliError(message, code=ExitCode.REFUSED)


def unreachable(message: str) -> CliError:
    """Nobody answered."""
    return CliError(message, code=ExitCode.UNREACHABLE)


class JobsFailedError(CliError):
    """The command did what it should, and a job that it waited for did not succeed: exit code 1."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code=ExitCode.JOBS_FAILED)
