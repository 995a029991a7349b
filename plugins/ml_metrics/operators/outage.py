"""An API server that does not answer for a while: what counts as that, and waiting until it is back."""

from __future__ import annotations

import time
from datetime import timedelta
from http.client import HTTPException
from typing import TYPE_CHECKING

from airflow.sdk.exceptions import AirflowException
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

if TYPE_CHECKING:
    from collections.abc import Callable

LONGEST = timedelta(minutes=10)
"""How long an API server may be gone: one of a single zone is, while it is upgraded."""
SHORT = timedelta(seconds=30)
"""The same before anything was asked for: a cluster that was never reached is more often a wrong address."""
MOST = 10
"""How many outages a task lives through: an error that always comes back is none."""
INTERVAL = 2.0
"""Seconds between two questions whether it is back."""
PASSING = frozenset({None, 0, 429, 500, 502, 503, 504})
"""The answers of an API server, or of what stands before it, that say nothing about the question."""


def is_outage(error: BaseException | None) -> bool:
    """Whether an error says only that the cluster could not be asked."""
    if isinstance(error, ApiException):
        return error.status in PASSING
    if isinstance(error, AirflowException):
        return isinstance(error.__context__, HTTPError)  # the provider gave up asking, and says it in its own words
    return isinstance(error, (HTTPError, HTTPException, ConnectionError, TimeoutError))


def await_answer(ask: Callable[[], object], longest: timedelta) -> bool:
    """Ask until there is an answer, be it a refusal; False if there was none for so long."""
    deadline = time.monotonic() + longest.total_seconds()
    while True:
        try:
            ask()
        except Exception as error:
            if not is_outage(error):
                raise
            if time.monotonic() > deadline:
                return False
            time.sleep(INTERVAL)
        else:
            return True
