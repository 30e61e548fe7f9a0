"""Encode the results of checks for a container's termination message.

One letter per field, since the kubelet cuts at 4,096 bytes: texts are shortened until it fits, outcomes never are.
"""

import json
from collections.abc import Iterator, Sequence

from muster.schemas.facts.operations import CheckOrder, CheckOutcome, CheckResult

MESSAGE_BYTES_MAX = 4096
"""Maximum size of a container's termination message, by the kubelet."""
_WORDS_MAX = (400, 120, 40, 0)
_VERSION = 1
NUMBER_MAX = 1e300
"""A larger value, or one that is not a number, counts as not measured."""


def dump(results: Sequence[CheckResult], *, bytes_max: int = MESSAGE_BYTES_MAX) -> str:
    """Return all results in at most this number of bytes, or as short as possible."""
    text = ""
    for most in _WORDS_MAX:
        text = json.dumps({"v": _VERSION, "r": [_brief(one, most) for one in results]}, separators=(",", ":"))
        if len(text.encode()) <= bytes_max:
            break
    return text


def load(text: str, orders: Sequence[CheckOrder], *, node: str) -> Iterator[CheckResult]:
    """Yield the result of each order on this node. An order without a readable result could not run."""
    found = _read(text)
    for order in orders:
        told = found.get(order.check) if found is not None else None
        if told is None:
            detail = "the check was not reported" if found is not None else f"no report: {text[:200]!r}"
            yield CheckResult(node=node, check=order.check, outcome=CheckOutcome.CANNOT_RUN, detail=detail)
        else:
            yield _result(told, node=node, check=order.check)


def cannot_run(orders: Sequence[CheckOrder], *, node: str, why: str) -> Iterator[CheckResult]:
    """Yield the same result for every order: it could not run."""
    for order in orders:
        yield CheckResult(node=node, check=order.check, outcome=CheckOutcome.CANNOT_RUN, detail=why[:1000])


def _brief(one: CheckResult, most: int) -> dict[str, object]:
    fields: dict[str, object] = {
        "c": one.check, "o": one.outcome.value, "m": one.value, "l": one.least, "u": one.unit, "g": one.device,
        "k": one.code[: most or None], "d": one.detail[:most], "s": round(one.took_s, 1),
    }  # fmt: skip
    return {key: value for key, value in fields.items() if value not in (None, "", 0.0)}


def _read(text: str) -> dict[str, dict[str, object]] | None:
    """Return results by check; None if the text is not a report."""
    try:
        body = json.loads(text)
    except ValueError:
        return None
    results = body.get("r") if isinstance(body, dict) else None
    if not isinstance(results, list):
        return None
    return {str(one.get("c")): one for one in results if isinstance(one, dict)}


def _result(told: dict[str, object], *, node: str, check: str) -> CheckResult:
    outcome = _text(told.get("o"), 80)
    known = outcome in {one.value for one in CheckOutcome}
    return CheckResult(
        node=node,
        check=check,
        outcome=CheckOutcome(outcome) if known else CheckOutcome.CANNOT_RUN,
        value=_number(told.get("m")),
        least=_number(told.get("l")),
        unit=_text(told.get("u"), 40),
        device=_text(told.get("g"), 200),
        code=_text(told.get("k"), 200),
        detail=_text(told.get("d"), 1000) if known else f"no outcome: {outcome!r}",
        took_s=_number(told.get("s")) or 0.0,
    )


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < NUMBER_MAX else None


def _text(value: object, most: int) -> str:
    return value[:most] if isinstance(value, str) else ""
