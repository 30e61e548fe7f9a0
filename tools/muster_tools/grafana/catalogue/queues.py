"""Waiting jobs, resources held by queues, and placement times."""

from muster_tools.grafana.boards import Board, Panel, quantiles

_IN_QUEUE = '{queue=~"$queue"}'

QUEUES = Board(
    "queues",
    "Queues",
    "Waiting jobs, held resources and limits of each queue, and placement times.",
    variables=(("queue", "Queue", "label_values(muster_queue_gpus_nominal, queue)"),),
    rows=(
        (
            Panel(
                "Waiting jobs",
                "Of the queue itself, without the queues below it.",
                [('muster_queue_jobs{queue=~"$queue",state="waiting"}', "{{queue}}")],
                stacked=True,
            ),
            Panel(
                "Wait of the first job",
                "Steady growth: no job of this queue starts.",
                [(f"muster_queue_oldest_wait_seconds{_IN_QUEUE}", "{{queue}}")],
                unit="s",
            ),
        ),
        (
            Panel(
                "GPUs held",
                "By the queue and the queues below it.",
                [(f"muster_queue_gpus_held{_IN_QUEUE}", "{{queue}}")],
            ),
            Panel(
                "Held share of the nominal quota",
                "Above 100 %: borrowed from other queues, which may reclaim it.",
                [(f"muster_queue_gpus_held{_IN_QUEUE} / (muster_queue_gpus_nominal{_IN_QUEUE} > 0)", "{{queue}}")],
                unit="percentunit",
            ),
            Panel(
                "Held share of the limit",
                "At 100 % the queue gets no more GPUs, even if some are free.",
                [(f"muster_queue_gpus_held{_IN_QUEUE} / (muster_queue_gpus_limit{_IN_QUEUE} < +Inf)", "{{queue}}")],
                unit="percentunit",
            ),
        ),
        (
            Panel(
                "Current share",
                "Borrowed share of the lendable resources, by weight. The smallest share is served first.",
                [(f"muster_queue_share{_IN_QUEUE}", "{{queue}}")],
                unit="percentunit",
            ),
            Panel(
                "Share with decayed use",
                "The same for past use; older use counts less.",
                [(f"muster_queue_used_share{_IN_QUEUE}", "{{queue}}")],
                unit="percentunit",
            ),
        ),
        (
            Panel(
                "Submitted to placed, if capacity was free",
                "The objective is 99 % within a second. Exemplars link to traces.",
                quantiles("muster_submit_to_placed_seconds", matching='{waited="no"}'),
                unit="s",
                exemplars=True,
            ),
            Panel(
                "Submitted to placed, if the job had to wait",
                "How long jobs wait for other jobs to end, or for scaling.",
                quantiles("muster_submit_to_placed_seconds", matching='{waited="yes"}'),
                unit="s",
                exemplars=True,
            ),
        ),
    ),
)
