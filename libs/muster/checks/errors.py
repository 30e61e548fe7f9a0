"""What can be wrong with checks as somebody named them."""


class CheckError(ValueError):
    """A check, a suite or a parameter that does not exist or cannot be. The text says which, and what there is."""
