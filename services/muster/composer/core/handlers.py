"""What folds one sort of fact."""

from collections.abc import Callable

from muster.composer.core.state import State
from muster.core import Fact

Handler = Callable[[State, Fact], None]
