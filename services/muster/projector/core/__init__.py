"""The pure part: facts in, rows of the read model out."""

from muster.projector.core.fed import FedProjectorCore
from muster.projector.core.log import ProjectorCore
from muster.projector.core.projection import Projection

__all__ = ["FedProjectorCore", "Projection", "ProjectorCore"]
