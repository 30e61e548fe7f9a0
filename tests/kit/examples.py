"""How many examples a property gets that plays whole histories: few in a check, ten times as many in `make hunt`."""

from hypothesis import settings

HUNT = "hunt"
"""The profile of `make hunt`, which draws other examples each time."""
HUNT_TIMES = 10


def examples(number: int) -> settings:
    """Return the settings of a property: so many examples in a check, which are the same each time."""
    times = HUNT_TIMES if settings.get_current_profile_name() == HUNT else 1
    return settings(max_examples=number * times)
