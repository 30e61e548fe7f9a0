"""Who waits, what queues hold, how long placing takes."""

from muster_tools.grafana.boards import Board, Panel, quantiles

_IN_QUEUE = '{queue=~"$queue"}'

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
