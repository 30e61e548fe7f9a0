"""`nvidia-smi -L` and `nvidia-smi --query-gpu=... --format=csv,noheader,nounits`."""

import re
from dataclasses import dataclass

from muster.checks.readers.reading import Reading, failed, passed, unable

FIELDS = (
    "uuid",
    "temperature.gpu",
    "retired_pages.pending",
    "remapped_rows.pending",
    "remapped_rows.failure",
    "gpu_recovery_action",
)
"""What is asked of each GPU. Drivers that do not know the last one are asked again without it."""
_LISTED = re.compile(r"^GPU (\d+): .*\(UUID: (GPU-[^)]+)\)")
_UNKNOWN = frozenset({"", "n/a", "not supported", "not available", "unknown error"})
_ERRORS = ("has fallen off the bus", "gpu is lost", "unable to determine the device handle")


def read_list(text: str, *, expected: int | None) -> Reading:
    """As many GPUs as were given. expected: None: at least one. GPUs that do not answer are printed without a UUID."""
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
        """In lower case, "" for what the driver does not tell."""
        value = self.values.get(field, "").strip().strip("[]").lower()
        return "" if value in _UNKNOWN else value


def read_query(text: str, fields: tuple[str, ...], *, temperature_c_max: float) -> Reading:
    """The first GPU that is not well. What a driver does not tell counts for nothing; where it tells nothing of any
    GPU, nothing is known.
    """
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
        return unable("the driver tells nothing of any GPU's health")
    hottest = max((float(said) for gpu in gpus if _is_number(said := gpu.says("temperature.gpu"))), default=0.0)
    return passed(f"{len(gpus)} GPUs, {hottest:g} C at most")


def is_unknown_field(text: str) -> bool:
    """Whether the driver does not know a field that was asked."""
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
