"""How BigQuery is used: where a dataset is created, what a job may cost, and the labels that its cost is found by."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from ml_metrics.core.errors import ConfigError
from ml_metrics.core.settings import SECTION, Settings
from ml_metrics.core.values import BEGINNING_OF_TIME, short_hash

if TYPE_CHECKING:
    from datetime import datetime
    from typing import Self


LEAST_BYTES_BILLED = 10 << 20
"""BigQuery bills at least this for a query, so it runs no query with a lower limit."""
MAX_LABEL_LENGTH = 63
OVER_LIMIT = re.compile(r"exceeded limit for bytes billed: \d+\. (?P<needed>\d+) or higher")


@dataclass(frozen=True, slots=True)
class BigQueryOptions:
    """The settings for BigQuery."""

    location: str = ""
    """Where a missing dataset is created; without it, none is created."""
    maximum_bytes_billed: int = 0
    """The limit of each job; 0 for none."""
    history_days: int = 0
    """How many days of history are read; 0 for all."""

    @classmethod
    def of(cls, settings: Settings, location: str = "") -> Self:
        """Another `location`, as of a connection, takes precedence."""
        return cls(
            location or settings.bigquery_location,
            _bytes(settings.maximum_bytes_billed),
            _whole_number("history_days", settings.history_days, "days"),
        )

    def oldest_read(self, now: datetime) -> datetime:
        days = timedelta(days=self.history_days)
        return now - days if self.history_days and days < now - BEGINNING_OF_TIME else BEGINNING_OF_TIME

    @property
    def limits(self) -> dict[str, int]:
        """The limit of a job, as the client takes it. It would send None as a text, which BigQuery refuses."""
        return {"maximum_bytes_billed": self.maximum_bytes_billed} if self.maximum_bytes_billed else {}

    def explained(self, message: str) -> str:
        """The message of an error, with what to do if a job reached the limit."""
        found = OVER_LIMIT.search(message)
        if found is None:
            return message
        return (
            f"{message.rstrip('.')}. Nothing was read or billed. The limit is the setting `maximum_bytes_billed` in "
            f"section [{SECTION}]: to allow this query, set it to {found['needed']} or more, for example "
            f"with AIRFLOW__{SECTION.upper()}__MAXIMUM_BYTES_BILLED={found['needed']}"
        )


def job_labels(kind: str, deployment: str = "", test: str = "") -> dict[str, str]:
    named = {
        "ml_metrics": kind,
        "deployment": deployment,
        "test": test,
        "dag": os.environ.get("AIRFLOW_CTX_DAG_ID", ""),
    }
    return {name: label_value(value) for name, value in named.items() if value}


def label_value(text: str) -> str:
    """At most 63 characters. A longer text ends with a hash of the whole, so that two long names do not become one."""
    value, ending = re.sub(r"[^a-z0-9_-]", "-", text.lower()), f"-{short_hash(text)}"
    return value if len(value) <= MAX_LABEL_LENGTH else value[: MAX_LABEL_LENGTH - len(ending)] + ending


def _bytes(setting: str) -> int:
    value = _whole_number("maximum_bytes_billed", setting, "bytes")
    if value and value < LEAST_BYTES_BILLED:
        raise ConfigError(
            f"[{SECTION}] maximum_bytes_billed: {value} is too low: BigQuery bills at least {LEAST_BYTES_BILLED} bytes "
            "(10 MiB) for a query. Set a higher number, or 0 for no limit"
        )
    return value


def _whole_number(name: str, setting: str, unit: str) -> int:
    if not setting.strip().isdecimal():
        raise ConfigError(f"[{SECTION}] {name}: {setting!r} is not a whole number of {unit}")
    return int(setting)
