"""Log lines: one JSON object each, with the trace of the job that they are about."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from kit.observe.otlp_sink import OtlpSink, otlp_sink
from muster.bus.limits import LOG_MESSAGE_CHARACTERS_MAX
from muster.bus.logs import JsonLines, set_up_logs
from muster.bus.otel_logs import OtlpLogs
from muster.bus.tracing import Exemplars, about

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def root() -> Iterator[logging.Logger]:
    """The root logger, as it was before, afterwards."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield root
    for handler in root.handlers[:]:
        root.removeHandler(handler)
    for handler in handlers:
        root.addHandler(handler)
    root.setLevel(level)


def lines(written: io.StringIO) -> list[dict[str, str]]:
    return [json.loads(line) for line in written.getvalue().splitlines()]


def test_a_line_is_one_json_object_whatever_is_said() -> None:
    written = io.StringIO()
    set_up_logs(["scheduler"], {}, stream=written)
    logging.getLogger("muster.bus.shell").warning('two\nlines and a "quote" of %s', "é")
    (line,) = lines(written)
    assert line["message"] == 'two\nlines and a "quote" of é'
    assert (line["level"], line["logger"], line["service"]) == ("WARNING", "muster.bus.shell", "scheduler")
    assert line["time"].endswith("Z")
    assert "trace_id" not in line


def test_a_line_about_a_job_has_its_trace_and_the_facts_span() -> None:
    written = io.StringIO()
    set_up_logs(["scheduler"], {}, stream=written)
    logging.getLogger("muster.scheduler").info("it failed", extra=about(PARENT))
    (line,) = lines(written)
    assert (line["trace_id"], line["span_id"]) == (TRACE, SPAN)


def test_an_error_comes_with_its_traceback_in_the_same_line() -> None:
    written = io.StringIO()
    set_up_logs(["scheduler"], {}, stream=written)
    try:
        int("why")
    except ValueError:
        logging.getLogger("muster.scheduler").exception("it broke")
    (line,) = lines(written)
    assert line["error"].startswith("Traceback")
    assert line["error"].endswith("ValueError: invalid literal for int() with base 10: 'why'")


def test_a_process_of_several_services_says_whose_line_it_is_where_it_can() -> None:
    formatter = JsonLines(["scheduler", "gateway"])
    assert formatter.service_of("muster.gateway.tokens") == "gateway"
    assert formatter.service_of("muster.bus.shell") == "muster"
    assert formatter.service_of("uvicorn.error") == "muster"
    assert JsonLines(["gateway"]).service_of("uvicorn.error") == "gateway"


@pytest.mark.parametrize(
    ("stream", "environment", "is_json"),
    [
        (io.StringIO, {}, True),
        (Terminal, {}, False),
        (Terminal, {"MUSTER_LOG_FORMAT": "json"}, True),
        (io.StringIO, {"MUSTER_LOG_FORMAT": "text"}, False),
    ],
)
def test_a_terminal_gets_text_unless_somebody_wants_otherwise(
    stream: type[io.StringIO], environment: dict[str, str], is_json: bool
) -> None:
    written = stream()
    set_up_logs(["scheduler"], environment, stream=written)
    logging.getLogger("muster.x").info("said")
    assert written.getvalue().startswith("{") is is_json


def test_a_format_that_there_is_not_is_refused_with_the_variables_name() -> None:
    with pytest.raises(ValueError, match="MUSTER_LOG_FORMAT: 'xml' is neither json nor text"):
        set_up_logs(["scheduler"], {"MUSTER_LOG_FORMAT": "xml"}, stream=io.StringIO())


def test_what_is_no_traceparent_makes_neither_fields_nor_an_exemplar() -> None:
    assert about("") == {}
    assert Exemplars(1).of("00-short", slow=True) is None


def test_exemplars_lead_to_traces_that_were_sent_whole_and_to_what_was_slow() -> None:
    exemplars = Exemplars(100)
    kept = f"00-{100 * 7:032x}-{SPAN}-01"
    assert exemplars.of(kept) == {"trace_id": f"{700:032x}", "span_id": SPAN}
    assert exemplars.of(PARENT) is None
    assert exemplars.of(PARENT, slow=True) == {"trace_id": TRACE, "span_id": SPAN}


def sent(root: logging.Logger, sink: OtlpSink, monkeypatch: pytest.MonkeyPatch, services: list[str]) -> logging.Handler:
    """What sends the records of these services to the sink."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", sink.url)
    handler = set_up_logs(services, {"OTEL_EXPORTER_OTLP_ENDPOINT": sink.url}, stream=io.StringIO())
    assert isinstance(handler, OtlpLogs)
    return handler


def test_a_collector_gets_the_same_record_with_the_same_ids(
    root: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    with otlp_sink() as sink:
        handler = sent(root, sink, monkeypatch, ["scheduler", "gateway"])
        logging.getLogger("muster.scheduler").warning("job %s failed", "J", extra=about(PARENT))
        logging.getLogger("muster.bus").error("without a job")
        logging.getLogger("muster.bus").error("x" * (LOG_MESSAGE_CHARACTERS_MAX + 1))
        logging.getLogger("opentelemetry.exporter").error("the collector is away")
        handler.close()
    said = {line.message: line for line in sink.lines}
    assert set(said) == {"job J failed", "without a job", "x" * LOG_MESSAGE_CHARACTERS_MAX}
    assert said["job J failed"].service == "muster-scheduler"
    assert (said["job J failed"].trace, said["job J failed"].span) == (TRACE, SPAN)
    assert said["job J failed"].level == "WARNING"
    assert (said["without a job"].service, said["without a job"].trace) == ("muster", "")


def test_logs_are_not_sent_where_the_standard_variable_says_none() -> None:
    environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_LOGS_EXPORTER": "none"}
    assert set_up_logs(["scheduler"], environment, stream=io.StringIO()) is None


def test_a_line_for_a_terminal_holds_no_control_character_of_others() -> None:
    for wanted in ("text", "json"):
        written = Terminal()
        set_up_logs(["agent"], {"MUSTER_LOG_FORMAT": wanted}, stream=written)
        try:
            int("\x1b]0;title\x07\x9b2J")
        except ValueError:
            logging.getLogger("muster.agent").exception("job %s", "\x1b[2Jx\nforged \x9b31m")
        told = written.getvalue()
        assert not set(told) & {"\x1b", "\x9b", "\x07"}
        assert "\nforged" not in told
