"""API servers of a real cluster, as the guard sees them."""

from muster_tools.grafana.boards import RATE, Board, Panel

API_SERVER = Board(
    "apiserver",
    "API server",
    "Of a real cluster, as the guard sees it: memory per replica, who lists, flow control. Empty for a simulated one.",
    rows=(
        (
            Panel(
                "API servers",
                "Of which the guard reads the metrics.",
                [
                    ("sum(max by (replica) (muster_apiserver_up))", "answer"),
                    ("count(muster_apiserver_up)", "there are"),
                ],
                kind="stat",
            ),
            Panel(
                "Skew of memory",
                "The largest over the smallest. Above 2: old connections stay where they were made.",
                [("max(muster_apiserver_memory_skew_ratio)", "times")],
                kind="stat",
            ),
            Panel("Watches", "Open ones, of all clients.", [("sum(muster_apiserver_watches)", "watches")], kind="stat"),
            Panel(
                "Advice",
                "That stands. `muster guard report` has the numbers and the cures.",
                [("sum by (code) (muster_guard_advice)", "{{code}}")],
                kind="stat",
            ),
        ),
        (
            Panel(
                "Memory",
                "Resident, of each API server.",
                [("max by (replica) (muster_apiserver_memory_bytes)", "{{replica}}")],
                unit="bytes",
            ),
            Panel(
                "Heap at which garbage is collected",
                "Twice what lives with GOGC=100; half of that again is saved with GOGC=50, for more processor time.",
                [("max by (replica) (muster_apiserver_heap_goal_bytes)", "{{replica}}")],
                unit="bytes",
            ),
            Panel(
                "Processor",
                "Cores that each API server uses.",
                [("max by (replica) (muster_apiserver_cpu_cores)", "{{replica}}")],
            ),
        ),
        (
            Panel(
                "LISTs by client",
                "A minute, of those that list most. A client is a user agent, or a user where nobody tells more.",
                [("max by (client, resource) (muster_apiserver_client_lists_per_minute)", "{{client}}: {{resource}}")],
            ),
            Panel(
                "LISTs by resource",
                "A minute. Muster's own stay the same however many services, dashboards and jobs there are.",
                [("max by (resource) (muster_apiserver_lists_per_minute)", "{{resource}}")],
            ),
        ),
        (
            Panel(
                "Requests",
                "Answered each second, by API server.",
                [("max by (replica) (muster_apiserver_requests_per_second)", "{{replica}}")],
                unit="reqps",
            ),
            Panel(
                "Requests being worked on",
                "Reading: at most 400 by default. Writing: 200.",
                [("sum by (kind) (muster_apiserver_inflight_requests)", "{{kind}}")],
            ),
            Panel(
                "What is stored",
                "The kinds that take most, as API servers estimate it: what one LIST of all of them moves.",
                [("max by (resource) (muster_apiserver_objects_bytes)", "{{resource}}")],
                unit="bytes",
            ),
            Panel(
                "Objects",
                "Of the same kinds.",
                [("max by (resource) (muster_apiserver_objects)", "{{resource}}")],
            ),
        ),
        (
            Panel(
                "Seats",
                "Of each priority level: so many requests of width one at a time, on each API server.",
                [("max by (level) (muster_apiserver_flow_seats)", "{{level}}")],
            ),
            Panel(
                "Seats of guarded kinds",
                "Found beside wanted: they must be the same.",
                [
                    (
                        "max by (level) (muster_apiserver_flow_seats and on (level) muster_guard_flow_seats_wanted)",
                        "{{level}}: found",
                    ),
                    ("max by (level) (muster_guard_flow_seats_wanted)", "{{level}}: wanted"),
                ],
            ),
            Panel(
                "At work",
                "Requests of each level.",
                [("sum by (level) (muster_apiserver_flow_executing)", "{{level}}")],
                stacked=True,
            ),
            Panel(
                "Waiting",
                "Requests of each level in its queues. After a quarter of the time-out they are turned away.",
                [("sum by (level) (muster_apiserver_flow_queued)", "{{level}}")],
                stacked=True,
            ),
        ),
        (
            Panel(
                "Turned away",
                "Requests a minute that got 429, by level.",
                [("sum by (level) (muster_apiserver_flow_rejected_per_minute)", "{{level}}")],
            ),
            Panel(
                "What the guard reads",
                "Looks, pages that could not be read, events of the audit webhook.",
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
