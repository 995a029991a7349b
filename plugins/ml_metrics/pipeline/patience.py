"""How long Airflow retries a task: the services that it needs may be unavailable for ten minutes.

A broker that is down uses up tries, too: Airflow counts a task that it could not publish, although no process of it
ever started. The delays therefore grow; the first is short, so that a lost worker costs little time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ml_metrics.config.definition import MAX_DELAY as LONGEST_DELAY
from ml_metrics.config.definition import RETRIES
from ml_metrics.core.airflow_options import airflow_option
from ml_metrics.core.errors import ConfigError

if TYPE_CHECKING:
    from airflow.sdk.types import RuntimeTaskInstanceProtocol


FIRST_DELAY, MAX_DELAY = 30.0, LONGEST_DELAY.total_seconds()
"""Airflow adds up to as much again to a delay, doubles it for the next try, and cuts it at the maximum."""
OPTION = ("core", "default_task_retry_delay")
"""Airflow's option for every task. Where it is set, it is the first delay of these tasks, too."""
AIRFLOWS_DEFAULT = 300.0
"""Airflow writes its defaults into a new `airflow.cfg`: this value counts as not set."""


def retry_options(more: int = 0) -> dict[str, Any]:
    """For a workload, the retries of its test file are added."""
    return {
        "retries": RETRIES + more,
        "retry_delay": first_delay(),
        "retry_exponential_backoff": True,
        "max_retry_delay": MAX_DELAY,
    }


def has_tries_left(ti: RuntimeTaskInstanceProtocol) -> bool:
    return ti.try_number <= ti.max_tries


def first_delay() -> float:
    """In seconds, before the second try. Raises ConfigError if Airflow's option is no number."""
    text = airflow_option(*OPTION)
    try:
        seconds = AIRFLOWS_DEFAULT if text is None else float(text)
    except ValueError:
        raise ConfigError(f"[{OPTION[0]}] {OPTION[1]}: {text!r} is not a number of seconds") from None
    return FIRST_DELAY if seconds == AIRFLOWS_DEFAULT else min(MAX_DELAY, max(0.0, seconds))


def longest_patience(first: float = FIRST_DELAY) -> float:
    """The seconds from the first to the last try, if Airflow doubles each delay and a try takes no time."""
    return sum(min(MAX_DELAY, 2 * first * 2.0**number) for number in range(RETRIES))
