"""API servers of a real cluster, as the guard reads them."""

from muster_tools.grafana.boards import RATE, Board, Panel

API_SERVER = Board(
    "apiserver",
    "API server",
    "API servers of a real cluster: memory, clients that list, flow control. Empty for a simulated cluster.",
    rows=(
        (
            Panel(
                "API servers",
                "API servers whose metrics the guard reads.",
                [
                    ("sum(max by (replica) (muster_apiserver_up))", "answer"),
                    ("count(muster_apiserver_up)", "there are"),
                ],
                kind="stat",
            ),
            Panel(
                "Memory skew",
                "Largest memory use divided by the smallest. Above 2: clients keep their old connections.",
                [("max(muster_apiserver_memory_skew_ratio)", "times")],
                kind="stat",
            ),
            Panel("Watches", "Open, of all clients.", [("sum(muster_apiserver_watches)", "watches")], kind="stat"),
            Panel(
                "Advice",
                "Open advice of the guard. `muster guard report` shows the numbers and hints.",
                [("sum by (code) (muster_guard_advice)", "{{code}}")],
                kind="stat",
            ),
        ),
        (
            Panel(
                "Memory",
                "Resident memory of each API server.",
                [("max by (replica) (muster_apiserver_memory_bytes)", "{{replica}}")],
                unit="bytes",
            ),
            Panel(
                "Heap size that starts a garbage collection",
                "Twice the live heap with GOGC=100; 1.5 times with GOGC=50, which costs CPU time.",
                [("max by (replica) (muster_apiserver_heap_goal_bytes)", "{{replica}}")],
                unit="bytes",
            ),
            Panel(
                "CPU",
                "Cores that each API server uses.",
                [("max by (replica) (muster_apiserver_cpu_cores)", "{{replica}}")],
            ),
        ),
        (
            Panel(
                "LISTs by client",
                "LIST requests a minute, of the clients that list most. A client is a user agent or a user.",
                [("max by (client, resource) (muster_apiserver_client_lists_per_minute)", "{{client}}: {{resource}}")],
            ),
            Panel(
                "LISTs by resource",
                "LIST requests a minute. Those of Muster do not depend on the number of services, dashboards and jobs.",
                [("max by (resource) (muster_apiserver_lists_per_minute)", "{{resource}}")],
            ),
        ),
        (
            Panel(
                "Requests",
                "Answered requests a second, by API server.",
                [("max by (replica) (muster_apiserver_requests_per_second)", "{{replica}}")],
                unit="reqps",
            ),
            Panel(
                "Concurrent requests",
                "Default limits: 400 reading, 200 writing.",
                [("sum by (kind) (muster_apiserver_inflight_requests)", "{{kind}}")],
            ),
            Panel(
                "Stored bytes",
                "Largest resources, as the API servers estimate them: the bytes that one LIST transfers.",
                [("max by (resource) (muster_apiserver_objects_bytes)", "{{resource}}")],
                unit="bytes",
            ),
            Panel(
                "Objects",
                "Number of stored objects of the same resources.",
                [("max by (resource) (muster_apiserver_objects)", "{{resource}}")],
            ),
        ),
        (
            Panel(
                "Seats",
                "Seats of each priority level: concurrent requests of width one on each API server.",
                [("max by (level) (muster_apiserver_flow_seats)", "{{level}}")],
            ),
            Panel(
                "Seats of guarded kinds",
                "Actual and configured seats; they must be equal.",
                [
                    (
                        "max by (level) (muster_apiserver_flow_seats and on (level) muster_guard_flow_seats_wanted)",
                        "{{level}}: found",
                    ),
                    ("max by (level) (muster_guard_flow_seats_wanted)", "{{level}}: wanted"),
                ],
            ),
            Panel(
                "Executing requests",
                "Requests in execution, by priority level.",
                [("sum by (level) (muster_apiserver_flow_executing)", "{{level}}")],
                stacked=True,
            ),
            Panel(
                "Waiting",
                "Queued requests, by priority level. They are rejected after a quarter of the request timeout.",
                [("sum by (level) (muster_apiserver_flow_queued)", "{{level}}")],
                stacked=True,
            ),
        ),
        (
            Panel(
                "Rejected requests",
                "Requests a minute that were answered 429, by priority level.",
                [("sum by (level) (muster_apiserver_flow_rejected_per_minute)", "{{level}}")],
            ),
            Panel(
                "What the guard reads",
                "Scrapes, failed scrapes, and events of the audit webhook.",
                [
                    (f"sum(rate(muster_guard_looks_total{RATE}))", "looks"),
                    (f"sum(rate(muster_guard_scrape_failures_total{RATE}))", "failed pages"),
                    (f"sum(rate(muster_guard_audit_events_total{RATE}))", "audit events"),
                ],
                unit="ops",
            ),
        ),
    ),
)
