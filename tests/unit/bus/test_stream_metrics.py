"""What is shown of streams and their durable consumers, and what is taken off the page."""

from prometheus_client import REGISTRY

from muster.bus.metrics import ConsumerFigures, ConsumerGauges, loop_was_late, time_query


def shown(figure: str, consumer: str) -> float | None:
    return REGISTRY.get_sample_value(f"muster_consumer_{figure}_messages", {"stream": "LOG_a", "consumer": consumer})


def test_a_consumer_that_is_gone_is_taken_off_the_page() -> None:
    gauges = ConsumerGauges("LOG_a")
    gauges.show({"one": ConsumerFigures(5, 2, 1), "two": ConsumerFigures(0, 0, 0)})
    assert [shown(figure, "one") for figure in ("pending", "unacked", "redelivered")] == [5, 2, 1]
    gauges.show({"two": ConsumerFigures(3, 0, 0)})
    assert shown("pending", "one") is None
    assert shown("pending", "two") == 3
    gauges.show({})
    assert shown("pending", "two") is None


def test_durations_fall_into_buckets() -> None:
    def late(le: str) -> float:
        return REGISTRY.get_sample_value("muster_loop_late_seconds_bucket", {"le": le}) or 0.0

    before = late("0.25"), late("0.5")
    loop_was_late(0.3)
    assert (late("0.25"), late("0.5")) == (before[0], before[1] + 1)
    time_query("scheduler", "why", 0.002)
    labels = {"service": "scheduler", "query": "why"}
    assert (REGISTRY.get_sample_value("muster_query_seconds_count", labels) or 0) >= 1
