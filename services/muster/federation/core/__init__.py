"""The pure part of the federation."""

from muster.federation.core.core import FederationCore
from muster.federation.core.state import MemberPlan

__all__ = ["FederationCore", "MemberPlan"]
