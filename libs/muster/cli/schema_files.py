"""The committed schemas: what the code says they should be, and how the files differ from it."""

import json
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import muster.schemas as contract
from muster.bus import asyncapi
from muster.bus.declaration import Declaration
from muster.cli.errors import refused, usage
from muster.schemas.export import HINT, Break, Schema, breaks, fact_schemas, render
from muster.schemas.registry import SERVICES

COMMAND = "muster schemas export"
_JSON, _ASYNCAPI = "json", "asyncapi"


@dataclass(frozen=True, slots=True)
class Difference:
    """How the files differ from the code. stale, missing, surplus: paths below the directory."""

    stale: tuple[str, ...]
    missing: tuple[str, ...]
    surplus: tuple[str, ...]
    breaks: tuple[Break, ...]

    @property
    def is_none(self) -> bool:
        """True if the files are exactly what the code says."""
        return not (self.stale or self.missing or self.surplus or self.breaks)

    def lines(self) -> list[str]:
        """What is wrong and what cures it, a line each; empty if nothing is."""
        told = [f"incompatible: {one}" for one in self.breaks]
        if self.breaks:
            told.append(f"cure: {HINT}")
        for what, paths in (("stale", self.stale), ("missing", self.missing), ("surplus", self.surplus)):
            told.extend(f"{what}: {path}" for path in paths)
        if self.stale or self.missing or self.surplus:
            told.append(f"cure: run `{COMMAND}` and commit what it writes")
        return told


def checkout_directory() -> Path:
    """proto-schemas of the checkout that the code runs from. Raises CliError outside a checkout."""
    for place in contract.__path__:
        root = Path(place).resolve().parents[1]
        if root.name == "proto-schemas":
            return root
    raise usage("--out: Muster does not run from a checkout; say where the schemas shall go")


def services() -> tuple[str, ...]:
    """Every service that this distribution holds."""
    return tuple(name for name in sorted(SERVICES) if find_spec(f"muster.{name}") and find_spec(f"muster.{name}.app"))


def declaration(service: str) -> Declaration:
    """What a service says of itself."""
    found = import_module(f"muster.{service}.declaration").DECLARATION
    assert isinstance(found, Declaration), f"muster.{service}.declaration.DECLARATION is no Declaration"
    return found


def planned() -> dict[str, str]:
    """Every file as it should be, by path below the directory."""
    facts = {f"{_JSON}/{name}": render(schema) for name, schema in fact_schemas().items()}
    documents = {f"{_ASYNCAPI}/{name}.yaml": asyncapi.render(declaration(name)) for name in services()}
    return {**facts, **documents}


def difference(directory: Path, plan: dict[str, str]) -> Difference:
    """Compare the files below `directory` with the plan."""
    there = {str(path.relative_to(directory)): path for folder, kind in ((_JSON, "*.json"), (_ASYNCAPI, "*.yaml"))
             for path in sorted((directory / folder).glob(kind))}  # fmt: skip
    old: dict[str, Schema] = {path.name: json.loads(path.read_text()) for name, path in there.items() if _is_fact(name)}
    new: dict[str, Schema] = {Path(name).name: json.loads(text) for name, text in plan.items() if _is_fact(name)}
    return Difference(
        stale=tuple(name for name, path in there.items() if name in plan and path.read_text() != plan[name]),
        missing=tuple(name for name in plan if name not in there),
        surplus=tuple(name for name in there if name not in plan),
        breaks=breaks(old, new),
    )


def write(directory: Path, plan: dict[str, str], *, allow_breaking: bool) -> int:
    """Bring the files to the plan; returns how many changed. Raises CliError (refused) on an incompatible change."""
    found = difference(directory, plan)
    if found.breaks and not allow_breaking:
        told = "; ".join(map(str, found.breaks))
        raise refused(f"{told}: {HINT} (or --allow-breaking while no log holds the fact)")
    for name in found.surplus:
        (directory / name).unlink()
    for name in (*found.stale, *found.missing):
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(plan[name], encoding="utf-8")
    return len(found.surplus) + len(found.stale) + len(found.missing)


def _is_fact(name: str) -> bool:
    return name.startswith(f"{_JSON}/")
