"""The addresses of the dashboard's pages in messages."""

from __future__ import annotations

from urllib.parse import urlencode


def page_of_test(dashboard_url: str, test: str) -> str:
    """Return the address of a test's page."""
    return f"{dashboard_url}/test?{urlencode({'test': test}, errors='replace')}"


def page_of_run(dashboard_url: str, run_key: str) -> str:
    """Return the address of a run's page."""
    return f"{dashboard_url}/run?{urlencode({'run': run_key})}"
