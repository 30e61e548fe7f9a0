"""What a W3C traceparent (`00-<trace id>-<span id>-<flags>`) gives to log lines and to exemplars. Pure."""

_TRACE = slice(3, 35)
_SPAN = slice(36, 52)
_CHARACTERS = 55


def about(traceparent: str) -> dict[str, str]:
    """`extra=` of a log line about the job or fact of this traceparent; nothing if there is none."""
    if len(traceparent) != _CHARACTERS:
        return {}
    return {"trace_id": traceparent[_TRACE], "span_id": traceparent[_SPAN]}


def exemplar(traceparent: str) -> dict[str, str] | None:
    """The exemplar that leads from a sample of a metric to a job's trace; None if there is no trace."""
    return about(traceparent) or None
