"""A run as MLLOG lines: its start and end, and each metric as a point."""

from __future__ import annotations

import json
import math
from datetime import timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from ml_metrics.cli.export_formats import ExportedRun

PREFIX = ":::MLLOG "
WRITER = {"file": "ml-metrics", "lineno": 0}
"""Where a program's own line would be. MLPerf's checker requires both."""
POINT, START, END = "POINT_IN_TIME", "INTERVAL_START", "INTERVAL_END"


def mllog(runs: Sequence[ExportedRun]) -> str:
    """Return the lines of each run. A value that is not finite is NaN, as MLPerf's own logger writes it."""
    return "".join(
        f"{PREFIX}{json.dumps({'namespace': '', **event, 'metadata': {**WRITER, **event['metadata']}})}\n"
        for run in runs
        for event in _events(run)
    )


def _events(run: ExportedRun) -> Iterator[dict[str, Any]]:
    job = run.job
    begin = job.started_at or run.at - timedelta(seconds=job.job_duration_sec)
    for key, name in (("submission_benchmark", job.test_name), ("submission_platform", job.accelerator)):
        yield _event(begin, POINT, key, name)
    yield _event(begin, START, "run_start")
    for row in run.values:
        value = math.nan if row.value is None else row.value
        about = {"unit": row.unit, "better": row.better, "verdict": str(row.outcome or "")}
        yield _event(run.at, POINT, row.metric, value, step_num=row.step or 0, **about)
    yield _event(run.at, END, "run_stop", status="aborted" if run.failed else "success")


def _event(at: datetime, kind: str, key: str, value: Any = None, **metadata: Any) -> dict[str, Any]:
    time = round(at.timestamp() * 1000)
    return {"time_ms": time, "event_type": kind, "key": key, "value": value, "metadata": metadata}
