"""The addresses of the dashboard's pages in messages."""

from __future__ import annotations

from urllib.parse import urlencode

MAX_CAUSE = 200


def page_of_test(dashboard_url: str, test: str) -> str:
    """Return the address of a test's page."""
    return f"{dashboard_url}/test?{urlencode({'test': test}, errors='replace')}"


def page_of_incident(dashboard_url: str, test: str, run_key: str, act: str = "") -> str:
    """Return the address of the open incident of a test that a run belongs to, with an act to confirm."""
    chosen = {"test": test, "run": run_key} | ({"act": act} if act else {})
    return f"{dashboard_url}/inbox?{urlencode(chosen, errors='replace')}"


def page_of_cause(dashboard_url: str, cause: str) -> str:
    """Return the address of the incidents with a cause; of all incidents if it is empty."""
    words = {"q": cause[:MAX_CAUSE]} if cause else {}
    return f"{dashboard_url}/inbox{'?' if words else ''}{urlencode(words, errors='replace')}"


def page_of_run(dashboard_url: str, run_key: str) -> str:
    """Return the address of a run's page."""
    return f"{dashboard_url}/run?{urlencode({'run': run_key})}"
