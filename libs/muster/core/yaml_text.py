"""YAML (or JSON) text as values, with limits: a few lines of nested aliases can mean billions of values.

Limits are checked while the text is parsed, event by event, so that refusing a hostile text costs no more than its
length justifies. A repeated key is an error, which YAML parsers silently resolve to the last one.
"""

from dataclasses import dataclass, field
from typing import Protocol, cast

import yaml

ALIASED_MAX = 100_000
DEPTH_MAX = 32
KEY_SHOWN = 100
"""Characters of a key that an error shows."""

_LOADER: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class YamlLimits:
    """Limits of a text."""

    characters: int
    """Characters of the text."""
    aliased: int = ALIASED_MAX
    """Values that aliases and merge keys repeat."""
    depth: int = DEPTH_MAX
    """Levels of lists and mappings."""


class YamlTextError(ValueError):
    """The text is not YAML or exceeds a limit."""

    def __init__(self, line: int, problem: str, *, field: str = "") -> None:
        super().__init__((f"{field}: " if field else "") + problem + (f" (line {line})" if line else ""))
        self.line = line
        """Line of the text, from 1; 0 if the error concerns the whole text."""
        self.field = field
        """Path such as `jobs[2].nodes`; "" if only the line is known."""
        self.problem = problem


class _Parser(Protocol):
    """Methods that PyYAML's types omit."""

    def get_event(self) -> yaml.Event: ...

    def resolve(self, kind: type[yaml.Node], value: str | None, implicit: object) -> str: ...


@dataclass(slots=True)
class _Open:
    """A list or mapping that is not read to its end. `size`: values in it so far, itself and aliases included."""

    node: yaml.CollectionNode
    anchor: str | None
    children: list[yaml.Node] = field(default_factory=list)
    size: int = 1


class _Composer:
    """Builds the nodes of one document from its events."""

    def __init__(self, loader: yaml.SafeLoader, limits: YamlLimits) -> None:
        self._loader = loader
        self._limits = limits
        self._open: list[_Open] = []
        self._anchors: dict[str, tuple[yaml.Node, int]] = {}
        self._aliased = 0
        self.root: yaml.Node | None = None

    def take(self, event: yaml.Event) -> None:
        """Process one event between the start of a document and its end."""
        match event:
            case yaml.AliasEvent():
                self._alias(event)
            case yaml.ScalarEvent():
                tag = self._tag(yaml.ScalarNode, event.tag, event.value, event.implicit)
                node = yaml.ScalarNode(tag, event.value, _mark(event), style=event.style)
                self._done(node, event.anchor, 1)
            case yaml.SequenceStartEvent():
                self._begin(yaml.SequenceNode, event)
            case yaml.MappingStartEvent():
                self._begin(yaml.MappingNode, event)
            case _:
                self._end()

    def _begin(self, kind: type[yaml.CollectionNode], event: yaml.CollectionStartEvent) -> None:
        if len(self._open) >= self._limits.depth:
            raise self._error(event, f"is nested deeper than {self._limits.depth} levels; flatten it")
        tag = self._tag(kind, event.tag, None, event.implicit)
        self._open.append(_Open(kind(tag, [], _mark(event)), event.anchor))

    def _alias(self, event: yaml.AliasEvent) -> None:
        if any(one.anchor == event.anchor for one in self._open):
            raise self._error(event, "refers to itself (a cyclic alias); write the value out")
        if event.anchor not in self._anchors:
            raise self._error(event, f"the alias {event.anchor!a} has no anchor before it")
        node, size = self._anchors[event.anchor]
        self._aliased += size
        if self._aliased > self._limits.aliased:
            raise self._error(event, f"its aliases stand for more than {self._limits.aliased} values; write them out")
        self._done(node, None, size)

    def _end(self) -> None:
        ended = self._open.pop()
        if isinstance(ended.node, yaml.MappingNode):
            keys = ended.children[::2]
            self._refuse_twice(keys)
            ended.node.value = list(zip(keys, ended.children[1::2], strict=True))
        else:
            ended.node.value = ended.children
        self._done(ended.node, ended.anchor, ended.size)

    def _done(self, node: yaml.Node, anchor: str | None, size: int) -> None:
        if anchor is not None:
            self._anchors[anchor] = node, size
        if self._open:
            self._open[-1].children.append(node)
            self._open[-1].size += size
        else:
            self.root = node

    def _refuse_twice(self, keys: list[yaml.Node]) -> None:
        seen: set[tuple[str, str]] = set()
        for key in keys:
            if isinstance(key, yaml.ScalarNode):
                if (key.tag, key.value) in seen:
                    raise self._error(key, f"the key {key.value[:KEY_SHOWN]!a} is written twice; keep one", key.value)
                seen.add((key.tag, key.value))

    def _error(self, at: yaml.Event | yaml.Node, problem: str, key: str = "") -> YamlTextError:
        """Return an error at the next value, or at a key of the mapping that just ended."""
        field = ""
        for one in self._open:
            last = one.children[-1] if one.children else None
            if isinstance(one.node, yaml.SequenceNode):
                field += f"[{len(one.children)}]"
            elif len(one.children) % 2 and isinstance(last, yaml.ScalarNode):
                field += f".{last.value[:KEY_SHOWN]}"
        field += f".{key[:KEY_SHOWN]}" if key else ""
        return YamlTextError(_mark(at).line + 1, problem, field=field.removeprefix("."))

    def _tag(self, kind: type[yaml.Node], tag: str | None, value: str | None, implicit: object) -> str:
        if tag is None or tag == "!":
            return cast("_Parser", self._loader).resolve(kind, value, implicit)
        return tag


def yaml_nodes(text: str, limits: YamlLimits) -> list[yaml.Node]:
    """Return the root of each document that is not empty. Raise YamlTextError."""
    if len(text) > limits.characters:
        raise YamlTextError(0, f"{len(text)} characters, at most {limits.characters} are read; split the file")
    try:
        loader = _LOADER(text)
        try:
            return _documents(loader, limits)
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = str(getattr(error, "problem", None) or error).splitlines()[0]
        raise YamlTextError(mark.line + 1 if mark is not None else 0, f"is neither YAML nor JSON: {problem}") from error


def yaml_values(text: str, limits: YamlLimits) -> list[object]:
    """Return the value of each document that is not empty. Raise YamlTextError."""
    return [_constructed(node) for node in yaml_nodes(text, limits)]


def yaml_value(text: str, limits: YamlLimits) -> object:
    """Return the value of the one document; None if the text is empty. Raise YamlTextError."""
    root = yaml_root(text, limits)
    return None if root is None else _constructed(root)


def yaml_root(text: str, limits: YamlLimits) -> yaml.Node | None:
    """Return the root of the one document; None if the text is empty. Raise YamlTextError."""
    roots = yaml_nodes(text, limits)
    if len(roots) > 1:
        raise YamlTextError(_mark(roots[1]).line + 1, f"a second of {len(roots)} documents; write one")
    return roots[0] if roots else None


def _constructed(node: yaml.Node) -> object:
    try:
        found: object = yaml.constructor.SafeConstructor().construct_document(node)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark is not None else 0
        raise YamlTextError(line, f"holds a value that cannot be read: {error.problem}") from error
    except ValueError as error:  # an invalid date, or a number of thousands of digits
        raise YamlTextError(0, f"holds a value that cannot be read: {error}") from error
    return found


def _documents(loader: yaml.SafeLoader, limits: YamlLimits) -> list[yaml.Node]:
    roots: list[yaml.Node] = []
    composer = _Composer(loader, limits)
    while loader.check_event():
        event = cast("_Parser", loader).get_event()
        match event:
            case yaml.StreamStartEvent() | yaml.StreamEndEvent():
                pass
            case yaml.DocumentStartEvent():
                composer = _Composer(loader, limits)
            case yaml.DocumentEndEvent():
                if composer.root is not None:
                    roots.append(composer.root)
            case _:
                composer.take(event)
    return roots


def _mark(at: yaml.Event | yaml.Node) -> yaml.error.Mark:
    """Return the start of a node or event; only nodes and events that were not parsed have none."""
    return cast("yaml.error.Mark", at.start_mark)
