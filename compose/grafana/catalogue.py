"""What stands on each dashboard. Every query is checked against the pages of a running stack (tests/integration)."""

from boards import RATE, Board, Panel, quantiles

_IN_QUEUE = '{queue=~"$queue"}'
_IN_TEAM = '{team=~"$team"}'
_FREE = (
    "sum by (model) (muster_gpus) - sum by (model) (muster_gpus_unusable)"
    " - (sum by (model) (muster_gpus_held) or 0 * sum by (model) (muster_gpus))"
)
_MEAN_WAIT = f"rate(muster_jobs_waited_seconds_total{_IN_TEAM}{RATE}) / rate(muster_jobs_placed_total{_IN_TEAM}{RATE})"
_FAILED = (
    'sum by (team) (increase(muster_jobs_ended_total{team=~"$team",outcome="failed"}[6h]))'
    f" / sum by (team) (increase(muster_jobs_ended_total{_IN_TEAM}[6h]))"
)

FLEET = Board(
    "fleet",
    "Fleet",
    "What there is, what is held, what cannot be used.",
    rows=(
        (
            Panel("Usable nodes", "They take new jobs.", [('sum(muster_nodes{state="usable"})', "nodes")], kind="stat"),
            Panel("GPUs", "Of all nodes of the cluster.", [("sum(muster_gpus)", "GPUs")], kind="stat"),
            Panel("GPUs held", "By jobs.", [("sum(muster_gpus_held)", "held")], kind="stat"),
            Panel(
                "Utilisation",
                "Held GPUs, of those that can be used; and how busy all are.",
                [
                    ("sum(muster_gpus_held) / (sum(muster_gpus) - sum(muster_gpus_unusable))", "held"),
                    ("avg(muster_gpu_utilisation_ratio)", "busy"),
                ],
                unit="percentunit",
                kind="stat",
            ),
        ),
        (
            Panel(
                "GPUs held by model",
                "Parts of a GPU count as such.",
                [("sum by (model) (muster_gpus_held)", "{{model}}")],
                stacked=True,
            ),
            Panel(
                "GPUs free by model",
                "Usable and not held. Free beside waiting jobs: see Queues for what stands in their way.",
                [
                    (_FREE, "{{model}}"),
                ],
            ),
        ),
        (
            Panel(
                "Utilisation of held GPUs",
                "Mean of what nodes measured, by model. Low: jobs hold what they do not use.",
                [("max by (model) (muster_gpu_held_utilisation_ratio)", "{{model}}")],
                unit="percentunit",
            ),
            Panel(
                "Power",
                "What the reporting GPUs draw together.",
                [("max by (model) (muster_gpu_power_watts)", "{{model}}")],
                unit="watt",
                stacked=True,
            ),
            Panel(
                "Hottest GPU, and GPUs that report",
                "Highest temperature by model; reporting, of all there are.",
                [
                    ("max by (model) (muster_gpu_temperature_max_celsius)", "{{model}} °C"),
                    ("100 * sum(muster_gpus_reporting) / sum(muster_gpus)", "reporting, %"),
                ],
            ),
        ),
        (
            Panel(
                "Nodes by state",
                "lost: they do not answer. withheld: somebody asked for them. unreleased: new.",
                [("sum by (state) (muster_nodes)", "{{state}}")],
                stacked=True,
            ),
            Panel(
                "GPUs that take no jobs",
                "On nodes that are lost or withheld, or withheld themselves.",
                [("sum by (model) (muster_gpus_unusable)", "{{model}}")],
            ),
            Panel(
                "Runs that ended for nothing",
                "Jobs that wait again after a run, by reason.",
                [(f"sum by (reason) (rate(muster_jobs_requeued_total{RATE}))", "{{reason}}")],
                unit="ops",
            ),
        ),
    ),
)

QUEUES = Board(
    "queues",
    "Queues",
    "Who waits, what each queue holds and may hold, how long placing takes.",
    variables=(("queue", "Queue", "label_values(muster_queue_gpus_nominal, queue)"),),
    rows=(
        (
            Panel(
                "Waiting jobs",
                "Of the queue itself, without those below it.",
                [('muster_queue_jobs{queue=~"$queue",state="waiting"}', "{{queue}}")],
                stacked=True,
            ),
            Panel(
                "How long the first has waited",
                "Steady growth: nothing of this queue is started.",
                [(f"muster_queue_oldest_wait_seconds{_IN_QUEUE}", "{{queue}}")],
                unit="s",
            ),
        ),
        (
            Panel(
                "GPUs held",
                "By the queue and those below it.",
                [(f"muster_queue_gpus_held{_IN_QUEUE}", "{{queue}}")],
            ),
            Panel(
                "Held, of the nominal quota",
                "Above 100 %: borrowed from others, who can have it back.",
                [(f"muster_queue_gpus_held{_IN_QUEUE} / (muster_queue_gpus_nominal{_IN_QUEUE} > 0)", "{{queue}}")],
                unit="percentunit",
            ),
            Panel(
                "Held, of the limit",
                "At 100 % it gets no more, whatever is free.",
                [(f"muster_queue_gpus_held{_IN_QUEUE} / (muster_queue_gpus_limit{_IN_QUEUE} < +Inf)", "{{queue}}")],
                unit="percentunit",
            ),
        ),
        (
            Panel(
                "Share now",
                "What it borrows of what could be lent, by weight: the least goes first.",
                [(f"muster_queue_share{_IN_QUEUE}", "{{queue}}")],
                unit="percentunit",
            ),
            Panel(
                "Share lately",
                "The same for what it held, older use counts less.",
                [(f"muster_queue_used_share{_IN_QUEUE}", "{{queue}}")],
                unit="percentunit",
            ),
        ),
        (
            Panel(
                "Submitted to placed, where there was a place",
                "The objective: 99 % within a second. Points lead to traces.",
                quantiles("muster_submit_to_placed_seconds", matching='{waited="no"}'),
                unit="s",
                exemplars=True,
            ),
            Panel(
                "Submitted to placed, where there was none at first",
                "How long jobs wait for others to end or for scaling.",
                quantiles("muster_submit_to_placed_seconds", matching='{waited="yes"}'),
                unit="s",
                exemplars=True,
            ),
        ),
    ),
)

TEAMS = Board(
    "teams",
    "Jobs by team",
    "Who runs what, how long teams wait, how their jobs end. Small teams beyond a bound stand together as other.",
    variables=(("team", "Team", "label_values(muster_team_gpus_held, team)"),),
    rows=(
        (
            Panel("GPUs held", "By the team's jobs.", [(f"muster_team_gpus_held{_IN_TEAM}", "{{team}}")], stacked=True),
            Panel(
                "Running jobs",
                "All pods of the gang run.",
                [('muster_team_jobs{team=~"$team",state="running"}', "{{team}}")],
                stacked=True,
            ),
            Panel(
                "Waiting jobs",
                "Not placed, and not held by anybody.",
                [('muster_team_jobs{team=~"$team",state="waiting"}', "{{team}}")],
                stacked=True,
            ),
        ),
        (
            Panel(
                "Placed",
                "Placements, first and later ones.",
                [(f"rate(muster_jobs_placed_total{_IN_TEAM}{RATE})", "{{team}}")],
                unit="ops",
            ),
            Panel(
                "Mean wait",
                "From queued to placed, of the jobs placed then.",
                [
                    (_MEAN_WAIT, "{{team}}"),
                ],
                unit="s",
            ),
        ),
        (
            Panel(
                "Ended by outcome",
                "Of all chosen teams.",
                [(f"sum by (outcome) (rate(muster_jobs_ended_total{_IN_TEAM}{RATE}))", "{{outcome}}")],
                unit="ops",
                stacked=True,
            ),
            Panel(
                "Failed, of those that ended",
                "Over six hours, by team.",
                [
                    (_FAILED, "{{team}}"),
                ],
                unit="percentunit",
            ),
        ),
    ),
)

SCALING = Board(
    "scaling",
    "Scaling",
    "What the scaler chooses, what it comes to, pools and fabrics.",
    rows=(
        (
            Panel(
                "Choices that ended",
                "By choice and outcome. Of nothing-chosen the outcome is what stood in the way.",
                [
                    (
                        f"sum by (choice, outcome) (increase(muster_scale_choices_total{RATE}))",
                        "{{choice}} {{outcome}}",
                    )
                ],
                stacked=True,
            ),
            Panel(
                "Choices under way",
                "One that stays: see what it waits for with muster scale.",
                [("sum by (choice) (muster_scale_choices_open)", "{{choice}}")],
                stacked=True,
            ),
            Panel(
                "Jobs that scaling could help",
                "They wait for what could be attached or added.",
                [("sum by (cluster) (muster_scale_waiting_jobs)", "{{cluster}}")],
            ),
        ),
        (
            Panel(
                "From chosen to done",
                "By choice.",
                quantiles("muster_scale_choice_seconds", by="choice"),
                unit="s",
                exemplars=True,
            ),
            Panel(
                "From requested to online",
                "Attaching one device, by fabric.",
                quantiles("muster_attach_seconds", by="fabric"),
                unit="s",
                exemplars=True,
            ),
            Panel(
                "From wanted to detached",
                "Taking one device back, by fabric.",
                quantiles("muster_detach_seconds", by="fabric"),
                unit="s",
                exemplars=True,
            ),
        ),
        (
            Panel(
                "Devices by place",
                "Free in the pool, or attached.",
                [("sum by (fabric, model, place) (muster_fabric_devices)", "{{fabric}} {{model}} {{place}}")],
                stacked=True,
            ),
            Panel(
                "Attachments by phase",
                "All but online are on their way.",
                [("sum by (phase) (muster_attachments)", "{{phase}}")],
                stacked=True,
            ),
            Panel(
                "Attachments that failed",
                "For good, by failure.",
                [
                    (
                        f"sum by (fabric, failure) (increase(muster_attachments_failed_total{RATE})) > 0",
                        "{{fabric}} {{failure}}",
                    )
                ],
            ),
        ),
        (
            Panel(
                "Calls to fabrics",
                "By call and outcome.",
                [
                    (
                        f"sum by (fabric, call, outcome) (rate(muster_fabric_calls_total{RATE}))",
                        "{{fabric}} {{call}} {{outcome}}",
                    )
                ],
                unit="ops",
            ),
            Panel(
                "Duration of calls",
                "Those that did what they should.",
                quantiles("muster_fabric_call_seconds", by="call"),
                unit="s",
            ),
            Panel(
                "Calls under way and unsettled",
                "Unsettled: they may still have an effect.",
                [
                    ("sum by (fabric) (muster_fabric_calls_running)", "{{fabric}} running"),
                    ("sum by (fabric) (muster_fabric_calls_unsettled)", "{{fabric}} unsettled"),
                ],
            ),
            Panel(
                "Breaker and survey",
                "Breaker: 0 closed, 1 half-open, 2 open. Age of the newest look, in minutes.",
                [
                    ("max by (fabric) (muster_fabric_breaker)", "{{fabric}} breaker"),
                    ("max by (fabric) (muster_fabric_survey_age_seconds) / 60", "{{fabric}} survey, minutes"),
                    ("max by (fabric) (muster_fabric_orphans)", "{{fabric}} orphans"),
                ],
            ),
        ),
    ),
)

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
                "stale: another leader was faster. full: the log. Back-off: seconds until the next try.",
                [
                    (
                        f"sum by (service, reason) (rate(muster_append_refused_total{RATE})) > 0",
                        "{{service}} {{reason}}",
                    ),
                    ("max by (service) (muster_append_backoff_seconds) > 0", "{{service}} back-off"),
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

CLUSTER = Board(
    "cluster",
    "Cluster",
    "A real cluster as the agent sees it: one watch per kind, and what it asks. Empty for a simulated one.",
    rows=(
        (
            Panel(
                "Kinds seen whole",
                "Of those that the agent watches. Until pods and nodes were, nothing is placed.",
                [("sum(muster_kube_watch_synced)", "seen"), ("count(muster_kube_watch_synced)", "watched")],
                kind="stat",
            ),
            Panel(
                "Nodes by state",
                "lost: not ready for a while. withheld: cordoned, or somebody asked for them.",
                [("sum by (state) (muster_nodes)", "{{state}}")],
                kind="stat",
            ),
            Panel(
                "Longest silence",
                "API servers send a bookmark each minute.",
                [("max(muster_kube_watch_silent_seconds)", "silent")],
                unit="s",
                kind="stat",
            ),
            Panel("GPUs held", "By jobs.", [("sum(muster_gpus_held)", "held")], kind="stat"),
        ),
        (
            Panel(
                "Objects held",
                "A few fields of each, by kind.",
                [("max by (resource) (muster_kube_objects)", "{{resource}}")],
            ),
            Panel(
                "Events",
                "Of watches, each second: what changes in the cluster.",
                [(f"sum by (resource) (rate(muster_kube_events_total{RATE}))", "{{resource}}")],
                unit="ops",
            ),
            Panel(
                "Requests",
                "That the agent sends, each second. They follow jobs, not services or dashboards.",
                [(f"sum by (service) (rate(muster_kube_requests_total{RATE}))", "{{service}}")],
                unit="reqps",
            ),
        ),
        (
            Panel(
                "Asked for all objects",
                "In a quarter of an hour, by kind. Flat: watches go on where they were.",
                [("sum by (resource) (increase(muster_kube_lists_total[15m]))", "{{resource}}")],
            ),
            Panel(
                "Watches that failed",
                "In a quarter of an hour, by kind; they are resumed.",
                [("sum by (resource) (increase(muster_kube_watch_failures_total[15m]))", "{{resource}}")],
            ),
            Panel(
                "Silence",
                "Of each watch.",
                [("max by (resource) (muster_kube_watch_silent_seconds)", "{{resource}}")],
                unit="s",
            ),
            Panel(
                "Missed and repaired",
                "Objects that comparing found changed without an event.",
                [("sum by (resource) (increase(muster_kube_watch_missed_objects_total[1h]))", "{{resource}}")],
            ),
        ),
    ),
)

BOARDS = (FLEET, QUEUES, TEAMS, SCALING, CLUSTER, API_SERVER, MUSTER)
