"""What else can go wrong with a log, beside what every appender raises (`ports`)."""

from collections.abc import Sequence

from muster.bus.ports import DraftsRefusedError, LogError, Refusal, Refused, StaleFenceError


class FactRefusedError(LogError):
    """A draft that its service may not write, or that is too large. A defect of the core that made it."""


class TogetherTooLargeError(DraftsRefusedError):
    """Drafts that must stand together do not fit in one batch. A defect of the core: ask for smaller steps."""

    def __init__(self, detail: str, indexes: Sequence[int]) -> None:
        super().__init__([Refused(index, Refusal.TOGETHER, detail) for index in indexes[:1]])


class FenceBrokenError(StaleFenceError):
    """The newest message on a service's fence subject is no fence of that service: nobody can append for it.

    seq: of that message.
    """

    def __init__(self, stream: str, subject: str, service: str, *, seq: int, why: str) -> None:
        super().__init__(
            f"{stream}: message {seq} on {subject} is no fence of {service} ({why}), so nobody can lead it; "
            f"repair it: muster log repair-fence --service {service}"
        )
        self.seq = seq


class FactsMissingError(LogError):
    """The log no longer holds what a reader has yet to fold (trimmed), or no longer what it folded (store lost)."""


class StreamConflictError(LogError):
    """A stream stands there with something that cannot be changed safely; names the stream and the field."""


class ArchiveError(LogError):
    """An archive cannot be written or read, or the stream that it should go into is not empty."""


class TrimRefusedError(LogError):
    """A trim would remove what is still needed: facts too young, or a fence that a live leader counts on."""


class ApiError(LogError):
    """JetStream refused a request. `err_code` is its own number of the error (the HTTP-like `code` is coarser)."""

    def __init__(self, err_code: int, description: str) -> None:
        super().__init__(f"JetStream error {err_code}: {description}")
        self.err_code = err_code
        self.description = description
