"""Functions for notebooks and scripts: `from ml_metrics import history, judge_metrics, read_events`.

Each function is a shorter way into one room of the package. docs/monitoring.md has an example of each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from datetime import UTC, datetime, timedelta
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ml_metrics.core.errors import ConfigError
from ml_metrics.core.extras import require
from ml_metrics.core.model import CURVE_SUFFIX, JobStatus, Metric, Outcome, StoredMetric
from ml_metrics.core.values import BEGINNING_OF_TIME, as_utc, digest_in

if TYPE_CHECKING:
    from pandas import DataFrame

    from ml_metrics.config.conditions import RegressionTestConfig
    from ml_metrics.judge import Judgement
    from ml_metrics.measure.events import Events
    from ml_metrics.measure.goodput import GoodputReport
    from ml_metrics.warehouse import Warehouse


def read_events(folder: str | Path, *, restarts: str = "keep") -> Events:
    """Read the TensorBoard event files of a folder and its sub-folders, on this machine or in a bucket.

    `restarts="supersede"` drops points that a restarted workload wrote again.
    """
    from ml_metrics.measure.events import read_events as read
    from ml_metrics.store.storage import list_files

    if restarts not in {"keep", "supersede"}:
        raise ConfigError(f"restarts: {restarts!r} is neither 'keep' nor 'supersede'")
    return read(list_files(str(folder)), supersede=restarts == "supersede")


def open_warehouse(
    address: str, *, deployment: str | None = None, create: bool = True, client: Any = None
) -> Warehouse:
    """Open the warehouse at an address: any SQLAlchemy URL, or `bigquery://project/dataset`.

    Only the rows of one deployment are read: by default, that of the settings of this process. With `create=False`, a
    warehouse that does not exist yet is an error. `client` is a ready `google.cloud.bigquery.Client`.
    """
    from ml_metrics.core.settings import Settings
    from ml_metrics.warehouse import open_warehouse as opened

    return opened(address, deployment=deployment or Settings.load().deployment, create=create, client=client)


def read_history(test: str, metric: str, *, limit: int = 50, warehouse: str | None = None) -> list[StoredMetric]:
    """Read the newest values of a test's metric from the warehouse, newest first, with their bounds and verdicts.

    `warehouse` is an address such as `sqlite:///warehouse.db` or `bigquery://project/dataset`; without one, the
    warehouse of this Airflow deployment is read. A warehouse that does not exist is an error: nothing is created.
    """
    with _recorded(warehouse) as source:
        return source.metrics.values(test, metric, limit)


VALUE = ("run_key", "timestamp", "metric", "value", "unit", "outcome", "lower", "upper", "reference", "job_status")
CHANGE = ("metric", "timestamp", "run_key", "before", "after", "percent", "in_noise", "certainty", "unit")


def history(test: str, *, limit: int = 50, warehouse: str | None = None) -> DataFrame:
    """The values of a test's newest runs as a pandas DataFrame: a row for each value, oldest first.

    `limit` is a number of runs. `warehouse` is as for `read_history`. Trials are left out.
    """
    with _recorded(warehouse) as source:
        rows = _newest(source, test, limit)
    return _frame(VALUE, ([getattr(row, name) for name in VALUE] for row in rows if row.metric))


def changes(test: str, *, limit: int = 1000, certainty: float = 0.5, warehouse: str | None = None) -> DataFrame:
    """When the level of each metric of a test changed for good, as a pandas DataFrame: a row for each change.

    The changes are those of `ml-metrics changes` without the conditions of a test file.
    """
    from ml_metrics.judge import changes_in

    with _recorded(warehouse) as source:
        rows = _newest(source, test, limit)
    found = [
        (metric, change)
        for metric in sorted({row.metric for row in rows} - {""})
        for change in changes_in((row for row in rows if row.metric == metric), certainty=certainty)
    ]
    return _frame(CHANGE, ([metric, *(getattr(change, name) for name in CHANGE[1:])] for metric, change in found))


def curves(test: str, *, limit: int = 10, warehouse: str | None = None) -> DataFrame:
    """The curves of a test's newest runs over their steps, as a pandas DataFrame: a row for each point.

    Curves are recorded where a condition judges one (`curve`).
    """
    with _recorded(warehouse) as source:
        rows = _newest(source, test, limit)
        tags = sorted({row.metric.removesuffix(CURVE_SUFFIX) for row in rows if row.metric.endswith(CURVE_SUFFIX)})
        ends = {row.run_key: row.timestamp for row in rows}
        found = source.curves.of_runs(sorted(ends), tags, tests=[test], ends=ends)
    ordered = sorted(found.items(), key=lambda one: (ends[one[0][0]], one[0]))
    points = (
        (run_key, ends[run_key], tag, *point)
        for (run_key, tag), curve in ordered
        for point in zip(curve.steps, curve.values, strict=True)
    )
    return _frame(("run_key", "timestamp", "tag", "step", "value"), points)


def _newest(source: Warehouse, test: str, limit: int) -> list[StoredMetric]:
    from ml_metrics.judge import HistoryNeeds
    from ml_metrics.ui.cli.chosen_warehouse import require_test

    rows = source.metrics.history(HistoryNeeds(tests=(test,), window=0, recent=limit, earliest=None))
    if not rows:
        require_test(source, test)
    return sorted(rows, key=lambda row: (row.timestamp, row.run_key, row.metric))


def _frame(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> DataFrame:
    require("pandas", "a DataFrame")
    from pandas import DataFrame, to_datetime

    plain = [[str(one) if isinstance(one, Enum) else one for one in row] for row in rows]
    frame = DataFrame(plain, columns=list(columns))
    return frame.assign(timestamp=to_datetime(frame["timestamp"], utc=True))


def green_tests(digest: str, tests: Iterable[str], *, days: int = 90, warehouse: str | None = None) -> frozenset[str]:
    """Those of some tests whose newest run with the image of this digest passed.

    Each test counts once, by its newest run: a later run that failed counts instead of an earlier one that passed.
    Trials, imported runs and runs without a condition do not count. `digest` is `sha256:...`, alone or at the end of an
    image; runs that ended more than `days` ago are ignored.
    """
    from ml_metrics.warehouse import green_tests as found

    wanted = digest_in(digest)
    if not wanted:
        raise ConfigError(f"digest: {digest!r} does not end with `sha256:` and 64 hexadecimal digits")
    now = datetime.now(UTC)
    since = now - timedelta(days=min(days, (now - BEGINNING_OF_TIME).days))
    with _recorded(warehouse) as source:
        return found(source.database, wanted, since).intersection(tests)


def _recorded(address: str | None) -> AbstractContextManager[Warehouse]:
    from ml_metrics.airflow import warehouse as own_warehouse

    return closing(open_warehouse(address, create=False)) if address else own_warehouse(create=False)


def measure_goodput(
    place: str | Path, *, ideal_step_time: float | None = None, windows: Sequence[float] = ()
) -> GoodputReport:
    """Compute goodput, badput and step deviation from the goodput log of a run folder, local or in a bucket.

    `ideal_step_time` is in seconds; without it, it is computed from the steps. `windows` are rolling windows in
    seconds that end when the job does.
    """
    from ml_metrics.measure.goodput import measure

    return measure(str(place), ideal_step_time=ideal_step_time, windows=windows)


def judge_metrics(
    conditions: Mapping[str, Any] | RegressionTestConfig,
    metrics: Mapping[str, float] | Sequence[Metric],
    history: Mapping[str, Sequence[float]] | Sequence[StoredMetric] = (),
) -> Judgement:
    """Judge the metrics of a successful run by conditions, and by earlier values where the conditions need them.

    `conditions` are those of a test file (`metric_success_conditions`), by metric. `history` has the earlier values
    of each metric, oldest first, or the rows of a history with their own times and verdicts.
    """
    from ml_metrics.judge import judge_run

    now = datetime.now(UTC)
    points: list[StoredMetric]
    if hasattr(history, "items"):  # also a pandas Series: values of successful runs, a day apart, up to now
        points = [
            StoredMetric(
                f"run {age} before", now - timedelta(days=age), metric, float(value), JobStatus.SUCCESS, Outcome.PASS
            )
            for metric, values in history.items()
            for age, value in enumerate(reversed(values))
        ]
    else:
        points = list(history)
    found = (
        [Metric(name, float(value), tag=name, strategy="given") for name, value in metrics.items()]
        if hasattr(metrics, "items")
        else list(metrics)
    )
    newest = max((point.timestamp for point in points), default=now)
    return judge_run(
        _config(conditions),
        found,
        points,
        status=JobStatus.SUCCESS,
        run_key="this run",
        now=as_utc(newest) + timedelta(microseconds=1),
    )


def _config(conditions: Mapping[str, Any] | RegressionTestConfig) -> RegressionTestConfig:
    from pydantic import ValidationError

    from ml_metrics.config.conditions import RegressionTestConfig

    if isinstance(conditions, RegressionTestConfig):
        return conditions
    try:
        return RegressionTestConfig.model_validate({"metric_success_conditions": conditions})
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, one['loc'][1:]))}: {one['msg']}" for one in error.errors())
        raise ConfigError(f"conditions: {problems}") from error
