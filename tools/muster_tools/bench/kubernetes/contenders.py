"""Which scenario plays which contender."""

from muster_tools.bench.kubernetes.plan import Contender
from muster_tools.bench.kubernetes.scenarios.floor import Floor
from muster_tools.bench.kubernetes.scenarios.muster import MusterStack
from muster_tools.bench.kubernetes.scenarios.old_stack import OldStack
from muster_tools.bench.kubernetes.scenarios.scheduled import KubeScheduler
from muster_tools.bench.kubernetes.stage import Scenario
from muster_tools.local_kubernetes.options import Profile


def scenario_of(contender: Contender) -> Scenario:
    """The contender's scenario."""
    match contender:
        case Contender.FLOOR:
            return Floor()
        case Contender.DEFAULT:
            return KubeScheduler(contender, Profile.DEFAULT)
        case Contender.BIN_PACKING:
            return KubeScheduler(contender, Profile.BIN_PACKING)
        case Contender.OLD_STACK:
            return OldStack()
        case Contender.CLAIMS:
            return KubeScheduler(contender, Profile.DEFAULT, claims=True)
        case Contender.MUSTER | Contender.MUSTER_CLAIMS:
            return MusterStack(contender, claims=contender is Contender.MUSTER_CLAIMS)
