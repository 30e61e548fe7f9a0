"""Fold tables: which function of a core folds which fact."""

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
"""Bodies of each fact, by kind and name; each writer has its own body of a recorded state."""
for _row in (*TABLE, *STATE_TABLE):
    _KNOWN.setdefault((_row.kind, _row.name), {})[_row.payload] = None


class Folds(Generic[StateT, ResultT]):
    """Functions that fold facts into a state, by the fact's kind and name and the class of its body.

    Build a table at import and do not change it afterwards. Methods may fold too: the object is the state then.
    """

    def __init__(self, *others: "Folds[StateT, ResultT]") -> None:
        """Start with the functions of other tables. Raise ValueError if two of them fold the same fact."""
        self.table: dict[_Key, Fold[StateT, FactBody, ResultT]] = {}
        """By kind, name and class of the body. Read-only."""
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

        `bodies` are their classes in the table of facts, or a base of them. Raise ValueError for a fact that is not in
        that table, has another body there, or is folded already.
        """
        kinds = (kinds,) if isinstance(kinds, str) else kinds
        names = (names,) if isinstance(names, str) else names
        keys = [key for kind in kinds for name in names for key in _keys(kind, name, cast("_Bodies", bodies))]

        def register(fold: Fold[StateT, BodyT, ResultT]) -> Fold[StateT, BodyT, ResultT]:
            for key in keys:  # the keys determine which bodies `apply` passes
                self._add(key, cast("Fold[StateT, FactBody, ResultT]", fold))
            return fold

        return register

    def include(self, other: "Folds[PartT, ResultT]", part: Callable[[StateT], PartT]) -> None:
        """Add the table of a part of the state, which `part` returns. Raise ValueError for a fact folded already."""
        for key, fold in other.table.items():
            self._add(key, _of_part(fold, part))

    def apply(self, state: StateT, fact: Fact) -> ResultT | None:
        """Fold one fact. Return the result of its function; None if there is none, which costs one look-up.

        The body has the class of the table of facts: readers and writers of a log ensure it.
        """
        fold = self._by_name.get((fact.kind, fact.name))
        return None if fold is None else fold(state, fact, fact.payload)

    def __contains__(self, fact: Fact) -> bool:
        """Return whether facts of this kind and name are folded; for recorded states perhaps only other bodies."""
        return (fact.kind, fact.name) in self._by_name

    def _add(self, key: _Key, fold: Fold[StateT, FactBody, ResultT]) -> None:
        kind, name, body = key
        if key in self.table:
            raise ValueError(
                f"on: {kind} {name} with {body.__name__} is folded already: a fact has one function per table"
            )
        self.table[key] = fold
        self._by_name[kind, name] = fold if len(_KNOWN[kind, name]) == 1 else self._fold_by_body

    def _fold_by_body(self, state: StateT, fact: Fact, body: FactBody) -> ResultT | None:
        fold = self.table.get((fact.kind, fact.name, body.__class__))
        return None if fold is None else fold(state, fact, body)


def _keys(kind: str, name: str, bodies: _Bodies) -> list[_Key]:
    """Return the rows of the table of facts, at least one. Raise ValueError if there is none."""
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
