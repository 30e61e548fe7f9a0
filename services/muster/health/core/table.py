"""What folds one sort of fact."""

from collections.abc import Callable

from muster.core import Fact
from muster.health.core.state import State

Fold = Callable[[State, Fact], None]
