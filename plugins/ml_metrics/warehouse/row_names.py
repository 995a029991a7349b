"""The names of a run's rows: storable before anything is compared with them, and each once in its table."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from ml_metrics.log_lines import logger_of
from ml_metrics.values import MAX_NAME_BYTES, by_storable_name, storable_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ml_metrics.warehouse.record import JobRow

Named = TypeVar("Named")
Row = TypeVar("Row", bound=Any)

log = logger_of(__name__)

MAX_ID_BYTES = 600
"""The limit for the names of a test, a DAG and a run, which are together, or with a metric, in an index."""


def job_with_names(job: JobRow) -> JobRow:
    """Return the row of a run under storable names."""
    names = {name: getattr(job, name) for name in ("test_name", "dag_id", "run_id")}
    stored: dict[str, Any] = {name: storable_name(text, MAX_ID_BYTES) for name, text in names.items() if text}
    return replace(job, **stored) if stored.items() - names.items() else job


def by_name(job: JobRow, named: Iterable[tuple[str, Named]], most: int = MAX_NAME_BYTES) -> dict[str, Named]:
    """Return what belongs to a run by its storable name. Of several with one name the first counts, with a warning."""
    found, merged = by_storable_name(named, most)
    for name in merged:
        log.warning(
            "run %s of %s: %s stands for several names, of which the first counts", job.uuid, job.test_name, name
        )
    return found


def rows_with_names(job: JobRow, rows: Iterable[Row], field: str, most: int) -> tuple[Row, ...]:
    """Return rows of a run, each under the name that it is stored with."""
    named = by_name(job, ((getattr(row, field), row) for row in rows), most)
    return tuple(row if getattr(row, field) == name else replace(row, **{field: name}) for name, row in named.items())
