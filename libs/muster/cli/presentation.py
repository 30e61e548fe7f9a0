"""How the results of a command are printed: chosen by the options of the command, read by muster.cli.output."""

from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from muster.cli.jsonpath import JsonPath


class Encoding(StrEnum):
    """The encoding of documents."""

    JSON = "json"
    YAML = "yaml"
    NAME = "name"
    """The id or name of each object, one per line."""
    JSONPATH = "jsonpath"


class Color(StrEnum):
    """When results are colored."""

    AUTO = "auto"
    """On terminals, unless NO_COLOR is set."""
    ALWAYS = "always"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Presentation:
    """The options that apply to every table and document of a command."""

    encoding: Encoding = Encoding.JSON
    path: "JsonPath | None" = None
    """The template of Encoding.JSONPATH."""
    csv: bool = False
    """Print tables as CSV."""
    headers: bool = True
    sort_by: str = ""
    """A column of the table or a field of the documents; `-FIELD`: descending; "": the order of the command."""
    color: Color = Color.AUTO
    pager: bool = True
    """Show long results on a terminal in a pager."""


_chosen: ContextVar[Presentation] = ContextVar("chosen_presentation", default=Presentation())  # noqa: B039 - frozen


def choose(presentation: Presentation) -> None:
    """Set the presentation for the rest of the command."""
    _chosen.set(presentation)


def reset() -> None:
    """Forget the presentation of an earlier command of this process."""
    _chosen.set(Presentation())


def chosen() -> Presentation:
    """Return the presentation of the command."""
    return _chosen.get()
