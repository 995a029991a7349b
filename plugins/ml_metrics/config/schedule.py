"""`schedule`: a cron expression or a preset of Airflow."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Annotated

from pydantic import AfterValidator

from ml_metrics.config.problems import did_you_mean

PRESETS = ("@once", "@continuous", "@hourly", "@daily", "@weekly", "@monthly", "@quarterly", "@yearly")


@lru_cache(maxsize=4096)
def check_schedule(schedule: str) -> str:
    """Return the schedule if it is valid. Raises ValueError with a suggestion."""
    if schedule.startswith("@"):
        if schedule not in PRESETS:
            raise ValueError(
                f"{schedule!r} is not a preset; available: {', '.join(PRESETS)}{did_you_mean(schedule, PRESETS)}"
            )
        return schedule
    fields = schedule.split()
    if len(fields) != 5:  # noqa: PLR2004  (minute, hour, day, month, weekday)
        near = did_you_mean(f"@{schedule}", PRESETS)
        count = "1 field" if len(fields) == 1 else f"{len(fields)} fields"
        what = f"{schedule!r} is not a cron expression like '0 8 * * *': it has {count}, not 5"
        raise ValueError(f"{what}{near}")
    from croniter import croniter
    from croniter.croniter import CroniterError

    try:
        croniter.expand(schedule)
    except (CroniterError, ValueError, KeyError) as error:
        reason = re.sub(r"^\[.*?\] is not acceptable,? ?", "", str(error)) or "a field is out of range"
        raise ValueError(f"{schedule!r} is not a cron expression: {reason}") from error
    return schedule


Schedule = Annotated[str, AfterValidator(check_schedule)]
