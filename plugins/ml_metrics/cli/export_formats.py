"""The formats of `ml-metrics export`. Each writer returns the text or the bytes for runs, oldest first."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

from ml_metrics.cli.export_mllog import mllog
from ml_metrics.cli.export_parquet import parquet
from ml_metrics.dashboard.export import as_csv as safe_csv
from ml_metrics.model import JobStatus, Outcome
from ml_metrics.reports.openmetrics import NewestRun, Sample
from ml_metrics.reports.openmetrics import openmetrics as as_openmetrics
from ml_metrics.units import quantity
from ml_metrics.values import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from ml_metrics.model import StoredMetric
    from ml_metrics.warehouse import JobRow

CSV_HEAD = ("uuid", "timestamp", "test", "metric", "value", "unit", "better", "verdict", "lower", "upper")


@dataclass(frozen=True, slots=True)
class ExportedRun:
    """One run with all of its values."""

    job: JobRow
    values: tuple[StoredMetric, ...]

    @property
    def at(self) -> datetime:
        """When it stopped."""
        return self.job.timestamp

    @property
    def failed(self) -> bool:
        """Whether its workload failed, so that it may have no value at all."""
        return self.job.job_status != JobStatus.SUCCESS


def openmetrics(runs: Sequence[ExportedRun]) -> str:
    """Return OpenMetrics text, as the exporter of the dashboard writes it."""
    return as_openmetrics([
        NewestRun(
            run.job.test_name,
            run.at,
            not run.failed,
            [Sample(row.metric, row.value, str(row.outcome or ""), row.unit) for row in run.values],
        )
        for run in runs
    ])  # fmt: skip


def hud(runs: Sequence[ExportedRun]) -> str:
    """Return benchmark records of PyTorch HUD, first one about the job, as a run may have no value at all.

    A value that is not finite is a text, as HUD's writers do it. What HUD has no field for is in `extra_info`.
    """
    records = [record for run in runs for record in _records(run)]
    return json.dumps(records, indent=1, allow_nan=False) + "\n"


def _records(run: ExportedRun) -> Iterator[dict[str, Any]]:
    job = run.job
    about = {
        "args": {"run": job.uuid},
        "stopped": run.at.isoformat(),
        "started": job.started_at.isoformat() if job.started_at else None,
        "job_status": job.job_status,
        "failure_reason": job.failure_reason,
        "owner": job.owner,
        "image": job.image,
    }
    shared = {
        "timestamp": int(run.at.timestamp()),
        "schema_version": "v3",
        "name": job.test_name,
        "benchmark": {"name": job.test_name, "mode": "test", "extra_info": about},
    }
    unjudged = {"unit": "", "better": "higher", "verdict": None, "of_job": True}
    yield {
        **shared,
        "metric": {"name": "job_succeeded", "benchmark_values": [int(not run.failed)], "extra_info": unjudged},
    }
    for row in run.values:
        values = ["nan" if row.value is None else row.value]
        extra = {
            "unit": row.unit,
            "better": row.better,
            "verdict": row.outcome,
            "severity": row.severity,
            "lower": row.lower,
            "upper": row.upper,
            "rule": row.rule,
            "step": row.step,
        }
        yield {**shared, "metric": {"name": row.metric, "benchmark_values": values, "extra_info": extra}}


def otava(runs: Sequence[ExportedRun]) -> str:
    """Return a table with a row for each run and a column for each metric; an empty cell is no value."""
    metrics = sorted({row.metric for run in runs for row in run.values})
    rows = []
    for run in runs:
        values = {row.metric: row.value for row in run.values}
        rows.append([run.at.isoformat(), run.job.uuid, *(_cell(values.get(metric)) for metric in metrics)])
    return _table([["time", "run", *map(printable, metrics)], *rows])


def as_csv(runs: Sequence[ExportedRun]) -> str:
    """Return a table with a row for each value."""
    rows = [
        [run.job.uuid, run.at.isoformat(), printable(run.job.test_name), *_cells(row)]
        for run in runs
        for row in run.values
    ]
    return _table([CSV_HEAD, *rows])


def _cells(row: StoredMetric) -> list[str]:
    what = (printable(row.metric), _cell(row.value), printable(row.unit), row.better)
    return [*what, str(row.outcome or ""), _cell(row.lower), _cell(row.upper)]


def junit(runs: Sequence[ExportedRun]) -> str:
    """Return a suite for each run: a job that failed is an error, a broken condition a failure."""
    root = ET.Element("testsuites")
    for run in runs:
        suite = ET.SubElement(root, "testsuite", name=printable(run.job.test_name), timestamp=run.at.isoformat())
        failures = skipped = 0
        job = ET.SubElement(suite, "testcase", classname=printable(run.job.test_name), name="job")
        if run.failed:
            ET.SubElement(job, "error", message=printable(run.job.failure_reason or run.job.job_status))
        for row in run.values:
            case = ET.SubElement(suite, "testcase", classname=printable(run.job.test_name), name=printable(row.metric))
            text = f"value {quantity(row.value, row.unit) if row.value is not None else '-'}; {row.rule or ''}"
            if row.outcome is not None and row.outcome.broken:
                failures += 1
                failure = ET.SubElement(case, "failure", message=printable(f"{row.verdict_text}: {text}"))
                failure.text = printable(f"bounds {row.lower} to {row.upper}")
            elif row.outcome is not Outcome.PASS:
                skipped += 1
                ET.SubElement(case, "skipped", message=printable(str(row.outcome or "no condition")))
        counts: dict[str, Any] = {
            "tests": len(run.values) + 1,
            "failures": failures,
            "skipped": skipped,
            "errors": int(run.failed),
        }
        suite.attrib.update(
            {name: str(count) for name, count in counts.items()}, time=f"{run.job.job_duration_sec:.3f}"
        )
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _table(rows: Sequence[Sequence[str]]) -> str:
    return safe_csv(rows).replace("\r\n", "\n")


def _cell(value: float | None) -> str:
    return "" if value is None else repr(float(value))


TEXTS: dict[str, Callable[[Sequence[ExportedRun]], str]] = {
    "openmetrics": openmetrics,
    "hud": hud,
    "otava": otava,
    "junit": junit,
    "mllog": mllog,
    "csv": as_csv,
}
BINARY: dict[str, Callable[[Sequence[ExportedRun]], bytes]] = {"parquet": parquet}
