"""Bandwidths: `nvbandwidth -j` between the GPUs of a node, nccl-tests and our own all-reduce over a gang."""

import json
import re

from muster.checks.readers.reading import Reading, at_least, failed, unable

GB_PER_S = "GB/s"
OURS = "muster-all-reduce"
"""Begins the line in which our own all-reduce tells what it measured."""
_AVERAGE = re.compile(r"#\s*Avg bus bandwidth\s*:\s*([0-9.]+(?:[eE][+-]?\d+)?)")
_BOUNDS = re.compile(r"#\s*Out of bounds values\s*:\s*(\d+)")
_OURS = re.compile(rf"^{OURS} gb_per_s=([0-9.eE+-]+) wrong=(\d+)$", re.MULTILINE)


def read_nccl(text: str, *, gb_per_s_min: float) -> Reading:
    """`all_reduce_perf`: the average bus bandwidth; a sum that is wrong is worse than a slow one."""
    wrong, average = _BOUNDS.search(text), _AVERAGE.search(text)
    if wrong is not None and int(wrong[1]):
        return failed(f"{wrong[1]} sums are wrong", code="wrong-sums")
    if average is None:
        return unable(f"no bandwidth was printed: {_last_line(text)}")
    return at_least(float(average[1]), gb_per_s_min, unit=GB_PER_S)


def read_all_reduce(text: str, *, gb_per_s_min: float) -> Reading:
    """Our own all-reduce."""
    told = _OURS.search(text)
    if told is None:
        return unable(f"no bandwidth was printed: {_last_line(text)}")
    if int(told[2]):
        return failed(f"{told[2]} sums are wrong", code="wrong-sums")
    return at_least(float(told[1]), gb_per_s_min, unit=GB_PER_S)


def read_nvbandwidth(text: str, *, gb_per_s_min: float) -> Reading:
    """The slowest pair of GPUs. A test that the hardware waives (no peer access) measured nothing."""
    body = _body(text)
    if body is None:
        return unable(f"nvbandwidth printed no result: {_last_line(text)}")
    if body.get("error"):
        return unable(f"nvbandwidth: {body['error']}"[:1000])
    slowest: tuple[float, str] | None = None
    for case in _objects(body.get("testcases")):
        name, status = str(case.get("name", "?")), str(case.get("status", ""))
        if status.lower() not in ("passed", ""):
            return unable(f"{name}: {status} {case.get('error', '')}".strip()[:1000])
        for value, pair in _cells(case.get("bandwidth_matrix")):
            slowest = min(slowest or (value, pair), (value, pair))
    if slowest is None:
        return unable("no pair of GPUs was measured")
    return at_least(slowest[0], gb_per_s_min, unit=GB_PER_S, detail=f"slowest: {slowest[1]}", device=slowest[1])


def _body(text: str) -> dict[str, object] | None:
    try:
        whole = json.loads(text[text.index("{") : text.rindex("}") + 1])
    except ValueError:
        return None
    body = whole.get("nvbandwidth", whole) if isinstance(whole, dict) else None
    return body if isinstance(body, dict) else None


def _cells(matrix: object) -> list[tuple[float, str]]:
    """Numbers of the matrix, which writes them as text, and "N/A" where nothing was measured."""
    found: list[tuple[float, str]] = []
    for row, cells in enumerate(matrix if isinstance(matrix, list) else []):
        for column, cell in enumerate(cells if isinstance(cells, list) else []):
            try:
                found.append((float(cell), f"GPU {row} and {column}"))
            except (TypeError, ValueError):
                continue  # "N/A"
    return found


def _objects(value: object) -> list[dict[str, object]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return repr(lines[-1][:300]) if lines else "nothing at all"
