"""Print the recorded runs of a test for other programs, without trials.

  openmetrics  the newest run, for Prometheus
  hud          PyTorch HUD's benchmark records, which `import` reads again
  otava        a table for Apache Otava: a row for each run, oldest first
  junit        the verdicts of the newest run, for a CI system
  mllog        the newest run as MLPerf's MLLOG lines
  csv          a row for each value, oldest first
  parquet      the same with bounds, rules and what the run was

Prometheus can also scrape the dashboard (docs/monitoring.md).

examples:
  ml-metrics export tf-mnist-example-cpu --format csv > history.csv
  ml-metrics export tf-mnist-example-cpu --format junit > verdicts.xml
  ml-metrics export tf-mnist-example-cpu --format hud --limit 50 > hud.json
  ml-metrics export serving-cpu --curves --format parquet > curves.parquet
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from io import BytesIO
from typing import Any, NamedTuple
from xml.etree import ElementTree as ET

from ml_metrics.core.model import JobStatus, Outcome, StoredMetric, Sweep, SweepPoint
from ml_metrics.core.text import printable
from ml_metrics.core.units import quantity
from ml_metrics.judge import in_newest_units
from ml_metrics.ui.cli.arguments import Arguments, Parser, UsageError, add_flag, add_value, whole_number
from ml_metrics.ui.cli.chosen_warehouse import add_warehouse, open_chosen, require_test
from ml_metrics.ui.dashboard.page import Columns
from ml_metrics.ui.dashboard.page import as_csv as safe_csv
from ml_metrics.ui.openmetrics import openmetrics as as_openmetrics
from ml_metrics.warehouse import JobRow, Warehouse

VALUE = Columns("metric value unit better verdict=outcome lower upper job_status")
OPENMETRICS = Columns("metric value outcome unit")
PREFIX = ":::MLLOG "
WRITER = {"file": "ml-metrics", "lineno": 0}
"""Where a program's own line would be. MLPerf's checker requires both."""
POINT, START, END = "POINT_IN_TIME", "INTERVAL_START", "INTERVAL_END"


def mllog(runs: Sequence[ExportedRun]) -> str:
    """A value that is not finite is NaN, as MLPerf's own logger writes it."""
    return "".join(
        f"{PREFIX}{json.dumps({'namespace': '', **event, 'metadata': {**WRITER, **event['metadata']}})}\n"
        for run in runs
        for event in _events(run)
    )


def _events(run: ExportedRun) -> Iterator[dict[str, Any]]:
    def event(at: datetime, kind: str, key: str, value: Any = None, **metadata: Any) -> dict[str, Any]:
        return {
            "time_ms": round(at.timestamp() * 1000),
            "event_type": kind,
            "key": key,
            "value": value,
            "metadata": metadata,
        }

    job = run.job
    begin = job.started_at or job.timestamp - timedelta(seconds=job.job_duration_sec)
    for key, name in (("submission_benchmark", job.test_name), ("submission_platform", job.accelerator)):
        yield event(begin, POINT, key, name)
    yield event(begin, START, "run_start")
    for row in run.values:
        value = math.nan if row.value is None else row.value
        about = {"unit": row.unit, "better": row.better, "verdict": str(row.outcome or "")}
        yield event(job.timestamp, POINT, row.metric, value, step_num=row.step or 0, **about)
    yield event(job.timestamp, END, "run_stop", status="aborted" if run.failed else "success")


OF_RUN = Columns("uuid test=test_name job_status failure_reason owner accelerator image started_at timestamp")
OF_VALUE = Columns("metric unit better verdict=outcome severity rule value lower upper reference spread step")


def parquet(runs: Sequence[ExportedRun]) -> bytes:
    """A run without any value has one row, in which the columns of values are null."""
    return _as_parquet((*OF_RUN.names, *OF_VALUE.names), list(_rows(runs)))


def _as_parquet(names: Sequence[str], rows: Sequence[dict[str, Any]]) -> bytes:
    import pyarrow as pa
    from pyarrow import parquet as pq

    moment, number = pa.timestamp("us", tz="UTC"), pa.float64()
    types = dict.fromkeys(("value", "lower", "upper", "reference", "spread", "x", "y"), number)
    types |= {"started_at": moment, "timestamp": moment, "step": pa.int64(), "samples": pa.int64()}
    file = BytesIO()
    pq.write_table(
        pa.Table.from_pylist(rows, pa.schema([(name, types.get(name, pa.string())) for name in names])), file
    )
    return file.getvalue()


OF_CURVE = ("name", "x_name", "x_unit", "unit", "better")


def curves(runs: Sequence[ExportedRun], form: str) -> str | bytes:
    """A row for each point of each curve, as the table `curve_points` has it."""
    rows = [
        {"uuid": run.job.uuid, "timestamp": run.job.timestamp, "test": run.job.test_name}
        | {name if name != "name" else "curve": getattr(curve, name) for name in OF_CURVE}
        | point._asdict()
        for run in runs
        for curve in run.curves
        for point in curve.points
    ]
    names = ("uuid", "timestamp", "test", "curve", *OF_CURVE[1:], *SweepPoint._fields)
    return _as_parquet(names, rows) if form == "parquet" else _table([names, *(list(row.values()) for row in rows)])


def _rows(runs: Sequence[ExportedRun]) -> Iterator[dict[str, Any]]:
    for of_run, run in zip(OF_RUN.documents(run.job for run in runs), runs, strict=True):
        yield from (of_run | value for value in OF_VALUE.documents(run.values) or [{}])


class ExportedRun(NamedTuple):
    """One run with all of its values. One that failed may have none."""

    job: JobRow
    values: tuple[StoredMetric, ...]
    curves: Sequence[Sweep] = ()

    @property
    def failed(self) -> bool:
        return self.job.job_status != JobStatus.SUCCESS


def openmetrics(runs: Sequence[ExportedRun]) -> str:
    return as_openmetrics(
        (run.job.test_name, run.job.timestamp, not run.failed, map(OPENMETRICS.values, run.values)) for run in runs
    )


HUD_RUN = Columns("stopped=timestamp started=started_at job_status failure_reason owner image")


def hud(runs: Sequence[ExportedRun]) -> str:
    """Benchmark records of PyTorch HUD, first one about the job, as a run may have no value at all.

    A value that is not finite is a text, as HUD's writers do it. What HUD has no field for is in `extra_info`.
    """
    records = [record for run in runs for record in _records(run)]
    return json.dumps(records, indent=1, allow_nan=False, default=datetime.isoformat) + "\n"


def _records(run: ExportedRun) -> Iterator[dict[str, Any]]:
    job = run.job
    about = {"args": {"run": job.uuid}, **HUD_RUN.document(job)}
    shared = {
        "timestamp": int(run.job.timestamp.timestamp()),
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
        extra: dict[str, Any] = {"unit": row.unit, "better": row.better, "verdict": row.outcome}
        extra |= {name: getattr(row, name) for name in ("severity", "lower", "upper", "rule", "step")}
        yield {**shared, "metric": {"name": row.metric, "benchmark_values": values, "extra_info": extra}}


def otava(runs: Sequence[ExportedRun]) -> str:
    """A row for each run and a column for each metric, in its newest unit. Of runs that failed, the cells are empty."""
    rows = in_newest_units(row for run in runs if not run.failed for row in run.values)
    values = {(row.run_key, row.metric): row.value for row in rows}
    metrics = sorted({row.metric for row in rows})
    table = [[run.job.timestamp, run.job.uuid, *(values.get((run.job.uuid, one)) for one in metrics)] for run in runs]
    return _table([("time", "run", *metrics), *table])


def as_csv(runs: Sequence[ExportedRun]) -> str:
    rows = [
        (run.job.uuid, run.job.timestamp, run.job.test_name, *VALUE.values(row)) for run in runs for row in run.values
    ]
    return _table([("uuid", "timestamp", "test", *VALUE.names), *rows])


def junit(runs: Sequence[ExportedRun]) -> str:
    """A suite for each run: a job that failed is an error, a broken condition a failure."""
    root = ET.Element("testsuites")
    for run in runs:
        test, failures, skipped = printable(run.job.test_name), 0, 0
        suite = ET.SubElement(root, "testsuite", name=test, timestamp=run.job.timestamp.isoformat())
        job = ET.SubElement(suite, "testcase", classname=test, name="job")
        if run.failed:
            ET.SubElement(job, "error", message=printable(run.job.failure_reason or run.job.job_status))
        for row in run.values:
            case = ET.SubElement(suite, "testcase", classname=test, name=printable(row.metric))
            text = f"value {quantity(row.value, row.unit) if row.value is not None else '-'}; {row.rule or ''}"
            if row.outcome is not None and row.outcome.broken:
                failures += 1
                failure = ET.SubElement(case, "failure", message=printable(f"{row.verdict_text}: {text}"))
                failure.text = printable(f"bounds {row.lower} to {row.upper}")
            elif row.outcome is not Outcome.PASS:
                skipped += 1
                ET.SubElement(case, "skipped", message=printable(str(row.outcome or "no condition")))
        counts = {"tests": len(run.values) + 1, "failures": failures, "skipped": skipped, "errors": int(run.failed)}
        suite.attrib |= {name: str(count) for name, count in counts.items()}
        suite.set("time", f"{run.job.job_duration_sec:.3f}")
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _table(rows: Sequence[Sequence[Any]]) -> str:
    shown = ([printable(cell) if isinstance(cell, str) else cell for cell in row] for row in rows)
    return safe_csv(shown).replace("\r\n", "\n")


TEXTS = {"openmetrics": openmetrics, "hud": hud, "otava": otava, "junit": junit, "mllog": mllog, "csv": as_csv}
BINARY = {"parquet": parquet}
DEFAULT_LIMIT = 100
OF_NEWEST = ("openmetrics", "junit", "mllog")
"""The formats that hold one run."""


def add_arguments(parser: Parser) -> None:
    add_value(parser, "test", "TEST", "the name of the test")
    parser.add_argument("--format", choices=(*TEXTS, *BINARY), required=True, help="see above")
    add_flag(parser, "--curves", "the points of curves instead of values: csv or parquet")
    about = f"the newest runs; default: {DEFAULT_LIMIT}, with {', '.join(OF_NEWEST)} always 1"
    add_value(parser, "--limit", "N", about, whole_number(1, 10_000))
    add_warehouse(parser, json=False)
    add_flag(parser, "--json", "print the text within one JSON document")


def run(arguments: Arguments) -> int:
    binary = BINARY.get(arguments.format)
    if arguments.curves and arguments.format not in {"csv", "parquet"}:
        raise UsageError(f"--curves: curves are written as csv or parquet, not as {arguments.format}")
    if binary is not None and (arguments.json or sys.stdout.isatty()):
        raise UsageError(f"{arguments.format} is no text: without --json, write it to a file: `> FILE`")
    limit = 1 if arguments.format in OF_NEWEST else arguments.limit or DEFAULT_LIMIT
    with open_chosen(arguments) as warehouse:
        runs = _runs(warehouse, arguments.test, limit)
        if arguments.curves:
            runs = [run._replace(curves=warehouse.curves.sweeps_of(run.job.place)) for run in runs]
    write = partial(curves, form=arguments.format) if arguments.curves else binary or TEXTS[arguments.format]
    content = write(runs)
    if isinstance(content, bytes):
        sys.stdout.buffer.write(content)
        return 0
    if arguments.json:
        content = json.dumps({"test": arguments.test, "format": arguments.format, "content": content}, indent=2) + "\n"
    sys.stdout.write(content)
    return 0


def _runs(warehouse: Warehouse, test: str, limit: int) -> list[ExportedRun]:
    """The newest ones with their whole rows, oldest first."""
    newest = warehouse.runs.newest(test, limit)
    if not newest:
        require_test(warehouse, test)
    return [
        ExportedRun(one, tuple(row for row in warehouse.metrics.of_run(one.place) if row.metric))
        for one in reversed(newest)
    ]
