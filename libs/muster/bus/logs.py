"""Log records of a process: one JSON line per record, or plain text on a terminal.

    {"time": "2026-11-21T12:00:00.000001Z", "level": "WARNING", "logger": "muster.composer.fabric_watch",
     "message": "...", "service": "composer", "trace_id": "32 hex digits", "span_id": "16", "error": "Traceback ..."}

Only lines about one job or one fact have trace_id and span_id, so that lines are found from a trace and a trace
from a line; such a line is logged with `extra=about(fact.trace)` (`bus.traceparent`). With a collector set
(OTEL_EXPORTER_OTLP_ENDPOINT) the same records go there too, with the same ids.
"""

import importlib
import json
import logging
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import Protocol, TextIO

from typing_extensions import override

from muster.bus.limits import LOG_MESSAGE_CHARACTERS_MAX
from muster.bus.printable import printable, printable_json, printable_lines
from muster.bus.tracing import sends

FORMAT_VARIABLE = "MUSTER_LOG_FORMAT"  # "json" or "text" where the stream shall not decide
TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
PROCESS = "muster"
"""Service of a line of a process that hosts several, if its logger belongs to none of them."""
WINDOW_S = 1.0
"""Window of `LineLimiter`, in seconds."""

ExceptionInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


class Closable(Protocol):
    """A resource that sends records elsewhere."""

    def close(self) -> None:
        """Send what is left, for a bounded time."""
        ...


class TextLines(logging.Formatter):
    """One line per record for a terminal, and its traceback, without control characters of other programs."""

    def __init__(self) -> None:
        super().__init__(TEXT)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """Return the line without its traceback."""
        return printable(super().formatMessage(record))

    def formatException(self, ei: ExceptionInfo) -> str:  # noqa: N802 - logging's name
        """Return the lines of a traceback."""
        return printable_lines(super().formatException(ei))


class JsonLines(logging.Formatter):
    """One JSON object per record, without line breaks. services: hosted in this process."""

    def __init__(self, services: Sequence[str]) -> None:
        super().__init__()
        self._services = frozenset(services)
        self._process = services[0] if len(services) == 1 else PROCESS

    @override
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": f"{datetime.fromtimestamp(record.created, UTC):%Y-%m-%dT%H:%M:%S.%fZ}",
            "level": record.levelname,
            "logger": record.name,
            "message": self.message_of(record),
            "service": self.service_of(record.name),
        }
        for name in ("trace_id", "span_id"):
            if value := getattr(record, name, ""):
                line[name] = value
        if record.exc_info:
            line["error"] = self.error_of(record)
        return printable_json(json.dumps(line, ensure_ascii=False))

    def message_of(self, record: logging.LogRecord) -> str:
        """Return the message, cut to its limit."""
        return record.getMessage()[:LOG_MESSAGE_CHARACTERS_MAX]

    def error_of(self, record: logging.LogRecord) -> str:
        """Return the traceback, or its end if it exceeds its limit; "" if there is none."""
        return self.formatException(record.exc_info)[-LOG_MESSAGE_CHARACTERS_MAX:] if record.exc_info else ""

    def service_of(self, logger: str) -> str:
        """Return the service of a logger: `muster.<service>...` of those hosted here, else the process's."""
        _, _, rest = logger.partition("muster.")
        name = rest.partition(".")[0]
        return name if name in self._services else self._process


def set_up_logs(
    services: Sequence[str], environment: Mapping[str, str], *, stream: TextIO | None = None
) -> Closable | None:
    """Let all records of this process from INFO on go to `stream` (stderr), and to a collector if one is set.

    Returns what sends to the collector; close it at the end. Raises ValueError for a MUSTER_LOG_FORMAT that is none.
    """
    stream = stream or sys.stderr
    wanted = environment.get(FORMAT_VARIABLE) or ("text" if stream.isatty() else "json")
    if wanted not in ("json", "text"):
        raise ValueError(f"{FORMAT_VARIABLE}: {wanted!r} is neither json nor text")
    written = logging.StreamHandler(stream)
    written.setFormatter(JsonLines(services) if wanted == "json" else TextLines())
    root = logging.getLogger()
    for handler in tuple(root.handlers):
        root.removeHandler(handler)
    root.addHandler(written)
    root.setLevel(logging.INFO)
    for noisy in ("httpx", "urllib3"):  # else a line for each of our requests
        logging.getLogger(noisy).setLevel(logging.WARNING)
    if not sends("logs", environment):
        return None
    sent: logging.Handler = importlib.import_module("muster.bus.otel_logs").to_collector(JsonLines(services))
    root.addHandler(sent)
    return sent


class LineLimiter:
    """Bounds log lines of what may happen thousands of times a second: `lines_max` in any second, the rest is counted.

    Pure. For one thread.
    """

    def __init__(self, lines_max: int) -> None:
        assert lines_max > 0, "who says nothing needs no such thing"
        self._lines_max = lines_max
        self._began_s = float("-inf")
        self._said = 0
        self._left_out = 0

    def allows(self, now_s: float) -> bool:
        """Return whether this line may be logged; else count it. now_s: of a monotonic clock."""
        if now_s - self._began_s >= WINDOW_S:
            self._began_s, self._said = now_s, 0
        self._said += 1
        if self._said <= self._lines_max:
            return True
        self._left_out += 1
        return False

    def left_out(self) -> int:
        """Return the number of lines left out since the last call."""
        left_out, self._left_out = self._left_out, 0
        return left_out
