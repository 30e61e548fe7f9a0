"""Muster itself: objectives, services, streams, processes."""

from muster_tools.grafana.boards import RATE, Board, Panel, quantiles

MUSTER = Board(
    "muster",
    "Muster itself",
    "Objectives; rate, errors and duration of each service; utilisation, saturation and errors of each stream.",
    rows=(
        (
            Panel(
                "Error budget left",
                "Of the last three days; below 0 it is overspent.",
                [("muster:slo_budget_left:ratio3d", "{{slo}}")],
                unit="percentunit",
                kind="bargauge",
            ),
            Panel(
                "How fast budgets burn",
                "1 is what may be. Pages above 14.4 for an hour, or 6 for six.",
                [("muster:slo_burn:rate1h", "{{slo}}")],
            ),
            Panel(
                "Alerts",
                "Firing now.",
                [('sum by (alertname, severity) (ALERTS{alertstate="firing"})', "{{alertname}} {{severity}}")],
                kind="bargauge",
            ),
        ),
        (
            Panel(
                "Submitting",
                "From a request to the acknowledged fact.",
                quantiles("muster_submit_seconds"),
                unit="s",
                exemplars=True,
            ),
            Panel(
                "Requests by status",
                "All routes.",
                [(f"sum by (status) (rate(muster_http_requests_total{RATE}))", "{{status}}")],
                unit="reqps",
                stacked=True,
            ),
            Panel(
                "Duration by route",
                "99th percentile to the beginning of the answer.",
                [quantiles("muster_http_request_seconds", by="route")[1]],
                unit="s",
                exemplars=True,
            ),
            Panel(
                "Requests under way, submissions refused",
                "Refused: by status.",
                [
                    ("sum(muster_http_requests_in_flight)", "under way"),
                    (f"sum by (status) (rate(muster_jobs_refused_total{RATE}))", "refused {{status}}"),
                ],
            ),
        ),
        (
            Panel(
                "Facts folded",
                "Rate of each service.",
                [(f"sum by (service, log) (rate(muster_folded_facts_total{RATE}))", "{{service}} {{log}}")],
                unit="ops",
            ),
            Panel(
                "Facts appended",
                "What each service decided.",
                [(f"sum by (service, log) (rate(muster_appended_facts_total{RATE}))", "{{service}} {{log}}")],
                unit="ops",
            ),
            Panel(
                "Time to decide",
                "99th percentile; the budget is 50 ms.",
                [quantiles("muster_decide_seconds", by="service")[1]],
                unit="s",
                exemplars=True,
            ),
            Panel(
                "Time to append and to fold",
                "99th percentile of one batch.",
                [
                    quantiles("muster_append_seconds", by="service")[1],
                    (
                        f"histogram_quantile(0.99, sum by (le, service) (rate(muster_fold_seconds_bucket{RATE})))",
                        "{{service}} fold p99",
                    ),
                ],
                unit="s",
            ),
        ),
        (
            Panel(
                "Appends that were not stored",
                "stale: another leader was faster. full: the log. Back-off: seconds until the next try. "
                "Held back: single drafts that the log refuses.",
                [
                    (
                        f"sum by (service, reason) (rate(muster_append_refused_total{RATE})) > 0",
                        "{{service}} {{reason}}",
                    ),
                    ("max by (service) (muster_append_backoff_seconds) > 0", "{{service}} back-off"),
                    ("max by (service) (muster_drafts_in_quarantine) > 0", "{{service}} held back"),
                ],
            ),
            Panel(
                "Behind the log",
                "Messages that a service has yet to fold.",
                [("max by (service, log) (muster_log_lag_messages)", "{{service}} {{log}}")],
            ),
            Panel(
                "Restarts, overruns, anomalies",
                "Recoveries after a failure; decisions over their budget; facts that fitted no state.",
                [
                    (f"sum by (service) (increase(muster_service_restarts_total{RATE}))", "{{service}} restarts"),
                    (f"sum by (service) (increase(muster_decide_overruns_total{RATE}))", "{{service}} overruns"),
                    ("max by (service) (muster_anomalies)", "{{service}} anomalies"),
                ],
            ),
            Panel(
                "Leaders",
                "Each service and log has one.",
                [("sum by (service, log) (muster_leading)", "{{service}} {{log}}")],
            ),
        ),
        (
            Panel(
                "Messages stored",
                "Rate of each stream.",
                [(f"max by (stream) (rate(muster_stream_last_seq{RATE}))", "{{stream}}")],
                unit="ops",
            ),
            Panel(
                "How full streams are",
                "A full log takes no job; others forget their oldest.",
                [("max by (stream) (muster_stream_bytes / (muster_stream_bytes_max > 0))", "{{stream}}")],
                unit="percentunit",
            ),
            Panel(
                "Waiting to come into a log",
                "Messages of another stream that it has yet to take.",
                [("max by (log, source) (muster_log_source_waiting_messages)", "{{source}} to {{log}}")],
            ),
            Panel(
                "Dead letters and holes",
                "Messages that are no facts; all there are; consumers made anew.",
                [
                    (f"max by (log) (increase(muster_log_dead_total{RATE}))", "{{log}} dead"),
                    ('max(muster_stream_messages{stream="DEAD"})', "kept"),
                    (f"max by (log) (increase(muster_log_gaps_total{RATE}))", "{{log}} holes"),
                    (f"max by (log) (increase(muster_log_recreated_total{RATE}))", "{{log}} readers anew"),
                ],
            ),
        ),
        (
            Panel(
                "Durable consumers",
                "pending: not yet delivered. unacked: delivered, not acknowledged. again: delivered more than once.",
                [
                    ("max by (stream, consumer) (muster_consumer_pending_messages)", "{{consumer}} {{stream}} pending"),
                    ("max by (stream, consumer) (muster_consumer_unacked_messages)", "{{consumer}} {{stream}} unacked"),
                    (
                        "max by (stream, consumer) (muster_consumer_redelivered_messages)",
                        "{{consumer}} {{stream}} again",
                    ),
                ],
            ),
            Panel(
                "Webhooks",
                "Events that are done with, by outcome; those that wait.",
                [
                    (
                        f"sum by (webhook, outcome) (rate(muster_webhook_deliveries_total{RATE}))",
                        "{{webhook}} {{outcome}}",
                    ),
                    ("max by (webhook) (muster_webhook_waiting_events)", "{{webhook}} waiting"),
                ],
            ),
            Panel(
                "From fact to dashboards",
                "The objective: 99 % within 250 ms.",
                quantiles("muster_view_publish_delay_seconds", by="log"),
                unit="s",
            ),
            Panel(
                "Sent to dashboards",
                "Slices, by audience, and their bytes.",
                [
                    (f"sum by (audience) (rate(muster_view_slices_total{RATE}))", "{{audience}} slices/s"),
                    (f"sum(rate(muster_view_sent_bytes_total{RATE})) / 1024", "KiB/s"),
                    (f"sum(rate(muster_view_slices_dropped_total{RATE}))", "dropped/s"),
                ],
            ),
        ),
        (
            Panel(
                "Processor time",
                "Cores that each process uses.",
                [(f'rate(process_cpu_seconds_total{{job="muster"}}{RATE})', "{{instance}}")],
                stacked=True,
            ),
            Panel(
                "Memory",
                "Resident; all services together are meant to stay below 1 GiB.",
                [('process_resident_memory_bytes{job="muster"}', "{{instance}}")],
                unit="bytes",
                stacked=True,
            ),
            Panel(
                "How late event loops are",
                "99th percentile: everything in a process waits so long.",
                [quantiles("muster_loop_late_seconds", by="instance")[1]],
                unit="s",
            ),
            Panel(
                "Questions",
                "Rate by outcome, and the 99th percentile of answering.",
                [
                    (f"sum by (service, outcome) (rate(muster_queries_total{RATE}))", "{{service}} {{outcome}}/s"),
                    quantiles("muster_query_seconds", by="service")[1],
                ],
            ),
        ),
    ),
)
