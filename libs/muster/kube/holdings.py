"""Hold a projection of every object, and compute the changes of an event or a new state. Pure.

During a comparison a journal records what was held at earlier versions, because the watch may be ahead of the server's
answer.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Generic, NamedTuple, TypeVar

from muster.kube import bounds
from muster.kube.objects import JsonObject, mapping

ViewT = TypeVar("ViewT")


class Key(NamedTuple):
    """Key of an object within its kind; the namespace is "" for cluster-scoped kinds."""

    namespace: str
    name: str


class Happened(Enum):
    """An event of an object."""

    ADDED = "added"
    MODIFIED = "modified"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class Change(Generic[ViewT]):
    """Change of one object. `before` is None if added, the last known state if deleted; `now` is None if deleted."""

    happened: Happened
    key: Key
    before: ViewT | None
    now: ViewT | None


@dataclass(slots=True)
class _Held(Generic[ViewT]):
    version: int
    uid: str
    view: ViewT | None
    """None for an object that the projection ignores; it is kept for comparisons."""


class Holdings(Generic[ViewT]):
    """Views by key. `project` keeps the fields of interest, or returns None to ignore an object; equal views are no
    change."""

    def __init__(self, project: Callable[[JsonObject], ViewT | None]) -> None:
        self._project = project
        self._held: dict[Key, _Held[ViewT]] = {}
        self._coming: dict[Key, _Held[ViewT]] = {}
        self._journal: _Journal | None = None
        self.version = 0
        """All changes up to this version are included."""

    def __len__(self) -> int:
        return len(self._held)

    def get(self, key: Key) -> ViewT | None:
        """Return the view of an object; None if it is absent or ignored."""
        held = self._held.get(key)
        return None if held is None else held.view

    def items(self) -> Iterator[tuple[Key, ViewT]]:
        """Return all views. Do not change the holdings while iterating."""
        return ((key, held.view) for key, held in self._held.items() if held.view is not None)

    def apply(self, obj: JsonObject, *, deleted: bool) -> Iterable[Change[ViewT]]:
        """Apply one watch event and return its changes, usually one or none."""
        metadata = mapping(obj, "metadata")
        key, version = _key(metadata), _version(metadata)
        old = self._held.get(key)
        self.version = max(self.version, version)
        if deleted:
            return self._deleted(key, old, obj, version)
        if old is not None and version < old.version:
            return ()  # an older state: a resumed watch may repeat events
        uid = str(metadata.get("uid", ""))
        view = self._project(obj)
        if old is None or old.uid != uid:
            self._held[key] = _Held(version, uid, view)
            self._note(key, version)
            return (*_gone(key, old), *_come(key, view))
        old.version = version
        before = old.view
        if view == before:
            return ()
        old.view = view
        return _changed(key, before, view)

    def begin(self) -> None:
        """Begin to receive a new state; the held one stays until `swap`."""
        self._coming = {}

    def bring(self, obj: JsonObject, *, deleted: bool = False) -> None:
        """Add one object of the new state, or apply an event that arrived between its objects."""
        metadata = mapping(obj, "metadata")
        key = _key(metadata)
        if deleted:
            self._coming.pop(key, None)
            return
        view, old = self._project(obj), self._held.get(key)
        if old is not None and old.view == view:
            view = old.view  # share the copy: most of a new state of 100,000 objects is already held
        self._coming[key] = _Held(_version(metadata), str(metadata.get("uid", "")), view)

    def swap(self, version: int) -> list[Change[ViewT]]:
        """Switch to the complete new state and return the differences, deletions first."""
        old_state, self._held, self._coming = self._held, self._coming, {}
        self.version = version
        self._journal = None
        changes: list[Change[ViewT]] = []
        for key, old in old_state.items():
            new = self._held.get(key)
            if new is None or new.uid != old.uid:
                changes.extend(_gone(key, old))
        for key, new in self._held.items():
            was = old_state.get(key)
            if was is None or was.uid != new.uid:
                changes.extend(_come(key, new.view))
            elif was.view != new.view:
                changes.extend(_changed(key, was.view, new.view))
        return changes

    def reached(self, version: int) -> None:
        """Advance to a bookmark's version."""
        self.version = max(self.version, version)

    def compare(self) -> int:
        """Begin a journal for `count_at` and `differences`; returns its first version."""
        self._journal = _Journal(self.version, len(self._held))
        return self.version

    def stop_comparing(self) -> None:
        """Drop the journal."""
        self._journal = None

    @property
    def comparable(self) -> bool:
        """Return whether the journal is still valid: no new state arrived, and it is not full."""
        return self._journal is not None and len(self._journal.counts) <= bounds.JOURNAL_MAX

    def count_at(self, version: int) -> int:
        """Return the number of objects held at a version since `compare`."""
        assert self._journal is not None
        assert self.version >= version
        return self._journal.count_at(version)

    def differences(self, listed: Mapping[Key, int], version: int) -> list[Key]:
        """Return the keys that differ from `listed`, the server's resourceVersions at `version`."""
        assert self._journal is not None
        assert self.version >= version
        deleted = self._journal.deleted
        wrong: list[Key] = []
        for key, there in listed.items():
            held = self._held.get(key)
            if (deleted.get(key, 0) if held is None else held.version) < there:
                wrong.append(key)
        wrong.extend(key for key, held in self._held.items() if held.version <= version and key not in listed)
        return wrong

    def _deleted(self, key: Key, old: _Held[ViewT] | None, obj: JsonObject, version: int) -> Iterable[Change[ViewT]]:
        if old is None:
            return ()
        del self._held[key]
        self._note(key, version, deleted=True)
        if old.view is None:
            return ()
        last = self._project(obj)
        return (Change(Happened.DELETED, key, old.view if last is None else last, None),)

    def _note(self, key: Key, version: int, *, deleted: bool = False) -> None:
        if self._journal is not None:
            self._journal.counts.append((version, len(self._held)))
            if deleted:
                self._journal.deleted[key] = version


class _Journal:
    """Counts by version, and deletions, since a comparison began."""

    def __init__(self, version: int, count: int) -> None:
        self.counts = [(version, count)]
        self.deleted: dict[Key, int] = {}
        """Versions of deletions: an object listed at a later version was created after."""

    def count_at(self, version: int) -> int:
        return next(count for at, count in reversed(self.counts) if at <= version)


def _key(metadata: JsonObject) -> Key:
    return Key(str(metadata.get("namespace", "")), str(metadata.get("name", "")))


def _version(metadata: JsonObject) -> int:
    return number(str(metadata.get("resourceVersion", "")))


def number(version: str) -> int:
    """Return a resourceVersion as a number: those of one kind are ordered (KEP-5504). 0 for none."""
    return int(version) if version.isdecimal() else 0


def _gone(key: Key, old: _Held[ViewT] | None) -> tuple[Change[ViewT], ...]:
    if old is None or old.view is None:
        return ()
    return (Change(Happened.DELETED, key, old.view, None),)


def _come(key: Key, view: ViewT | None) -> tuple[Change[ViewT], ...]:
    return () if view is None else (Change(Happened.ADDED, key, None, view),)


def _changed(key: Key, before: ViewT | None, now: ViewT | None) -> tuple[Change[ViewT], ...]:
    if now is None:
        return (Change(Happened.DELETED, key, before, None),)
    if before is None:
        return (Change(Happened.ADDED, key, None, now),)
    return (Change(Happened.MODIFIED, key, before, now),)
