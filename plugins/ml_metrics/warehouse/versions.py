"""The versions of the tables: what each added, and which one a database has.

A version only adds tables, and columns that can be null. So any version of this package can load into the tables of any
other: an older one leaves the newer columns empty, and a newer one adds what is missing before its first query.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ml_metrics.log_lines import logger_of
from ml_metrics.warehouse.tables import TABLES

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ml_metrics.warehouse.tables import Column


@dataclass(frozen=True, slots=True)
class Version:
    """One version of the tables."""

    about: str
    tables: tuple[str, ...] = ()
    """New tables, each with all columns that no later version added."""
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """New columns of tables that were there."""


log = logger_of(__name__)

_OF_DEPLOYMENTS = ("job_history", "metric_history", "curve_history", "acceptances", "alerts", "quarantines")
_OF_JOBS = ("dag_id", "run_id", "owner", "started_at", "ended_at", "queued_seconds", "failure_reason", "image")

VERSIONS = (
    Version("the older system", ("job_history", "metric_history")),
    Version(
        "verdicts, metadata, acceptances and alerts",
        ("metadata_history", "acceptances", "alerts"),
        {
            "job_history": (*_OF_JOBS, "goodput", "verdict", "loaded_at"),
            "metric_history": ("verdict", "rule", "baseline_points", "step"),
        },
    ),
    Version("acknowledged incidents", columns={"alerts": ("said_by", "note")}),
    Version("quarantines", ("quarantines",)),
    Version("the level and the noise of a baseline", columns={"metric_history": ("reference", "spread")}),
    Version("units and directions", columns={"metric_history": ("unit", "better", "non_finite")}),
    Version("the condition of a verdict", columns={"metric_history": ("condition",)}),
    Version("curves", ("curve_history",)),
    Version("warnings", columns={"metric_history": ("severity",)}),
    Version("the envelopes of curves", columns={"curve_history": ("band",)}),
    Version("messages and their senders", ("messages", "senders")),
    Version("trials", columns={"job_history": ("trial", "started_by"), "metric_history": ("trial",)}),
    Version("known tests", ("known_tests",)),
    Version("deployments that share a warehouse", columns=dict.fromkeys(_OF_DEPLOYMENTS, ("deployment",))),
    Version("the causes of incidents", columns={"alerts": ("cause",)}),
    Version("the time of metadata, so that little of it is read", columns={"metadata_history": ("timestamp",)}),
    Version("what incidents cost", columns={"alerts": ("cost",)}),
)
"""All versions, from 1. A column that is added needs a new one at the end."""

SCHEMA_VERSION = len(VERSIONS)


@dataclass(frozen=True, slots=True)
class Plan:
    """What bringing a database to this version changes."""

    version: int
    """The version of its tables; 0 if there are none."""
    changes: tuple[str, ...]
    """The changes, in words."""

    @property
    def is_newer(self) -> bool:
        """Whether a newer version of this package has changed the tables."""
        return self.version > SCHEMA_VERSION


def warn_if_newer(address: str, marked: int) -> None:
    """Log that a newer version of this package has changed the tables."""
    if marked > SCHEMA_VERSION:
        log.warning(
            "%s: the tables are of schema %d, and this version of ML Metrics knows %d: newer columns are left empty",
            address,
            marked,
            SCHEMA_VERSION,
        )


def columns_of(number: int) -> dict[str, tuple[Column, ...]]:
    """Return the columns of each table in a version."""
    tables = {name for version in VERSIONS[:number] for name in version.tables}
    later = {(name, each) for version in VERSIONS[number:] for name, added in version.columns.items() for each in added}
    return {
        table.name: tuple(column for column in table.columns if (table.name, column.name) not in later)
        for table in TABLES
        if table.name in tables
    }


def version_of(present: Mapping[str, Collection[str]], marked: int = 0) -> int:
    """Return the version of tables: the newest whose columns are all there, or the newer one that is marked."""
    found = 0
    for number in range(1, SCHEMA_VERSION + 1):
        wanted = columns_of(number)
        if all({column.name for column in columns} <= set(present.get(name, ())) for name, columns in wanted.items()):
            found = number
    return max(found, marked) if marked > SCHEMA_VERSION else found
