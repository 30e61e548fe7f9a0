"""Parsers of the trace's two tables, read by header; its tasks as jobs of Muster, sped up.

Variants of the format order, add and omit columns.

Pure: text in, rows out. Times are seconds since the trace's own start.
"""

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from muster.schemas.job import RUN_TIME_S_MAX, JobSpec, TaskGroup
from muster.schemas.labels import EXIT_CODE, RUN_S

NODE_FILE = "openb_node_list_gpu_node.csv"
TASK_FILE = "openb_pod_list_default.csv"
WHOLE_GPU_MILLI = 1000
_NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
_TASK_COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "creation_time", "deletion_time")
WALL_S = 120.0  # duration of the replay with the default speed-up
TOTAL_RUN_TIME_S_MIN = 7 * 86_400.0
HEADER_SHOWN = 200  # characters of a header that an error shows
GPUS_MAX = 1_024  # of one machine, and of one task
WHOLE_MAX = 1_000_000_000  # thousandths of cores, MiB


class OpenbFormatError(ValueError):
    """A table is not an openb table. file, line (the header is line 1), column: the place; reason: the error."""

    def __init__(self, *, file: str, line: int, column: str, reason: str) -> None:
        super().__init__(f"{file}, line {line}, column {column!r}: {reason}")
        self.file, self.line, self.column, self.reason = file, line, column, reason


@dataclass(frozen=True, slots=True)
class OpenbNode:
    """One machine."""

    name: str
    cpu_milli: int
    """Thousandths of a core."""
    memory_mib: int
    gpus: int
    """Whole devices, all of `gpu_model`."""
    gpu_model: str


@dataclass(frozen=True, slots=True)
class OpenbTask:
    """One task."""

    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    """Whole devices, 0 for a fraction of one."""
    gpu_milli: int
    """Fraction of one GPU in thousandths, 1 to 999; 0 for whole devices."""
    gpu_models: tuple[str, ...]
    """Acceptable models; empty means any."""
    has_failed: bool
    creation_s: float
    deletion_s: float
    scheduled_s: float | None
    """Placement time; None if the traced fleet never placed the task."""

    @property
    def lifetime_s(self) -> float:
        """Return the run time: from placement if there was one, else from creation, to the deletion."""
        start_s = self.creation_s if self.scheduled_s is None else self.scheduled_s
        return max(0.0, self.deletion_s - start_s)

    @property
    def gpu_milli_total(self) -> int:
        """Return the milli-GPUs that the task holds while it runs."""
        return self.gpus * WHOLE_GPU_MILLI + self.gpu_milli


@dataclass(frozen=True, slots=True)
class _Cells:
    """One line by column name, with its place for error messages."""

    file: str
    line: int
    values: Mapping[str, str | None]

    def text(self, column: str) -> str:
        return (self.values.get(column) or "").strip()

    def whole(self, column: str, *, low: int = 0, high: int = WHOLE_MAX) -> int:
        text = self.text(column)
        try:
            value = int(text)
        except ValueError:
            raise self.wrong(column, f"{text!r} is not a whole number") from None
        if not low <= value <= high:
            raise self.wrong(column, f"{value} is less than {low}" if value < low else f"{value} is more than {high}")
        return value

    def seconds(self, column: str) -> float:
        text = self.text(column)
        try:
            value = float(text)
        except ValueError:
            raise self.wrong(column, f"{text!r} is not a number of seconds") from None
        if not 0 <= value < float("inf"):
            raise self.wrong(column, f"{text} is not a moment of the trace: give seconds from its start")
        return value

    def name(self, column: str) -> str:
        text = self.text(column)
        if not text:
            raise self.wrong(column, "is empty: give every row its own name")
        return text

    def wrong(self, column: str, reason: str) -> OpenbFormatError:
        return OpenbFormatError(file=self.file, line=self.line, column=column, reason=reason)


def parse_nodes(text: str, *, file: str = NODE_FILE) -> tuple[OpenbNode, ...]:
    """Return all machines of a node table, in its order. Raises OpenbFormatError. file: for messages only."""
    rows = [(cells, _node(cells)) for cells in _cells(text, file, _NODE_COLUMNS)]
    _refuse_twins([(cells, node.name) for cells, node in rows], column="sn")
    return tuple(node for _, node in rows)


def parse_tasks(text: str, *, file: str = TASK_FILE) -> tuple[OpenbTask, ...]:
    """Return all tasks of a task table, earliest created first. Raises OpenbFormatError. file: for messages only."""
    rows = [(cells, _task(cells)) for cells in _cells(text, file, _TASK_COLUMNS)]
    _refuse_twins([(cells, task.name) for cells, task in rows], column="name")
    return tuple(sorted((task for _, task in rows), key=lambda task: (task.creation_s, task.name)))


def _cells(text: str, file: str, columns: tuple[str, ...]) -> Iterator[_Cells]:
    reader = csv.DictReader(text.splitlines())
    try:
        header = [name.strip() for name in reader.fieldnames or ()]
        reader.fieldnames = header
        for column in columns:
            if column not in header:
                found = ", ".join(header)[:HEADER_SHOWN] or "nothing"
                raise OpenbFormatError(file=file, line=1, column=column, reason=f"is missing; the header has {found}")
        for values in reader:
            yield _Cells(file, reader.line_num, values)
    except csv.Error as error:
        raise OpenbFormatError(file=file, line=reader.line_num, column="", reason=f"is no CSV: {error}") from error


def _node(cells: _Cells) -> OpenbNode:
    return OpenbNode(
        name=cells.name("sn"),
        cpu_milli=cells.whole("cpu_milli", low=1),
        memory_mib=cells.whole("memory_mib", low=1),
        gpus=cells.whole("gpu", high=GPUS_MAX),
        gpu_model=cells.text("model"),
    )


def _task(cells: _Cells) -> OpenbTask:
    count = cells.whole("num_gpu", high=GPUS_MAX)
    share = cells.whole("gpu_milli") if cells.text("gpu_milli") else WHOLE_GPU_MILLI
    if share > WHOLE_GPU_MILLI or (count == 1 and share == 0):
        raise cells.wrong("gpu_milli", f"{share} is not a share of one GPU: 1 to {WHOLE_GPU_MILLI}")
    is_fraction = count == 1 and share < WHOLE_GPU_MILLI
    creation_s, deletion_s = cells.seconds("creation_time"), cells.seconds("deletion_time")
    if deletion_s < creation_s:
        raise cells.wrong("deletion_time", f"{deletion_s:g} s lies before the creation at {creation_s:g} s")
    return OpenbTask(
        name=cells.name("name"),
        cpu_milli=cells.whole("cpu_milli"),
        memory_mib=cells.whole("memory_mib"),
        gpus=0 if is_fraction else count,
        gpu_milli=share if is_fraction else 0,
        gpu_models=tuple(model for model in cells.text("gpu_spec").split("|") if model),
        has_failed=cells.text("pod_phase") == "Failed",
        creation_s=creation_s,
        deletion_s=deletion_s,
        scheduled_s=cells.seconds("scheduled_time") if cells.text("scheduled_time") else None,
    )


def _refuse_twins(names: list[tuple[_Cells, str]], *, column: str) -> None:
    lines: dict[str, int] = {}
    for cells, name in names:
        if name in lines:
            raise cells.wrong(column, f"{name!r} stands already on line {lines[name]}")
        lines[name] = cells.line


def default_speedup(tasks: Sequence[OpenbTask], *, wall_s: float = WALL_S) -> float:
    """Return the speed-up at which the last deletion comes after `wall_s`; at least 1."""
    return max(1.0, max((task.deletion_s for task in tasks), default=0.0) / wall_s)


def job_spec(task: OpenbTask, *, speedup: float, team: str, queue: str | None = None) -> JobSpec:
    """Return the job with the task's request and its run time divided by `speedup`; it fails if the task had failed."""
    run_s = task.lifetime_s / speedup
    return JobSpec(
        name=task.name,
        team=team,
        queue=queue,
        task_groups=(
            TaskGroup(
                gpus=task.gpus,
                gpu_milli=task.gpu_milli,
                gpu_models=task.gpu_models,
                cpu_milli=task.cpu_milli,
                memory_mib=task.memory_mib,
            ),
        ),
        total_run_time_s=min(RUN_TIME_S_MAX, max(TOTAL_RUN_TIME_S_MIN, 2 * run_s)),
        labels={RUN_S: f"{run_s:.6f}", EXIT_CODE: "1" if task.has_failed else "0"},
    )
