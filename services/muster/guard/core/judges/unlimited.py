"""`lists-unlimited`: nothing holds back LISTs of a kind that the settings name."""

from muster.guard.core.config import GuardConfig
from muster.guard.core.judges.finding import Finding, finding
from muster.guard.core.look import FlowLook, Look

CODE = "lists-unlimited"
_CURE = "run `muster guard apply`, or let the guard do it: setting guard.apply"
_STREAMS_SINCE = (1, 33)
_ENCODES = (
    "; these API servers encode a LIST as a whole in memory, so that a burst of large ones can end them (from 1.33 on "
    "they stream JSON and Protobuf)"
)


def judge(look: Look, config: GuardConfig) -> list[Finding] | None:
    """None while levels may not be read. The guard that applies flow control itself says `drifted` instead."""
    if look.levels is None:
        return None
    if config.apply:
        return []
    return [_finding(look, flow) for flow in look.flows if not flow.is_right]


def _finding(look: Look, flow: FlowLook) -> Finding:
    has = "there is no level for it" if flow.found is None else f"level {flow.level} has {_seats(flow.found)}"
    return finding(
        code=CODE,
        about=flow.resource,
        severity="warning" if _encodes_whole(look) else "info",
        degree=1.0,
        detail=(
            f"LISTs of {flow.resource} are not held back to {flow.wanted} at a time: {has}"
            f"{_ENCODES if _encodes_whole(look) else ''}"
        ),
        cure=_CURE if flow.total else flow.reason,
        figures=(("seats_wanted", float(flow.wanted)),),
    )


def _seats(found: tuple[int, int]) -> str:
    low, high = found
    return f"{low} seats" if low == high else f"{low} to {high} seats"


def _encodes_whole(look: Look) -> bool:
    """Whether some API server is older than streaming encoding."""
    return any(
        version < _STREAMS_SINCE for replica in look.up if replica.page and (version := minor_of(replica.page.version))
    )


def minor_of(version: str) -> tuple[int, int] | None:
    """(1, 34) of "v1.34.4"; None of what is no version."""
    parts = version.removeprefix("v").split(".")
    try:
        return int(parts[0]), int("".join(letter for letter in parts[1] if letter.isdecimal()))
    except (IndexError, ValueError):
        return None
