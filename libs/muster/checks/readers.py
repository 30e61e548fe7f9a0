"""Parse the output of nvbandwidth, all-reduces, nvidia-smi and DCGM."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from muster.schemas.facts.operations import CheckOutcome

GB_PER_S = "GB/s"
OURS = "muster-all-reduce"
"""Prefix of the output line of Muster's own all-reduce."""
_AVERAGE = re.compile(r"#\s*Avg bus bandwidth\s*:\s*([0-9.]+(?:[eE][+-]?\d+)?)")
_BOUNDS = re.compile(r"#\s*Out of bounds values\s*:\s*(\d+)")
_OURS = re.compile(rf"^{OURS} gb_per_s=([0-9.eE+-]+) wrong=(\d+)$", re.MULTILINE)
FIELDS = (
    "uuid",
    "temperature.gpu",
    "retired_pages.pending",
    "remapped_rows.pending",
    "remapped_rows.failure",
    "gpu_recovery_action",
)
"""Queried fields of each GPU. Drivers without the last one are queried again without it."""
_LISTED = re.compile(r"^GPU (\d+): .*\(UUID: (GPU-[^)]+)\)")
_UNKNOWN = frozenset({"", "n/a", "not supported", "not available", "unknown error"})
_ERRORS = ("has fallen off the bus", "gpu is lost", "unable to determine the device handle")
_ROOTS = ("DCGM Diagnostic", "DCGM GPU Diagnostic")
SKIPS = frozenset({"skip", "skipped", "not run", "not_run", "notrun"})


@dataclass(frozen=True, slots=True)
class Measurement:
    """A measured value and its required minimum."""

    value: float | None = None
    least: float | None = None
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Reading:
    """The result of a check; `CheckResult` adds node, check and time."""

    outcome: CheckOutcome
    detail: str = ""
    measured: Measurement = Measurement()
    device: str = ""
    code: str = ""


def passed(detail: str = "", *, value: float | None = None, least: float | None = None, unit: str = "") -> Reading:
    """Return a pass."""
    return Reading(CheckOutcome.PASS, detail, Measurement(value, least, unit))


def failed(detail: str, *, device: str = "", code: str = "") -> Reading:
    """Return a failure: the hardware is not healthy."""
    return Reading(CheckOutcome.FAIL, detail, device=device, code=code)


def unable(detail: str) -> Reading:
    """Return that the check could not run: the tool gave no result."""
    return Reading(CheckOutcome.CANNOT_RUN, detail)


def at_least(value: float, least: float, *, unit: str, detail: str = "", device: str = "") -> Reading:
    """Return a pass if the value is at least `least`, else a failure."""
    outcome = CheckOutcome.PASS if value >= least else CheckOutcome.FAIL
    measured = Measurement(round(value, 3), least, unit)
    return Reading(outcome, detail, measured, device="" if value >= least else device)


def read_nccl(text: str, *, gb_per_s_min: float) -> Reading:
    """Parse `all_reduce_perf`: the average bus bandwidth; a wrong sum fails at any speed."""
    wrong, average = _BOUNDS.search(text), _AVERAGE.search(text)
    if wrong is not None and int(wrong[1]):
        return failed(f"{wrong[1]} sums are wrong", code="wrong-sums")
    if average is None:
        return unable(f"no bandwidth was printed: {_last_line(text)}")
    return at_least(float(average[1]), gb_per_s_min, unit=GB_PER_S)


def read_all_reduce(text: str, *, gb_per_s_min: float) -> Reading:
    """Parse the output of Muster's own all-reduce."""
    told = _OURS.search(text)
    if told is None:
        return unable(f"no bandwidth was printed: {_last_line(text)}")
    if int(told[2]):
        return failed(f"{told[2]} sums are wrong", code="wrong-sums")
    return at_least(float(told[1]), gb_per_s_min, unit=GB_PER_S)


def read_nvbandwidth(text: str, *, gb_per_s_min: float) -> Reading:
    """Parse nvbandwidth: the slowest pair of GPUs. A waived test (no peer access) measured nothing."""
    whole = _json_object(text)
    body = whole.get("nvbandwidth", whole) if whole is not None else None
    if not isinstance(body, dict):
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


def _json_object(text: str) -> dict[str, object] | None:
    """Return the JSON object among other lines; None if there is none."""
    try:
        whole = json.loads(text[text.index("{") : text.rindex("}") + 1])
    except ValueError:
        return None
    return whole if isinstance(whole, dict) else None


def _cells(matrix: object) -> list[tuple[float, str]]:
    """Return the numbers of the matrix, which are written as text; skip "N/A"."""
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


def read_list(text: str, *, expected: int | None) -> Reading:
    """Check the number of GPUs. expected: None: at least one. GPUs that do not answer are printed without a UUID."""
    if (lost := _lost(text)) is not None:
        return lost
    found = [match[2] for line in text.splitlines() if (match := _LISTED.match(line))]
    if expected is None and not found:
        return unable(f"nvidia-smi lists no GPU: {text.strip()[-200:]!r}")
    least = 1 if expected is None else expected
    if len(found) < least:
        return failed(f"{len(found)} of {least} GPUs are there", code="gpu-missing")
    if len(set(found)) != len(found):
        return failed("one UUID is there twice", code="gpu-missing")
    return passed(value=float(len(found)), least=float(least), unit="GPUs")


@dataclass(frozen=True, slots=True)
class _Gpu:
    values: dict[str, str]

    def says(self, field: str) -> str:
        """Return a value in lower case, "" if the driver does not report it."""
        value = self.values.get(field, "").strip().strip("[]").lower()
        return "" if value in _UNKNOWN else value


def read_query(text: str, fields: tuple[str, ...], *, temperature_c_max: float) -> Reading:
    """Return the first unhealthy GPU. Values that a driver does not report are ignored; if it reports none of any
    GPU, the check could not run."""
    if (lost := _lost(text)) is not None:
        return lost
    rows = [[cell.strip() for cell in line.split(",")] for line in text.splitlines() if line.strip()]
    gpus = [_Gpu(dict(zip(fields, row, strict=True))) for row in rows if len(row) == len(fields)]
    if not gpus or len(gpus) != len(rows):
        return unable(f"nvidia-smi printed no table: {text.strip()[-200:]!r}")
    for gpu in gpus:
        wrong = _wrong(gpu, temperature_c_max)
        if wrong is not None:
            return wrong
    if not any(gpu.says(field) for gpu in gpus for field in fields[1:]):
        return unable("the driver reports no health values of any GPU")
    hottest = max((float(said) for gpu in gpus if _is_number(said := gpu.says("temperature.gpu"))), default=0.0)
    return passed(f"{len(gpus)} GPUs, {hottest:g} C at most")


def is_unknown_field(text: str) -> bool:
    """Return whether the driver does not know a queried field."""
    return "is not a valid field to query" in text


def _wrong(gpu: _Gpu, temperature_c_max: float) -> Reading | None:
    uuid = gpu.values.get("uuid", "")
    for field, code, words in (
        ("remapped_rows.failure", "row-remap-failed", "a row could not be remapped"),
        ("remapped_rows.pending", "row-remap-pending", "a row remap waits for a reset"),
        ("retired_pages.pending", "page-retirement-pending", "a page retirement waits for a reset"),
    ):
        if gpu.says(field) not in ("", "0", "no"):
            return failed(words, device=uuid, code=code)
    if (action := gpu.says("gpu_recovery_action")) not in ("", "none"):
        return failed(f"the driver asks for: {action}", device=uuid, code="recovery-action")
    said = gpu.says("temperature.gpu")
    if _is_number(said) and float(said) > temperature_c_max:
        return failed(f"{said} C, more than {temperature_c_max:g} C", device=uuid, code="hot")
    return None


def _lost(text: str) -> Reading | None:
    line = next((line for line in text.splitlines() if any(words in line.lower() for words in _ERRORS)), None)
    return None if line is None else failed(line.strip()[:300], code="gpu-lost")


def _is_number(text: str) -> bool:
    return re.fullmatch(r"\d+(\.\d+)?", text) is not None


FAILS, PASSES, WARNS = frozenset({"fail", "failed"}), frozenset({"pass", "passed"}), frozenset({"warn", "warning"})


@dataclass(frozen=True, slots=True)
class _Test:
    """One result of one test. entity: the GPU's number, or numbers."""

    name: str
    status: str
    entity: str
    words: str
    code: str


def read_dcgm(text: str) -> Reading:
    """Parse a DCGM diagnosis: the first failure, if any."""
    body = _diagnosis(text)
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


def _diagnosis(text: str) -> dict[str, object] | None:
    """Return `dcgmi diag -j` in the forms of DCGM 3 ("DCGM GPU Diagnostic") and 4 ("DCGM Diagnostic").

    A skipped test passed nothing: a diagnosis without a pass could not run.
    """
    whole = _json_object(text)
    if whole is None:
        return None
    for root in _ROOTS:
        if isinstance(body := whole.get(root), dict):
            return dict(body)
    return whole if "runtime_error" in whole or "error" in whole else None


def _tests(body: dict[str, object]) -> Iterator[_Test]:
    for category in _objects(body.get("test_categories")):
        for test in _objects(category.get("tests")):
            name = str(test.get("name", "?"))
            results = _objects(test.get("results"))
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
    """Return message and error id, as text or as objects."""
    if isinstance(told, str):
        return told[:800], ""
    first = _objects(told)[0] if _objects(told) else {}
    code = first.get("error_id", "")
    words = str(first.get("warning", first.get("info", "")))
    if not words and isinstance(told, list) and told:
        words = str(told[0])
    return words[:800], f"DCGM_FR_{code}" if isinstance(code, int) else str(code)


def _gpu(entity: str) -> str:
    return f"GPU {entity}" if entity else ""
