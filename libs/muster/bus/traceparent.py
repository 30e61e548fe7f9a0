"""What a W3C traceparent (`00-<trace id>-<span id>-<flags>`) gives to log lines and to exemplars. Pure."""

_TRACE = slice(3, 35)
_SPAN = slice(36, 52)
_CHARACTERS = 55


def about(traceparent: str) -> dict[str, str]:
    """`extra=` of a log line about the job or fact of this traceparent; nothing if there is none."""
    if len(traceparent) != _CHARACTERS:
        return {}
    return {"trace_id": traceparent[_TRACE], "span_id": traceparent[_SPAN]}


class Exemplars:
    """Which samples of a metric lead to a job's trace: those whose trace a collector was sent whole, and slow ones.

    one_in: of so many traces one is sent whole (`tracing.sampled_one_in`), by the trace id, so that all services agree.
    """

    def __init__(self, one_in: int) -> None:
        assert one_in >= 1, "one in one is all"
        self._one_in = one_in

    def of(self, traceparent: str, *, slow: bool = False) -> dict[str, str] | None:
        """The exemplar of a sample about this job; None if there is no trace, or it need not be found."""
        if len(traceparent) != _CHARACTERS:
            return None
        if slow or int(traceparent[_TRACE], 16) % self._one_in == 0:
            return {"trace_id": traceparent[_TRACE], "span_id": traceparent[_SPAN]}
        return None
