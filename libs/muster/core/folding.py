"""The table of a core from facts to the functions that fold them."""

from collections.abc import Callable
from typing import Generic, TypeVar, cast, overload

from muster.core.fact import Fact
from muster.schemas.record import FactBody
from muster.schemas.registry import STATE_TABLE, TABLE

StateT = TypeVar("StateT")
PartT = TypeVar("PartT")
ResultT = TypeVar("ResultT")
BodyT = TypeVar("BodyT", bound=FactBody)
OtherT = TypeVar("OtherT", bound=FactBody)

Fold = Callable[[StateT, Fact, BodyT], ResultT]
Register = Callable[[Fold[StateT, BodyT, ResultT]], Fold[StateT, BodyT, ResultT]]

_Key = tuple[str, str, type[FactBody]]
_Bodies = type[FactBody] | tuple[type[FactBody], ...]

_KNOWN: dict[tuple[str, str], dict[type[FactBody], None]] = {}
"""Bodies of each fact, by kind and name: of recorded states each writer has its own."""
for _row in (*TABLE, *STATE_TABLE):
    _KNOWN.setdefault((_row.kind, _row.name), {})[_row.payload] = None


class Folds(Generic[StateT, ResultT]):
    """Functions that fold facts into a state, by the fact's kind and name and the class of its body.

    Build a table at import and change it no more. Methods fold too: the object is the state then.
    """

    def __init__(self, *others: "Folds[StateT, ResultT]") -> None:
        """Begin with the functions of other tables. Raises ValueError if two of them fold the same fact."""
        self.table: dict[_Key, Fold[StateT, FactBody, ResultT]] = {}
        """By kind, name and class of the body. For reading."""
        self._by_name: dict[tuple[str, str], Fold[StateT, FactBody, ResultT | None]] = {}
        for other in others:
            for key, fold in other.table.items():
                self._add(key, fold)

    @overload
    def on(
        self, kinds: str | tuple[str, ...], names: str | tuple[str, ...], bodies: type[BodyT]
    ) -> Register[StateT, BodyT, ResultT]: ...

    @overload
    def on(
        self, kinds: str | tuple[str, ...], names: str | tuple[str, ...], bodies: tuple[type[BodyT], type[OtherT]]
    ) -> Register[StateT, BodyT | OtherT, ResultT]: ...

    def on(
        self,
        kinds: str | tuple[str, ...],
        names: str | tuple[str, ...],
        bodies: type[BodyT] | tuple[type[BodyT], type[OtherT]],
    ) -> Register[StateT, BodyT, ResultT] | Register[StateT, BodyT | OtherT, ResultT]:
        """Fold facts of these kinds and names with the decorated function.

        bodies: the class, or classes, that they have in the table of facts, or a base of it. Raises ValueError for a
        fact that is not in that table, that has another body there, or that is folded already.
        """
        kinds = (kinds,) if isinstance(kinds, str) else kinds
        names = (names,) if isinstance(names, str) else names
        keys = [key for kind in kinds for name in names for key in _keys(kind, name, cast("_Bodies", bodies))]

        def register(fold: Fold[StateT, BodyT, ResultT]) -> Fold[StateT, BodyT, ResultT]:
            for key in keys:  # they say which bodies `apply` gives it
                self._add(key, cast("Fold[StateT, FactBody, ResultT]", fold))
            return fold

        return register

    def include(self, other: "Folds[PartT, ResultT]", part: Callable[[StateT], PartT]) -> None:
        """Fold also what a part of the state folds. part: returns it. Raises ValueError for a fact folded already."""
        for key, fold in other.table.items():
            self._add(key, _of_part(fold, part))

    def apply(self, state: StateT, fact: Fact) -> ResultT | None:
        """Fold one fact. Return what its function returns; None if there is none, which costs one look-up.

        The body is of the class that the table of facts says: who reads or writes a log has seen to that.
        """
        fold = self._by_name.get((fact.kind, fact.name))
        return None if fold is None else fold(state, fact, fact.payload)

    def __contains__(self, fact: Fact) -> bool:
        """Whether facts of this kind and name are folded; of recorded states perhaps only other bodies."""
        return (fact.kind, fact.name) in self._by_name

    def _add(self, key: _Key, fold: Fold[StateT, FactBody, ResultT]) -> None:
        kind, name, body = key
        if key in self.table:
            raise ValueError(f"on: {kind} {name} with {body.__name__} is folded already; only one function may")
        self.table[key] = fold
        self._by_name[kind, name] = fold if len(_KNOWN[kind, name]) == 1 else self._fold_by_body

    def _fold_by_body(self, state: StateT, fact: Fact, body: FactBody) -> ResultT | None:
        fold = self.table.get((fact.kind, fact.name, body.__class__))
        return None if fold is None else fold(state, fact, body)


def _keys(kind: str, name: str, bodies: _Bodies) -> list[_Key]:
    """Return the rows of the table of facts, at least one. Raises ValueError."""
    known = _KNOWN.get((kind, name))
    if known is None:
        raise ValueError(f"on: there is no fact {kind} {name} in the table of facts")
    found = [(kind, name, body) for body in known if issubclass(body, bodies)]
    if not found:
        raise ValueError(f"on: the body of {kind} {name} is {_titles(tuple(known))}, not {_titles(bodies)}")
    return found


def _titles(bodies: _Bodies) -> str:
    return ", ".join(body.__name__ for body in (bodies if isinstance(bodies, tuple) else (bodies,)))


def _of_part(fold: Fold[PartT, FactBody, ResultT], part: Callable[[StateT], PartT]) -> Fold[StateT, FactBody, ResultT]:
    return lambda state, fact, body: fold(part(state), fact, body)
