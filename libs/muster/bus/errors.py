"""What else can go wrong with a log, beside what every appender raises (`ports`)."""

from muster.bus.ports import LogError


class FactRefusedError(LogError):
    """A draft that its service may not write, or whose body is too large. A defect of the core that made it."""


class TogetherTooLargeError(LogError):
    """Drafts that must stand together do not fit in one batch. A defect of the core: ask for smaller steps."""


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
