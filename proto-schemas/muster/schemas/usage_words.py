"""Words of questions on the use of GPUs; the command line knows them without loading the models."""

from enum import StrEnum

ROWS_MAX = 500
DAYS_MAX = 35


class TopBy(StrEnum):
    """What a row of `top` stands for."""

    JOB = "job"
    TEAM = "team"
    QUEUE = "queue"
    USER = "user"
    MODEL = "model"


class EnergyBy(StrEnum):
    """What a row of what was used over days stands for."""

    TEAM = "team"
    QUEUE = "queue"


class TopOrder(StrEnum):
    """By what rows are ordered, the greatest first; `busy` and `sm`: the least first, since they are looked for."""

    GPUS = "gpus"
    IDLE = "idle"
    POWER = "power"
    BUSY = "busy"
    SM = "sm"
