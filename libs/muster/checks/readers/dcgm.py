"""`dcgmi diag -j`: the shapes of DCGM 3 ("DCGM GPU Diagnostic") and 4 ("DCGM Diagnostic").

A test that was skipped passed nothing: a diagnosis in which nothing passed could not run.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass

from muster.checks.readers.reading import Reading, failed, passed, unable

_ROOTS = ("DCGM Diagnostic", "DCGM GPU Diagnostic")
FAILS, PASSES, WARNS = frozenset({"fail", "failed"}), frozenset({"pass", "passed"}), frozenset({"warn", "warning"})
SKIPS = frozenset({"skip", "skipped", "not run", "not_run", "notrun"})


@dataclass(frozen=True, slots=True)
class _Test:
    """One result of one test. entity: the GPU's number, or numbers."""

    name: str
    status: str
    entity: str
    words: str
    code: str


def read_dcgm(text: str) -> Reading:
    """The verdict of the whole diagnosis: the first failure, if there is one."""
    body = _body(text)
    if body is None:
        return unable(f"dcgmi printed no diagnosis: {text.strip()[-300:]!r}")
    error = body.get("runtime_error") or body.get("error")
    if error:
        return unable(f"dcgmi: {error}"[:1000])
    tests = list(_tests(body))
    bad = [one for one in tests if one.status in FAILS]
    if bad:
        first = bad[0]
        more = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
        return failed(f"{first.name}: {first.words or 'failed'}{more}", device=_gpu(first.entity), code=first.code)
    strange = [one for one in tests if one.status not in PASSES | WARNS | SKIPS]
    if strange:
        return unable(f"{strange[0].name}: status {strange[0].status!r}")
    good = [one for one in tests if one.status in PASSES | WARNS]
    if not good:
        return unable("no test of the diagnosis ran")
    warned = [f"{one.name}: {one.words}" for one in tests if one.status in WARNS]
    return passed("; ".join(warned)[:1000])


def _body(text: str) -> dict[str, object] | None:
    """The JSON object may stand among other lines."""
    try:
        whole = json.loads(text[text.index("{") : text.rindex("}") + 1])
    except ValueError:
        return None
    if not isinstance(whole, dict):
        return None
    for root in _ROOTS:
        if isinstance(whole.get(root), dict):
            return dict(whole[root])
    return whole if "runtime_error" in whole or "error" in whole else None


def _tests(body: dict[str, object]) -> Iterator[_Test]:
    for category in _list(body.get("test_categories")):
        for test in _list(category.get("tests")):
            name = str(test.get("name", "?"))
            results = _list(test.get("results"))
            summary = test.get("test_summary")
            if not results and isinstance(summary, dict):
                results = [summary]
            for result in results:
                yield _result(name, result)


def _result(name: str, result: dict[str, object]) -> _Test:
    entity = result.get("entity_id", result.get("gpu_id", result.get("gpu_ids", result.get("gpu", ""))))
    words, code = _warnings(result.get("warnings", result.get("warning")))
    return _Test(name, str(result.get("status", "")).strip().lower(), str(entity), words, code)


def _warnings(told: object) -> tuple[str, str]:
    """Words and error id, as text or as objects."""
    if isinstance(told, str):
        return told[:800], ""
    first = _list(told)[0] if _list(told) else {}
    code = first.get("error_id", "")
    words = str(first.get("warning", first.get("info", "")))
    if not words and isinstance(told, list) and told:
        words = str(told[0])
    return words[:800], f"DCGM_FR_{code}" if isinstance(code, int) else str(code)


def _gpu(entity: str) -> str:
    return f"GPU {entity}" if entity else ""


def _list(value: object) -> list[dict[str, object]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
