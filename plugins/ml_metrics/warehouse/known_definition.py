"""The stored part of a test's definition, which keeps the test known when its file breaks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ml_metrics.config.longest import longest_run
from ml_metrics.judge import history_needs
from ml_metrics.values import short_hash
from ml_metrics.warehouse.known_tests import KnownTest

if TYPE_CHECKING:
    from datetime import datetime

    from ml_metrics.config.definition import TestDefinition

NAMES = {"name", "framework", "model", "mode", "description", "owner", "emails", "sender", "tags"}
"""Keys that a renamed test may change."""


def known_test(test: TestDefinition, now: datetime | None = None, *, file: str = "") -> KnownTest:
    """Return the part of a definition to store. `file` is the DAG file of a test that is written in Python."""
    definition = test.model_dump_json(exclude=NAMES)
    needs = history_needs(test.regression_test_config, test.name)
    others = [("", name) for name in needs.tests[1:]]
    return KnownTest(
        test.name,
        owner=test.owner,
        emails=test.emails,
        sender=test.sender or "",
        file=test.source or file,
        in_python=not test.source,
        schedule=test.schedule or "",
        longest=longest_run(test).total_seconds(),
        recorded=test.metric_collection_config.write_to_bigquery,
        quiet_until=str(test.quarantine.until) if test.quarantine else "",
        fingerprint=short_hash(definition),
        since=now.timestamp() if now else 0.0,
        window=needs.window,
        compared_with=(*others, *((other.deployment, other.test) for other in needs.elsewhere)),
    )


def carried_over(test: KnownTest, earlier: KnownTest | None) -> KnownTest:
    """Return a test as its definition now is, with what is known of it.

    Runs of a schedule that is new are expected from now on; otherwise from when they were before.
    """
    if earlier is None:
        return test
    since = earlier.since if test.schedule == earlier.schedule else test.since
    return replace(
        test,
        since=since,
        dag_file=test.dag_file or earlier.dag_file,
        started=earlier.started,
        reported=earlier.reported,
        ignored=earlier.ignored,
    )
