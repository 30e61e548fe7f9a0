"""One decision as the cases make it, before it has a name in the log."""

from dataclasses import dataclass

from muster.core import Draft
from muster.scaler.core.choices import REMOVE_NODE
from muster.schemas.facts.node import WithholdRequested
from muster.schemas.facts.scale import NothingChosen, ScaleChosen


@dataclass(frozen=True, slots=True)
class Choice:
    """name: of its fact. causes: ids of the facts that led to it. trace: of the job that it is for, "" for none."""

    name: str
    payload: ScaleChosen | NothingChosen
    causes: tuple[str, ...] = ()
    trace: str = ""

    @property
    def code(self) -> str:
        """What stands in the way, of a choice of nothing; "" of others."""
        return self.payload.code if isinstance(self.payload, NothingChosen) else ""

    def drafts(self, choice_id: str) -> list[Draft]:
        """Its fact under this name; with a node that goes, the request to withhold it, never one without the other."""
        payload = self.payload
        if self.name != REMOVE_NODE or not isinstance(payload, ScaleChosen):
            return [Draft("scale", choice_id, self.name, payload, self.causes, self.trace)]
        chosen = payload.model_copy(update={"request_id": choice_id})
        wish = WithholdRequested(request_id=choice_id, reason=payload.reason)
        return [
            Draft("scale", choice_id, self.name, chosen, self.causes, self.trace, together=choice_id),
            Draft("node", payload.node, "withhold-requested", wish, self.causes, self.trace, together=choice_id),
        ]
