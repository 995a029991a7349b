"""Outages of the API server: recognizing them, and waiting until they are over."""

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

MAX_OUTAGE = timedelta(minutes=10)
"""The API server of a zonal cluster, for example, is unavailable during upgrades."""
MAX_FIRST_OUTAGE = timedelta(seconds=30)
"""Before anything was created. A cluster that was never reached more likely has a wrong address."""
MAX_OUTAGES = 10
"""Outages that one task tolerates. An error that always returns is not an outage."""
POLL_SECONDS = 2.0
"""The interval between requests during an outage."""
TRANSIENT_STATUSES = frozenset({None, 0, 429, 500, 502, 503, 504})
"""The statuses, also of a proxy, that are unrelated to the request itself."""


def is_outage(error: BaseException | None) -> bool:
    """Return whether an error only means that the cluster is unreachable."""
    if isinstance(error, ApiException):
        return error.status in TRANSIENT_STATUSES
    if isinstance(error, AirflowException):
        return isinstance(error.__context__, HTTPError)  # the provider raises this after its own retries
    return isinstance(error, (HTTPError, HTTPException, ConnectionError, TimeoutError))


def wait_for_answer(ask: Callable[[], object], timeout: timedelta) -> bool:
    """Repeat a request until it is answered, even with an error. Return False on timeout."""
    deadline = time.monotonic() + timeout.total_seconds()
    while True:
        try:
            ask()
        except Exception as error:
            if not is_outage(error):
                raise
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_SECONDS)
        else:
            return True
