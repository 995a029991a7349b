"""Runs as a Parquet file: a row for each value, with what is known about its run."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ml_metrics.cli.export_formats import ExportedRun
    from ml_metrics.model import StoredMetric

TEXTS = ("metric", "unit", "better", "verdict", "severity", "rule")
NUMBERS = ("value", "lower", "upper", "reference", "spread")
OF_RUN = ("uuid", "test", "job_status", "failure_reason", "owner", "accelerator", "image")


def parquet(runs: Sequence[ExportedRun]) -> bytes:
    """Return the file. A run without any value has one row, in which the columns of values are null."""
    import pyarrow as pa
    from pyarrow import parquet as pq

    text, number, moment = pa.string(), pa.float64(), pa.timestamp("us", tz="UTC")
    schema = pa.schema([
        *((name, text) for name in OF_RUN),
        ("started_at", moment),
        ("timestamp", moment),
        *((name, text) for name in TEXTS),
        *((name, number) for name in NUMBERS),
        ("step", pa.int64()),
    ])  # fmt: skip
    file = BytesIO()
    pq.write_table(pa.Table.from_pylist(list(_rows(runs)), schema), file)
    return file.getvalue()


def _rows(runs: Sequence[ExportedRun]) -> Iterator[dict[str, Any]]:
    for run in runs:
        job = run.job
        of_run = {
            **{name: getattr(job, name) for name in OF_RUN if name != "test"},
            "test": job.test_name,
            "started_at": job.started_at,
            "timestamp": job.timestamp,
        }
        yield from ({**of_run, **_value(row)} for row in run.values)
        if not run.values:
            yield of_run


def _value(row: StoredMetric) -> dict[str, Any]:
    texts = {"metric": row.metric, "unit": row.unit, "better": row.better, "rule": row.rule}
    verdict = {"verdict": _text(row.outcome), "severity": _text(row.severity)}
    return {**texts, **verdict, **{name: getattr(row, name) for name in NUMBERS}, "step": row.step}


def _text(value: object) -> str | None:
    return None if value is None else str(value)
