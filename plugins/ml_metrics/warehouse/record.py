"""The rows of one run: its job, its metrics and its metadata."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ml_metrics.core.model import CURVE_SUFFIX, SWEEP, JobStatus, Outcome, Severity, StoredMetric, Workload
from ml_metrics.core.text import logger_of
from ml_metrics.core.values import (
    MAX_NAME_BYTES,
    MAX_TAG_BYTES,
    as_utc,
    by_storable_name,
    finite,
    storable_name,
    storable_text,
)
from ml_metrics.warehouse.tables import METRIC_HISTORY, RUN_TABLES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ml_metrics.core.model import Metric, Run, Sweep, TagCurve, Verdict


Named = TypeVar("Named")

log = logger_of(__name__)

MAX_ID_BYTES = 600
"""The limit for the names of a test, a DAG and a run, which are together, or with a metric, in an index."""


MAX_POINT_DISTANCE = timedelta(days=10)
"""The maximum difference between the wall time of a point and the end of its run. A point that is farther off, because
of a wrong clock, is stored with the time of the run, so that queries for a time span need not read all partitions."""

MAX_METADATA_BYTES = 1 << 20
"""The limit for one run. A load into BigQuery is one request of at most 10 MB."""
LEFT_OUT = "(left out: the run's metadata is larger than 1 MB; `_ml_metrics/metrics.json` in its folder holds it)"


DAY = timedelta(days=1)
"""How far a query around a run looks, so that times of other programs, in another form, are found in SQLite."""


class Place(NamedTuple):
    """Where the rows of a run are: what BigQuery needs to read few of them."""

    run_key: str
    test: str
    at: datetime

    @property
    def span(self) -> dict[str, Any]:
        """The parameters of a query for the rows of the run alone."""
        around = {"since": self.at - DAY, "until": self.at + DAY}
        points = {"scan_from": self.at - MAX_POINT_DISTANCE - DAY, "scan_to": self.at + MAX_POINT_DISTANCE + DAY}
        return {"run": self.run_key, "test": self.test, **around, **points}


@dataclass(frozen=True, slots=True)
class JobRow:
    """A row of `job_history`. The columns are described in `tables.py`."""

    uuid: str
    test_name: str
    test_type: str
    accelerator: str
    framework_version: str
    job_status: str
    num_failures: int
    job_duration_sec: int
    timestamp: datetime
    stackdriver_logs_link: str = ""
    msg_publish_time: int | str | None = None
    logs_download_command: str | None = None
    kubernetes_workload_link: str | None = None
    dag_id: str | None = None
    run_id: str | None = None
    owner: str | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    queued_seconds: float | None = None
    failure_reason: str | None = None
    image: str | None = None
    goodput: float | None = None
    verdict: str | None = None
    loaded_at: datetime | None = None
    trial: str | None = None
    started_by: str | None = None
    deployment: str | None = None

    @property
    def place(self) -> Place:
        return Place(self.uuid, self.test_name, self.timestamp)

    @property
    def dag(self) -> str:
        """Whose permissions hold for the run. A test's DAG is named like the test."""
        return self.dag_id or self.test_name


@dataclass(frozen=True, slots=True)
class RunRecord:
    """All rows of one run. They are replaced together when the run is loaded again.

    Names are storable, and no two rows of a table have one name: of several, the first row counts.
    """

    job: JobRow
    metrics: tuple[StoredMetric, ...] = ()
    metadata: Mapping[str, str | None] = field(default_factory=dict)
    curves: Mapping[str, tuple[str, str | None]] = field(default_factory=dict)
    """By tag: the curve and the envelope that it was judged by, as JSON."""
    sweeps: tuple[Sweep, ...] = ()

    def __post_init__(self) -> None:
        given = {name: getattr(self.job, name) for name in ("test_name", "dag_id", "run_id")}
        stored: dict[str, Any] = {name: storable_name(text, MAX_ID_BYTES) for name, text in given.items() if text}
        job = replace(self.job, **stored) if stored.items() - given.items() else self.job
        metrics = _by_name(job, ((row.metric, row) for row in self.metrics))
        sweeps = _by_name(job, ((one.name, one) for one in self.sweeps), MAX_TAG_BYTES)
        for name, value in (
            ("job", job),
            (
                "metrics",
                tuple(row if row.metric == name else replace(row, metric=name) for name, row in metrics.items()),
            ),
            ("metadata", _by_name(job, self.metadata.items())),
            ("curves", _by_name(job, self.curves.items(), MAX_TAG_BYTES)),
            ("sweeps", tuple(replace(sweeps[name], name=name) for name in sorted(sweeps))),
        ):
            object.__setattr__(self, name, value)

    @property
    def key(self) -> str:
        return self.job.uuid

    def with_deployment(self, deployment: str) -> RunRecord:
        """The record as one of a deployment, unless it has its own."""
        return self if self.job.deployment else replace(self, job=replace(self.job, deployment=deployment))

    def rows(self) -> dict[str, list[dict[str, Any]]]:
        """The rows of each table by the name of the table, with values that every engine can store."""
        job = asdict(self.job)
        own = {"test_name": self.job.test_name, "deployment": self.job.deployment}
        found: dict[str, Iterable[dict[str, Any]]] = {
            "job_history": [job],
            "metric_history": (metric_columns(metric) | own for metric in self.metrics),
            "metadata_history": ({"metadata_key": key, "metadata_value": text} for key, text in self.metadata.items()),
            "curve_history": ({"tag": tag, "curve": one, "band": band} for tag, (one, band) in self.curves.items()),
            "curve_points": (row for sweep in self.sweeps for row in _points(sweep)),
        }
        return {
            table.name: [
                {name: _storable(row[name] if name in row else job[name]) for name in table.names}
                for row in found[table.name]
            ]
            for table in RUN_TABLES
        }


def _points(sweep: Sweep) -> Iterator[dict[str, Any]]:
    about = {name: getattr(sweep, name) for name in ("x_name", "x_unit", "unit", "better")}
    for place, point in enumerate(sweep.points):
        yield {"curve": sweep.name, "place": place, **about, **point._asdict(), "mark": point.mark or None}


def _by_name(job: JobRow, named: Iterable[tuple[str, Named]], most: int = MAX_NAME_BYTES) -> dict[str, Named]:
    """What belongs to a run by its storable name. Of several with one name the first counts, with a warning."""
    found, merged = by_storable_name(named, most)
    for name in merged:
        log.warning(
            "run %s of %s: %s stands for several names, of which the first counts", job.uuid, job.test_name, name
        )
    return found


METRIC_FIELDS = {
    "uuid": "run_key",
    "test_name": "test",
    "timestamp": "written_at",
    "metric_name": "metric",
    "metric_value": "value",
    "metric_lower_bound": "lower",
    "metric_upper_bound": "upper",
    "verdict": "outcome",
}
"""The columns of `metric_history` that a `StoredMetric` has under another name."""
METRIC_COLUMNS = [(name, METRIC_FIELDS.get(name, name)) for name in METRIC_HISTORY.names if name != "deployment"]


def metric_columns(metric: StoredMetric) -> dict[str, Any]:
    """The columns of `metric_history` but the deployment, which is that of the run."""
    row = {name: getattr(metric, field) for name, field in METRIC_COLUMNS}
    texts = {name: row[name] and str(row[name]) for name in ("verdict", "severity")}  # of enumerations
    return row | texts | {"timestamp": metric.written_at or metric.timestamp}


def run_record(
    run: Run,
    workload: Workload,
    metrics: Sequence[Metric],
    verdicts: Sequence[Verdict],
    metadata: Mapping[str, str],
    *,
    test_type: str | None = None,
    accelerator: str | None = None,
    framework_version: str | None = None,
    owner: str | None = None,
    goodput: float | None = None,
    loaded_at: datetime | None = None,
    verdict: str | None = None,
    curves: Mapping[str, TagCurve] | None = None,
    sweeps: Sequence[Sweep] = (),
    trial: Sequence[str] = (),
    started_by: str | None = None,
) -> RunRecord:
    """Every metric has a row, and every verdict, even on a missing metric.

    Properties that the test file does not set are empty texts, because the older tables require them. `verdict` is that
    of the whole run; by default it is derived from the verdicts on its metrics. `trial` is what was changed in a trial.
    """
    now = loaded_at or datetime.now(UTC)
    stopped = as_utc(workload.ended_at or workload.started_at or workload.queued_at or now)
    job = JobRow(
        uuid=run.key,
        test_name=run.test,
        test_type=test_type or "",
        accelerator=accelerator or "",
        framework_version=framework_version or "",
        job_status=str(workload.status),
        num_failures=max(0, workload.attempts - (workload.status is JobStatus.SUCCESS)),
        job_duration_sec=max(0, round(workload.duration_seconds or 0)),  # the clock may have been set back
        timestamp=stopped,
        stackdriver_logs_link=workload.logs_link or "",
        logs_download_command=workload.logs_command,
        kubernetes_workload_link=workload.workload_link,
        dag_id=run.dag_id,
        run_id=run.run_id,
        owner=owner,
        started_at=workload.started_at,
        ended_at=workload.ended_at,
        queued_seconds=workload.queued_seconds,
        failure_reason=workload.failure_reason,
        image=workload.image,
        goodput=finite(goodput),
        verdict=verdict or _verdict_of_run(workload, verdicts),
        loaded_at=now,
        trial=", ".join(trial) or None,
        started_by=started_by or None,
        deployment=run.deployment,
    )
    return RunRecord(
        job,
        tuple(_stored_metrics(job, workload.status, metrics, verdicts)),
        _short_metadata(_by_name(job, metadata.items())),
        _curves(curves or {}, verdicts),
        tuple(sweeps),
    )


def _verdict_of_run(workload: Workload, verdicts: Sequence[Verdict]) -> str:
    """`pass` only if a metric was checked and none is broken or implausible, and `warn` if only warnings are."""
    broken = {verdict.severity for verdict in verdicts if verdict.broken}
    if workload.status is not JobStatus.SUCCESS or Severity.FAIL in broken:
        return Outcome.FAIL.value
    if broken or any(verdict.implausible for verdict in verdicts):
        return Severity.WARN.value
    found = {verdict.outcome for verdict in verdicts}
    return next((each for each in (Outcome.PASS, Outcome.INSUFFICIENT_DATA) if each in found), Outcome.SKIPPED).value


def _stored_metrics(
    job: JobRow, status: JobStatus, metrics: Sequence[Metric], verdicts: Sequence[Verdict]
) -> Iterator[StoredMetric]:
    measured = _by_name(job, ((metric.name, metric) for metric in metrics))
    judged = _by_name(job, ((verdict.metric, verdict) for verdict in verdicts))
    for name in sorted(measured | judged):
        metric, verdict = measured.get(name), judged.get(name)
        row = StoredMetric(
            run_key=job.uuid,
            timestamp=job.timestamp,
            metric=name,
            value=_value(metric, verdict) if metric else None,
            job_status=status,
            outcome=None,
            test=job.test_name,
            step=metric.step if metric else None,
            written_at=_moment_of_point(metric.wall_time if metric else None, job.timestamp),
            dag_id=job.dag_id or job.test_name,
            unit=metric.unit if metric else "",
            better=metric.better if metric else "",
            non_finite=metric.non_finite / metric.points if metric and metric.points else None,
            trial=job.trial,
        )
        yield _judged(row, verdict) if verdict else row


def with_verdicts(record: RunRecord, verdicts: Sequence[Verdict], verdict: str | None = None) -> RunRecord:
    job, status = record.job, JobStatus(record.job.job_status)
    rows = {row.metric: row for row in record.metrics if row.metric}
    workload = Workload(status)
    for name, one in _by_name(job, ((verdict.metric, verdict) for verdict in verdicts)).items():
        row = rows.get(name)
        if row is None:
            (row,) = _stored_metrics(job, status, (), (one,))
        rows[name] = _judged(row, one)
    decided = replace(job, verdict=verdict or _verdict_of_run(workload, verdicts))
    return replace(record, job=decided, metrics=tuple(rows[name] for name in sorted(rows)))


def _judged(row: StoredMetric, verdict: Verdict) -> StoredMetric:
    bounds = verdict.bounds
    return replace(
        row,
        outcome=verdict.outcome,
        severity=Severity.WARN if verdict.severity is Severity.WARN else None,
        lower=finite(bounds.lower) if bounds else None,
        upper=finite(bounds.upper) if bounds else None,
        rule=verdict.rule,
        baseline_points=verdict.baseline_points,
        reference=verdict.reference,
        spread=verdict.spread,
        condition=verdict.condition,
    )


def _value(metric: Metric, verdict: Verdict | None) -> float | None:
    """The distance of a curve from its envelope is computed by the judge."""
    is_curve = metric.strategy == CURVE_SUFFIX.removeprefix("_") or metric.name.startswith(SWEEP)
    return verdict.value if is_curve and verdict is not None else finite(metric.value)


def _short_metadata(metadata: Mapping[str, str]) -> dict[str, str]:
    """Short texts first. Texts beyond the limit are replaced by a note on where they are."""
    room, found = MAX_METADATA_BYTES, {}
    for name, value in sorted(metadata.items(), key=lambda item: (len(item[1]), item[0])):
        room -= len(name.encode()) + len(value.encode(errors="replace"))
        found[name] = value if room >= 0 else LEFT_OUT
    return found


def _curves(curves: Mapping[str, TagCurve], verdicts: Sequence[Verdict]) -> dict[str, tuple[str, str | None]]:
    bands = {verdict.metric: _compact(verdict.band.document()) for verdict in verdicts if verdict.band is not None}
    return {tag: (_compact(curves[tag].document()), bands.get(f"{tag}{CURVE_SUFFIX}")) for tag in sorted(curves)}


def _compact(document: dict[str, Any]) -> str:
    return json.dumps(document, separators=(",", ":"))


def _moment_of_point(wall_time: float | None, stopped: datetime) -> datetime:
    """The wall time of a point, or the time of the run if it has none or a wrong one."""
    limit = MAX_POINT_DISTANCE.total_seconds()
    if wall_time is None or not abs(wall_time - stopped.timestamp()) <= limit:  # `not`, because the time may be NaN
        return stopped
    return datetime.fromtimestamp(wall_time, UTC)


def _storable(value: Any) -> Any:
    if isinstance(value, float):
        return finite(value)
    if isinstance(value, datetime):
        return as_utc(value)
    return storable_text(value) if isinstance(value, str) else value
