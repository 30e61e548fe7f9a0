"""Moments as Kubernetes writes them: RFC 3339, in UTC, whole seconds."""

from muster.core import NS_PER_S

_DAY_S = 86_400


def rfc3339(at: int) -> str | None:
    """`2026-11-21T16:00:00Z`; None for a moment that has not come (0)."""
    if not at:
        return None
    days, second = divmod(at // NS_PER_S, _DAY_S)
    year, month, day = _civil(days)
    hour, rest = divmod(second, 3_600)
    return f"{year:04d}-{month:02d}-{day:02d}T{hour:02d}:{rest // 60:02d}:{rest % 60:02d}Z"


def _civil(days: int) -> tuple[int, int, int]:
    """Year, month and day so many days after 1970-01-01 (H. Hinnant, "civil_from_days")."""
    era, of_era = divmod(days + 719_468, 146_097)
    of_year_era = (of_era - of_era // 1_460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * of_year_era + of_year_era // 4 - of_year_era // 100)
    from_march = (5 * of_year + 2) // 153
    day = of_year - (153 * from_march + 2) // 5 + 1
    month = from_march + 3 if from_march < 10 else from_march - 9
    return of_year_era + era * 400 + (month <= 2), month, day
