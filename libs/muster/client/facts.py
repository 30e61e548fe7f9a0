"""Facts as the SDK gives them: as people see them, with the body as its own type."""

from functools import cached_property

from muster.schemas.record import FactBody
from muster.schemas.registry import StreamRole, fact_type
from muster.schemas.subjects import FED_STREAM
from muster.schemas.views import FactView


class TypedFact(FactView):
    """A fact whose `payload` is read on demand: most readers look at the name alone."""

    @cached_property
    def payload(self) -> FactBody | None:
        """The body in its own type; None if this version does not know the fact (a newer Muster wrote it).

        Raises pydantic.ValidationError if the body does not fit its type.
        """
        role = StreamRole.FED if self.stream == FED_STREAM else StreamRole.LOG
        row = fact_type(role, self.writer, self.kind, self.name)
        return None if row is None else row.payload.model_validate_json(self.body)
