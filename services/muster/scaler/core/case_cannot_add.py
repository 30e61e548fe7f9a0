"""Case 2: the autoscaler wants to add a node and cannot. Would GPUs alone do?"""

from muster.scaler.core.choice import Choice
from muster.scaler.core.demand import Waiting
from muster.scaler.core.enlarge import gpus_enough
from muster.scaler.core.options import Lack, Option
from muster.scaler.core.serving import add_alternative, attach, attach_alternative, nothing
from muster.scaler.core.signals import NodeRefused
from muster.scaler.core.state import State

CASE = 2


def attach_or_nothing(state: State, signal: NodeRefused, waiting: Waiting) -> Choice:
    """GPUs if they are enough, else nothing, with the reasons for both."""
    enough = gpus_enough(state, waiting)
    causes = tuple(dict.fromkeys(fact for fact in (waiting.fact, signal.fact) if fact))
    why = f"{waiting.name} waits ({waiting.reason}); no node can be added: {signal.reason}"
    others = (add_alternative(Lack("refused", signal.reason)),)
    if isinstance(enough, Option):
        return attach(CASE, enough, waiting, why=why, others=others, causes=causes)
    return nothing(CASE, enough, waiting, why=why, others=(attach_alternative(enough), *others), causes=causes)
