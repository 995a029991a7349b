"""How long the rows of the warehouse are kept."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from ml_metrics.errors import ConfigError
from ml_metrics.retention.ages import days
from ml_metrics.values import BEGINNING_OF_TIME
from ml_metrics.warehouse.old_rows import OldRows

if TYPE_CHECKING:
    from ml_metrics.warehouse import Warehouse

SETTING = "keep_rows_days"
MIN_DAYS = 90
"""Pages show a month or a quarter, and messages are decided by the rows of 60 days."""


def old_rows(setting: str, warehouse: Warehouse) -> OldRows | None:
    """Return the expired rows; None if the setting keeps every row."""
    now, store = datetime.now(UTC), warehouse.database.store
    age = days(SETTING, setting)
    if age is None:
        return None
    if age < timedelta(days=MIN_DAYS):
        raise ConfigError(_too_few(age, MIN_DAYS, "pages and messages read"))
    horizon = store.horizon
    if horizon > BEGINNING_OF_TIME and now - age > horizon:
        raise ConfigError(
            _too_few(age, (now - horizon).days + 1, "with the setting history_days, BigQuery is read for")
        )
    return OldRows(warehouse.database, now - age)


def _too_few(age: timedelta, least: int, why: str) -> str:
    return (
        f"[ml_metrics] {SETTING}: {age.days} is too few: {why} {least} days of rows; set {least} or more, or leave "
        "the setting empty to keep every row"
    )
