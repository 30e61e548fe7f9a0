"""Errors in the inputs of a simulation."""


class InputError(ValueError):
    """A scenario, policy or trace that cannot be. field: where, as `jobs[2].nodes[0]`; reason: what to do about it."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}" if field else reason)
        self.field = field
        self.reason = reason
