"""The banners at the top of every page: messages are not sent, or could not be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ml_metrics.alerts import short_name
from ml_metrics.core.errors import MlMetricsError
from ml_metrics.core.text import logger_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from ml_metrics.warehouse import Warehouse


log = logger_of(__name__)


def banners_of(warehouse: Warehouse, now: datetime) -> list[str]:
    """Return the problems with sending messages, since when, and what to do. It takes one query."""
    try:
        state = warehouse.senders.state(now)
    except MlMetricsError as error:
        log.warning("it is unknown whether messages are sent: %s", error)
        return ["It is unknown whether messages are sent; the log of the API server has the reason."]
    banners = []
    since = state.silent_since(now)
    if since is not None:
        pending = "1 message is pending" if state.pending == 1 else f"{state.pending:,} messages are pending"
        banners.append(
            f"No sender of messages has run since {since:%Y-%m-%d %H:%M} UTC, and {pending}. Unpause the DAG "
            "ml_messages and check that Airflow's scheduler runs; `ml-metrics messages --send` sends at once."
        )
    if state.dead:
        number = "1 message" if state.dead == 1 else f"{state.dead:,} messages"
        banners.append(
            f"{number} of the last 7 days could not be sent on every channel within five days. "
            "`ml-metrics messages` shows the reasons; the texts are in the outbox folder."
        )
    return banners


MAX_NAMED = 10


def problems_by_test(warehouse: Warehouse) -> dict[str, dict[str, str]]:
    """Return what the last pass found: the sentences about each test that does not run, by problem."""
    known = warehouse.known_tests.read().tests
    return {name: test.problems for name, test in sorted(known.items()) if test.problems}


def notices_of(problems: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return the notice about all tests that do not run; empty if there are none."""
    if not problems:
        return []
    named = [f"{test} ({', '.join(map(short_name, own))})" for test, own in list(problems.items())[:MAX_NAMED]]
    more = f" and {len(problems) - MAX_NAMED} more" if len(problems) > MAX_NAMED else ""
    return [f"Not running as defined: {', '.join(named)}{more}."]


def sentences_of(problems: Mapping[str, str]) -> list[str]:
    """Return the notices about one test."""
    return [f"Not running as defined, {short_name(name)}: {sentence}" for name, sentence in problems.items()]
