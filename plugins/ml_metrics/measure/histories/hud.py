"""Records of PyTorch HUD over many runs: those of one job at one commit are a run."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ml_metrics.core.errors import UnreadableInputError
from ml_metrics.core.limits import Allowance
from ml_metrics.core.model import JobStatus, Metric
from ml_metrics.measure.histories.history import (
    History,
    PastRun,
    Reading,
    metrics_of,
    moment_of,
    require_no_warnings,
)
from ml_metrics.measure.readers import hud
from ml_metrics.measure.readers.format import each_object, keys_of, numbers_in
from ml_metrics.measure.readings import Readings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ml_metrics.core.limits import Limits
    from ml_metrics.measure.readers.format import Beginning
    from ml_metrics.store import storage


IDENTITY = ("head_sha", "workflow_id", "run_attempt", "job_id")
"""What the uploader of HUD adds to the records of a job."""
FACTS = ("repo", "head_branch", *IDENTITY)
BETTER = ("higher", "lower", "neither")
EXPORTED = ("stopped", "started", "job_status", "failure_reason", "owner", "image")
"""What `ml-metrics export` states about a run, beside its key."""


def claims(file: Beginning) -> bool:
    """Whether the records have the time that HUD's uploader adds."""
    return hud.FORMAT.claims(file) and all("timestamp" in one for one in hud.records_of(file))


def read(files: Sequence[storage.File], reading: Reading) -> Iterator[PastRun]:
    """Yield a run for each job. What differs among all records of a series names the metrics in each of its runs."""
    by_series: dict[str, dict[str, _Job]] = {}
    for file in files:
        for record in _records(file, reading.limits):
            jobs = by_series.setdefault(_series_of(record), {})
            jobs.setdefault(_key_of(record), _Job(file)).records.append(record)
    for series, jobs in by_series.items():
        named_by = _differing([record for job in jobs.values() for record in job.records])
        for key, job in jobs.items():
            first = job.records[0]
            if all(map(_exported_run, job.records)):
                yield _exported(key, series, job)
                continue
            yield PastRun(
                key,
                series,
                max(moment_of(one["timestamp"], job.file.path) for one in job.records),
                _metrics(job, named_by, reading.limits),
                job.file.path,
                metadata={f"hud/{name}": str(first[name]) for name in FACTS if first.get(name)},
            )


@dataclass(frozen=True, slots=True)
class _Job:
    """What one job measured."""

    file: storage.File
    """The file that has its first record."""
    records: list[dict[str, Any]] = field(default_factory=list)


def _records(file: storage.File, limits: Limits) -> Iterator[dict[str, Any]]:
    readings = Readings(Allowance(limits))
    readings.begin(file)
    for number, record in enumerate(each_object(readings), 1):
        if "timestamp" not in record:
            raise UnreadableInputError(f"{file.path}: record {number} has no timestamp; remove it, or add its time")
        yield record
    require_no_warnings(readings)


def _series_of(record: dict[str, Any]) -> str:
    benchmark = record.get("benchmark")
    name = benchmark.get("name") if isinstance(benchmark, dict) else benchmark
    return str(name or record.get("name") or "")


def _key_of(record: dict[str, Any]) -> str:
    """What identifies a run: its job in CI, the run of `ml-metrics export`, or its time."""
    stated = [str(record[name]) for name in IDENTITY if record.get(name)]
    return " ".join(stated) or _exported_run(record) or str(record["timestamp"])


def _exported_run(record: dict[str, Any]) -> str:
    """The key of the run if `ml-metrics export` wrote the record; empty for any other."""
    if not {"unit", "better", "verdict"} <= keys_of(record.get("metric"), "extra_info").keys():
        return ""
    return str(dict(hud.dimensions(record)).get("run", ""))


def _differing(records: list[dict[str, Any]]) -> tuple[str, ...]:
    """The dimensions that have several values, or that some records lack."""
    found = [dict(hud.dimensions(record)) for record in records]
    names = {name for one in found for name in one}
    return tuple(sorted(name for name in names if len({str(one.get(name)) for one in found}) > 1))


def _metrics(job: _Job, named_by: tuple[str, ...], limits: Limits) -> tuple[Metric, ...]:
    readings = Readings(Allowance(limits), named_by=named_by)
    readings.begin(job.file)
    for record in job.records:
        hud.add(readings, record)
    require_no_warnings(readings)
    return metrics_of("hud", readings.found(), limits, job.file.path)


def _exported(key: str, series: str, job: _Job) -> PastRun:
    """A run of `ml-metrics export`, with all that an unjudged run can hold."""
    record, where = job.records[0], job.file.path
    extra = record["benchmark"]["extra_info"]
    stated = {name: text for name in EXPORTED if isinstance(text := extra.get(name), str)}
    started = stated.get("started")
    return PastRun(
        key,
        series,
        moment_of(stated.get("stopped", record["timestamp"]), where),
        tuple(_exported_metric(one) for one in job.records if not one["metric"]["extra_info"].get("of_job")),
        where,
        _status_of(stated.get("job_status", JobStatus.SUCCESS), where),
        moment_of(started, where) if started else None,
        stated.get("owner", ""),
        {f"hud/{name}": stated[name] for name in ("image", "failure_reason") if stated.get(name)},
    )


def _status_of(text: str, where: str) -> JobStatus:
    try:
        return JobStatus(text)
    except ValueError:
        raise UnreadableInputError(f"{where}: job_status: {text[:40]!r} is not one of {', '.join(JobStatus)}") from None


def _exported_metric(record: dict[str, Any]) -> Metric:
    metric, (value, *_) = record["metric"], numbers_in(record["metric"]["benchmark_values"]) or [math.nan]
    extra, name = metric["extra_info"], str(metric["name"])
    better = extra["better"] if extra["better"] in BETTER else ""
    unit = extra["unit"] if isinstance(extra["unit"], str) else ""
    step = extra.get("step")
    step = step if type(step) is int else None
    return Metric(name, value, name, "", step=step, unit=unit, better=better, non_finite=int(not math.isfinite(value)))


HISTORY = History("hud", claims, read)
