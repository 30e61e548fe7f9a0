"""Muster itself: objectives, services, streams, processes."""

from muster_tools.grafana.boards import RATE, Board, Panel, quantiles

MUSTER = Board(
    "muster",
    "Muster itself",
    "Objectives; rate, errors and duration of each service; utilization, saturation and errors of each stream.",
    rows=(
        (
            Panel(
                "Error budget left",
                "Of the last three days. Below 0 the budget is overspent.",
                [("muster:slo_budget_left:ratio3d", "{{slo}}")],
                unit="percentunit",
                kind="bargauge",
            ),
            Panel(
                "Error budget burn rate",
                "1 is the allowed rate. A tier 1 alert fires above 14.4 for one hour, or 6 for six hours.",
                [("muster:slo_burn:rate1h", "{{slo}}")],
            ),
            Panel(
                "Alerts",
                "Alerts that fire now.",
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
                "Requests a second, over all routes.",
                [(f"sum by (status) (rate(muster_http_requests_total{RATE}))", "{{status}}")],
                unit="reqps",
                stacked=True,
            ),
            Panel(
                "Duration by route",
                "99th percentile of the time to the first byte of the answer.",
                [quantiles("muster_http_request_seconds", by="route")[1]],
                unit="s",
                exemplars=True,
            ),
            Panel(
                "Running requests, refused submissions",
                "Refused submissions by status.",
                [
                    ("sum(muster_http_requests_in_flight)", "under way"),
                    (f"sum by (status) (rate(muster_jobs_refused_total{RATE}))", "refused {{status}}"),
                ],
            ),
        ),
        (
            Panel(
                "Facts folded",
                "Facts a second, by service.",
                [(f"sum by (service, log) (rate(muster_folded_facts_total{RATE}))", "{{service}} {{log}}")],
                unit="ops",
            ),
            Panel(
                "Facts appended",
                "Facts a second that each service decided.",
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
                "Refused appends",
                "stale: another leader was faster. full: the log is full. Back-off: seconds until the next attempt. "
                "Held back: quarantined drafts.",
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
                "Lag behind the log",
                "Messages that a service has left to fold.",
                [("max by (service, log) (muster_log_lag_messages)", "{{service}} {{log}}")],
            ),
            Panel(
                "Restarts, overruns, anomalies",
                "Recoveries after a failure; decisions over their time budget; facts that did not fit the state.",
                [
                    (f"sum by (service) (increase(muster_service_restarts_total{RATE}))", "{{service}} restarts"),
                    (f"sum by (service) (increase(muster_decide_overruns_total{RATE}))", "{{service}} overruns"),
                    ("max by (service) (muster_anomalies)", "{{service}} anomalies"),
                ],
            ),
            Panel(
                "Leaders",
                "Each service has one leader on each log.",
                [("sum by (service, log) (muster_leading)", "{{service}} {{log}}")],
            ),
        ),
        (
            Panel(
                "Messages stored",
                "Messages a second, by stream.",
                [(f"max by (stream) (rate(muster_stream_last_seq{RATE}))", "{{stream}}")],
                unit="ops",
            ),
            Panel(
                "Fill level of streams",
                "A full log accepts no jobs; other streams drop their oldest messages.",
                [("max by (stream) (muster_stream_bytes / (muster_stream_bytes_max > 0))", "{{stream}}")],
                unit="percentunit",
            ),
            Panel(
                "Source backlog",
                "Messages of another stream that a log has not yet sourced.",
                [("max by (log, source) (muster_log_source_waiting_messages)", "{{source}} to {{log}}")],
            ),
            Panel(
                "Dead letters and gaps",
                "New dead letters, all dead letters, and recreated consumers.",
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
                "Completed events by outcome, and waiting events.",
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
                "The objective is 99 % within 250 ms.",
                quantiles("muster_view_publish_delay_seconds", by="log"),
                unit="s",
            ),
            Panel(
                "Sent to dashboards",
                "View slices by audience, and their bytes.",
                [
                    (f"sum by (audience) (rate(muster_view_slices_total{RATE}))", "{{audience}} slices/s"),
                    (f"sum(rate(muster_view_sent_bytes_total{RATE})) / 1024", "KiB/s"),
                    (f"sum(rate(muster_view_slices_dropped_total{RATE}))", "dropped/s"),
                ],
            ),
        ),
        (
            Panel(
                "CPU time",
                "Cores that each process uses.",
                [(f'rate(process_cpu_seconds_total{{job="muster"}}{RATE})', "{{instance}}")],
                stacked=True,
            ),
            Panel(
                "Memory",
                "Resident memory. All services together should stay below 1 GiB.",
                [('process_resident_memory_bytes{job="muster"}', "{{instance}}")],
                unit="bytes",
                stacked=True,
            ),
            Panel(
                "Event loop delay",
                "99th percentile. Everything in the process is delayed by this time.",
                [quantiles("muster_loop_late_seconds", by="instance")[1]],
                unit="s",
            ),
            Panel(
                "Queries",
                "Queries a second by outcome, and the 99th percentile of the answer time.",
                [
                    (f"sum by (service, outcome) (rate(muster_queries_total{RATE}))", "{{service}} {{outcome}}/s"),
                    quantiles("muster_query_seconds", by="service")[1],
                ],
            ),
        ),
    ),
)
