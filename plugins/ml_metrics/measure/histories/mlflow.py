"""MLflow's runs: a file store (`mlruns`), or the SQLite file of a tracking server."""

from __future__ import annotations

import math
import sqlite3
from collections import defaultdict
from contextlib import closing
from typing import TYPE_CHECKING, Any

import yaml

from ml_metrics.core.errors import StorageError, UnreadableInputError
from ml_metrics.core.limits import Allowance
from ml_metrics.core.model import JobStatus, Metric
from ml_metrics.measure.histories.history import History, PastRun, Reading, metrics_of, moment_of
from ml_metrics.measure.readers import mlflow
from ml_metrics.measure.readers.registry import read_files
from ml_metrics.store import storage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ml_metrics.measure.readers.format import Beginning


META = "meta.yaml"
SQLITE = b"SQLite format 3\0"
ENDED = {
    "3": JobStatus.SUCCESS, "FINISHED": JobStatus.SUCCESS, "4": JobStatus.FAILURE, "FAILED": JobStatus.FAILURE,
    "5": JobStatus.FAILURE, "KILLED": JobStatus.FAILURE,
}  # fmt: skip
"""The states of runs that have ended, as a file store numbers them and as a database names them."""
RUNS = """
SELECT runs.run_uuid, runs.name AS run_name, runs.status, runs.start_time, runs.end_time, runs.lifecycle_stage,
  runs.user_id, experiments.name AS experiment
FROM runs JOIN experiments ON experiments.experiment_id = runs.experiment_id
ORDER BY runs.run_uuid
"""
METRICS = "SELECT key, value, is_nan, step, timestamp FROM latest_metrics WHERE run_uuid = ? ORDER BY key"
PARAMS = "SELECT key, value FROM params WHERE run_uuid = ? ORDER BY key"
MOST_META = 1 << 20


def claims(file: Beginning) -> bool:
    if file.head.startswith(SQLITE):
        return b"latest_metrics" in file.head and b"experiments" in file.head
    return (file.name.endswith(META) and b"experiment_id:" in file.head) or mlflow.FORMAT.claims(file)


def read(files: Sequence[storage.File], reading: Reading) -> Iterator[PastRun]:
    stored = [file for file in files if file.name.endswith(META) or mlflow.FOLDER in f"/{file.name}"]
    for file in files:
        if file not in stored:
            yield from _of_database(file, reading)
    yield from _of_folders(stored, reading)


def _of_folders(files: Sequence[storage.File], reading: Reading) -> Iterator[PastRun]:
    by_folder: dict[str, list[storage.File]] = defaultdict(list)
    about: dict[str, tuple[str, dict[str, Any]]] = {}
    for file in files:
        if file.name.endswith(META):
            about[file.name.removesuffix(META).strip("/")] = file.path, _meta(file)
        else:
            by_folder[f"/{file.name}".partition(f"/{mlflow.FOLDER}")[0].strip("/")].append(file)
    for folder, (path, meta) in sorted(about.items()):
        run = meta.get("run_id") or meta.get("run_uuid")
        if run is None:  # an experiment
            continue
        experiment = about.get(folder.rpartition("/")[0], ("", {}))[1].get("name", meta.get("experiment_id"))
        row = {**meta, "run_uuid": run, "experiment": str(experiment)}
        if not _is_wanted(row, reading):
            continue
        if not by_folder[folder]:
            reading.leave_out("has no metrics")
            continue
        found = read_files(mlflow.FORMAT, by_folder[folder], Allowance(reading.limits))
        metrics = metrics_of(mlflow.FORMAT.name, found, reading.limits, path)
        yield _past_run(row, metrics, {}, path)


def _meta(file: storage.File) -> dict[str, Any]:
    try:
        content = yaml.load(file.read(MOST_META), yaml.CSafeLoader)
    except yaml.YAMLError as error:
        raise UnreadableInputError(f"{file.path}: is no YAML: {str(error).partition(chr(10))[0]}") from error
    if not isinstance(content, dict) or "experiment_id" not in content:
        raise UnreadableInputError(f"{file.path}: is no meta.yaml of MLflow; the file may be cut off")
    return content


def _of_database(file: storage.File, reading: Reading) -> Iterator[PastRun]:
    if not storage.is_local(file.path):
        raise StorageError(f"{file.path}: a database is read on this machine only; copy it here")
    try:
        with closing(
            sqlite3.connect(f"{storage.local_path(file.path).absolute().as_uri()}?mode=ro", uri=True)
        ) as opened:
            opened.row_factory = sqlite3.Row
            for row in map(dict, opened.execute(RUNS)):
                if not _is_wanted(row, reading):
                    continue
                metrics = tuple(map(_metric, opened.execute(METRICS, (row["run_uuid"],))))
                params = {f"mlflow/param/{key}": value for key, value in opened.execute(PARAMS, (row["run_uuid"],))}
                if metrics:
                    yield _past_run(row, metrics, params, f"{file.path}: run {row['run_uuid']}")
                else:
                    reading.leave_out("has no metrics")
    except sqlite3.Error as error:
        raise UnreadableInputError(f"{file.path}: cannot be read as a database of MLflow: {error}") from error


def _metric(row: sqlite3.Row) -> Metric:
    value = math.nan if row["is_nan"] else float(row["value"])
    name = f"{row['key']}_final"  # as a file of the file store becomes a metric
    non_finite = int(not math.isfinite(value))
    return Metric(name, value, row["key"], "final", row["step"], row["timestamp"] / 1e3, non_finite=non_finite)


def _is_wanted(row: Mapping[str, Any], reading: Reading) -> bool:
    if row.get("lifecycle_stage") == "deleted":
        reading.leave_out("was deleted")
    elif str(row.get("status")) not in ENDED or not row.get("end_time"):
        reading.leave_out("has not ended")
    else:
        return True
    return False


def _past_run(row: Mapping[str, Any], metrics: tuple[Metric, ...], params: dict[str, str], where: str) -> PastRun:
    return PastRun(
        str(row["run_uuid"]),
        row["experiment"],
        moment_of(row["end_time"], where),
        metrics,
        where,
        ENDED[str(row["status"])],
        started_at=moment_of(row["start_time"], where),
        owner=str(row.get("user_id") or ""),
        metadata={"mlflow/run_name": str(row.get("run_name") or ""), **params},
    )


HISTORY = History("mlflow", claims, read)
