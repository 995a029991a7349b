from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from ml_metrics import ConfigError
from ml_metrics.pipeline import old_rows
from ml_metrics.warehouse import BigQueryOptions, Warehouse


class Billed:
    """BigQuery's horizon."""

    bills_bytes = True

    def __init__(self, history_days: int) -> None:
        self.options = BigQueryOptions(history_days=history_days)

    @property
    def horizon(self) -> datetime:
        return self.options.oldest_read(datetime.now(UTC))


def warehouse(history_days: int = 0) -> Warehouse:
    return Warehouse(SimpleNamespace(store=Billed(history_days), deployment="local"))


def test_without_a_setting_every_row_is_kept() -> None:
    assert old_rows(" ", warehouse()) is None


@pytest.mark.parametrize(("days", "history"), [("90", 0), ("400", 400), ("401", 400), ("36500", 400), ("90", 30)])
def test_the_least_that_reading_needs_is_accepted(days: str, history: int) -> None:
    rows = old_rows(days, warehouse(history))
    assert rows is not None
    assert timedelta(0) <= datetime.now(UTC) - rows.before - timedelta(days=int(days)) < timedelta(minutes=1)
    assert (rows.until.day, rows.until.hour) == (1, 0)


@pytest.mark.parametrize(
    ("days", "history", "words"),
    [
        ("89", 0, "89 is too few: pages and messages read 90 days of rows; set 90 or more"),
        ("399", 400, "399 is too few: with the setting history_days, BigQuery is read for 400 days of rows; set 400"),
        ("0", 0, "should be a whole number of days from 1"),
        ("-1", 0, "should be a whole number of days from 1"),
        ("1e3", 0, "should be a whole number of days from 1"),
        ("36501", 0, "should be a whole number of days from 1 to 36,500"),
    ],
)
def test_too_few_days_are_an_error(days: str, history: int, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        old_rows(days, warehouse(history))
