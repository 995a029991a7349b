"""A test whose trials answer a question: what is wrong with it before any is made, and its past values."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ml_metrics.cli.chosen_warehouse import NothingRecordedError, open_chosen
from ml_metrics.config.load import load_test
from ml_metrics.errors import ConfigError
from ml_metrics.experiments.request import check_version
from ml_metrics.settings import Settings
from ml_metrics.values import finite

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from ml_metrics.config.definition import TestDefinition

PAST_RUNS = 50
"""The newest runs whose values show the noise."""


def definition_of(test: str) -> TestDefinition | None:
    """Return what the file of a test states; None if it has none here, such as a test that is written in Python."""
    try:
        return load_test(Settings.load().config_root, test)
    except ConfigError:
        return None


def check_trial(test: str, parameter: str, versions: Sequence[str]) -> None:
    """Raise ConfigError if trials of a test may not have these versions: each of them would break."""
    settings, definition = Settings.load(), definition_of(test)
    if definition is None:
        print(f"{test} has no test file here: its trials show what they may run", file=sys.stderr)
        return
    for version in versions:
        check_version(definition, parameter, version, settings)


def past_values(arguments: argparse.Namespace, metrics: Sequence[str] | None) -> dict[str, list[float]]:
    """Return the newest values of metrics of a test, oldest first; of all metrics of its newest run if none is named.

    There are none if nothing was recorded.
    """
    try:
        with open_chosen(arguments) as warehouse:
            newest = warehouse.runs.newest(arguments.test, 1)
            names = metrics or [row.metric for job in newest for row in warehouse.metrics.of_run(job.place)]
            values = {name: warehouse.metrics.values(arguments.test, name, PAST_RUNS) for name in names}
    except NothingRecordedError:
        return {}
    return {
        name: [number for row in reversed(rows) if (number := finite(row.value)) is not None]
        for name, rows in values.items()
    }
