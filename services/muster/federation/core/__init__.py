"""The pure part of the federation."""

from muster.federation.core.core import FederationCore
from muster.federation.core.routes import Rule

__all__ = ["FederationCore", "Rule"]
