"""Options of questions on GPU usage, which the command line needs without loading the models."""

from enum import StrEnum

ROWS_MAX = 500
DAYS_MAX = 35


class TopBy(StrEnum):
    """How `top` groups rows."""

    JOB = "job"
    TEAM = "team"
    QUEUE = "queue"
    USER = "user"
    MODEL = "model"


class EnergyBy(StrEnum):
    """How usage over days is grouped."""

    TEAM = "team"
    QUEUE = "queue"


class TopOrder(StrEnum):
    """Sort order of rows, the greatest first; `busy` and `sm`: the least first."""

    GPUS = "gpus"
    IDLE = "idle"
    POWER = "power"
    BUSY = "busy"
    SM = "sm"
