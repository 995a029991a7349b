"""A test whose trials answer a question: what is wrong with it before any is made, and its past values."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ml_metrics.cli.chosen_warehouse import NothingRecordedError, open_chosen
from ml_metrics.config.load import load_test
from ml_metrics.errors import ConfigError
from ml_metrics.experiments.past_versions import values_of
from ml_metrics.experiments.request import check_version
from ml_metrics.settings import Settings

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from ml_metrics.config.definition import TestDefinition


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
            return values_of(warehouse, arguments.test, metrics or ())
    except NothingRecordedError:
        return {}
