"""Errors in the inputs of a simulation."""


class InputError(ValueError):
    """An invalid scenario, policy or trace. field: its path, as `jobs[2].nodes[0]`; reason: a hint."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}" if field else reason)
        self.field = field
        self.reason = reason
