"""The tests that do not run as defined, for the pages: their file, their DAG or their schedule is broken."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ml_metrics.reports import short_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ml_metrics.warehouse import Warehouse

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
