"""Reads the files of metrics, history and repeats that `ml-metrics judge`, `replay` and `compare` take."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from ml_metrics.core.errors import UnreadableInputError
from ml_metrics.core.model import CURVE_SUFFIX, JobStatus, Metric, Outcome, StoredMetric, TagCurve
from ml_metrics.core.values import as_utc
from ml_metrics.store import storage

if TYPE_CHECKING:
    from collections.abc import Iterator


Choice = TypeVar("Choice", JobStatus, Outcome)
NON_FINITE = {"nan", "inf", "+inf", "-inf", "infinity", "+infinity", "-infinity"}
"""Spellings of non-finite numbers, which JSON does not have."""

EXPORTED = {
    "uuid": "run_key",
    "timestamp": "timestamp",
    "metric_name": "metric",
    "metric_value": "value",
    "job_status": "job_status",
    "verdict": "verdict",
    "non_finite": "non_finite",
    "trial": "trial",
}
"""The names that the values in a document of `ml-metrics history --json` have for what a row of a history has."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The metrics that a run produced, and those that it failed to produce."""

    metrics: tuple[Metric, ...]
    missing: dict[str, str]
    """The reason, by metric."""
    curves: dict[str, TagCurve] = field(default_factory=dict)
    """By tag."""
    mixed: dict[str, str] = field(default_factory=dict)
    """By metric: of which series it is made, if these are several."""


def read_metrics(path: str) -> Measured:
    """Read the output of `ml-metrics collect --json`, or `{name: value}` with null for NaN."""
    try:
        document = json.loads(storage.read_bytes(path).decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise UnreadableInputError(f"{path}: is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise UnreadableInputError(
            f"{path}: should hold one JSON object: the output of `collect --json`, or {{name: value}}"
        )
    if not isinstance(document.get("metrics"), list):
        return Measured(tuple(_metric(path, name, {"value": value}) for name, value in document.items()), {})
    metrics = tuple(
        _metric(f"{path}: metrics[{position}]", None, entry) for position, entry in enumerate(document["metrics"])
    )
    missing, mixed = _reasons(path, document, "missing"), _reasons(path, document, "mixed")
    curves = document.get("curves") or {}
    if not isinstance(curves, dict):
        raise UnreadableInputError(f"{path}: curves: should be an object of tags and curves")
    found = {tag: _curve(f"{path}: curves: {tag}", tag, curve) for tag, curve in curves.items()}
    return Measured(metrics, missing, found, mixed)


def _reasons(path: str, document: dict[str, Any], key: str) -> dict[str, str]:
    given = document.get(key) or {}
    if not isinstance(given, dict):
        raise UnreadableInputError(f"{path}: {key}: should be an object of names and reasons")
    return {name: str(reason) for name, reason in given.items()}


def read_history(path: str, test: str = "") -> list[StoredMetric]:
    """Read JSON lines, one for each metric of each run, or a document of `ml-metrics history --json`.

    Each line needs `metric_name` and `metric_value`, or only `job_status` for a run without metrics. `timestamp` is ISO
    8601 or seconds since 1970; if all lines omit it, they are in order of time. Lines without `uuid` and with the same
    time are one run. The default of `job_status` is `success`; a missing `verdict` is unknown. Lines of trials (with
    a `trial`, as in the table `metric_history`) are left out.
    """
    return [point for _, _, point in _points(path, test)]


def read_curves(path: str) -> dict[tuple[str, str], TagCurve]:
    """Read the curves in the lines of such a file, by run key and tag: `curve` in a line for a metric `<tag>_curve`."""
    return {
        (point.run_key, tag): _curve(f"{where}: curve", tag, row["curve"])
        for where, row, point in _points(path, "")
        if row.get("curve") is not None and (tag := point.metric.removesuffix(CURVE_SUFFIX)) != point.metric
    }


def read_repeats(path: str) -> dict[str, list[float]]:
    """Read `{metric: [values]}`, oldest value first, with null for a run that did not measure the metric."""
    try:
        document = json.loads(storage.read_bytes(path).decode("utf-8-sig"), object_pairs_hook=_each_once)
    except (ValueError, RecursionError) as error:
        raise UnreadableInputError(f"{path}: is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise UnreadableInputError(f"{path}: should hold one JSON object: {{metric: [values]}}")
    return {metric: _values(f"{path}: {metric}", values) for metric, values in document.items()}


def _points(path: str, test: str) -> Iterator[tuple[str, dict[str, Any], StoredMetric]]:
    """Yield each row with the place that an error names, and its value."""
    timed: bool | None = None
    for number, where, row in _rows(path):
        if row.get("trial"):
            continue
        if timed not in {None, row.get("timestamp") is not None}:
            raise UnreadableInputError(f"{where}: timestamp: give it in every line or in none")
        timed = row.get("timestamp") is not None
        when = _moment(where, row["timestamp"]) if timed else datetime.fromtimestamp(number, UTC)
        yield where, row, _point(where, row, when, test)


def _rows(path: str) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Yield each row with its number and the place that an error names."""
    exported = _exported(path)
    if exported is not None:
        yield from ((number, f"{path}: row {number}", row) for number, row in enumerate(exported, start=1))
        return
    for number, line in enumerate(storage.read_bytes(path).removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        if line.strip():
            yield number, f"{path}:{number}", _object(f"{path}:{number}", line)


def _exported(path: str) -> list[dict[str, Any]] | None:
    """Return the rows of a document of `ml-metrics history --json`, oldest first, or None for any other file."""
    try:
        document = json.loads(storage.read_bytes(path).decode("utf-8-sig"))
    except (ValueError, RecursionError):  # more than one document: JSON lines
        return None
    if not isinstance(document, dict):
        return None
    rows = document.get("values")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        return None
    common = {"metric": document.get("metric")}
    return [
        {"test_name": document.get("test")} | {key: (common | row).get(name) for key, name in EXPORTED.items()}
        for row in reversed(rows)
    ]


def _object(where: str, line: bytes) -> dict[str, Any]:
    try:
        row = json.loads(line.decode())
    except UnicodeDecodeError as error:
        raise UnreadableInputError(f"{where}: is not UTF-8 text: {error.reason}") from error
    except (ValueError, RecursionError) as error:
        raise UnreadableInputError(f"{where}: is not JSON: {error}") from error
    if not isinstance(row, dict):
        raise UnreadableInputError(f"{where}: should be one JSON object")
    return row


def _point(where: str, row: dict[str, Any], when: datetime, test: str) -> StoredMetric:
    name = row.get("metric_name")
    if name is None and (row.get("metric_value") is not None or "job_status" not in row):
        raise UnreadableInputError(f"{where}: metric_name is missing")
    if name is not None and "metric_value" not in row:
        raise UnreadableInputError(f"{where}: metric_value is missing; write null for NaN")
    value, share = row.get("metric_value"), row.get("non_finite")
    return StoredMetric(
        run_key=_text(where, row, "uuid") or when.isoformat(),
        timestamp=when,
        metric=_text(where, row, "metric_name"),
        value=None if value is None else _number(f"{where}: metric_value", value),
        job_status=_one_of(where, JobStatus, row, "job_status") or JobStatus.SUCCESS,
        outcome=_one_of(where, Outcome, row, "verdict"),
        test=_text(where, row, "test_name") or test,
        non_finite=None if share is None else _within(f"{where}: non_finite", share, 1),
    )


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} occurs twice in one object")
    return found


def _values(where: str, values: Any) -> list[float]:
    listed = values if isinstance(values, list) else [values]
    return [math.nan if value is None else _number(f"{where}[{place}]", value) for place, value in enumerate(listed)]


def _metric(where: str, name: str | None, entry: Any) -> Metric:
    if not isinstance(entry, dict) or "value" not in entry:
        raise UnreadableInputError(f"{where}: should be an object with name and value")
    name = name if name is not None else _text(where, entry, "name")
    if not name:
        raise UnreadableInputError(f"{where}: name is missing")
    value = entry["value"]
    wall_time, points, first = entry.get("wall_time"), _count(where, entry, "points", 1), entry.get("first_non_finite")
    return Metric(
        name=name,
        value=math.nan if value is None else _number(f"{where}: {name}", value),
        tag=_text(where, entry, "tag") or name,
        strategy=_text(where, entry, "strategy"),
        wall_time=None if wall_time is None else _number(f"{where}: wall_time", wall_time),
        points=points,
        non_finite=int(_within(f"{where}: non_finite", _count(where, entry, "non_finite", 0), points)),
        first_non_finite=None if first is None else _count(where, entry, "first_non_finite", 0),
    )


def _count(where: str, entry: dict[str, Any], key: str, default: int) -> int:
    value = entry.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool):
        raise UnreadableInputError(f"{where}: {key}: {value!r} is not a whole number")
    return value


def _within(where: str, value: Any, most: float) -> float:
    number = _number(where, value)
    if not 0 <= number <= most:
        raise UnreadableInputError(f"{where}: {value!r} is not from 0 to {most:g}")
    return number


def _curve(where: str, tag: str, document: Any) -> TagCurve:
    try:
        curve = TagCurve.from_document(tag, document)
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise UnreadableInputError(f"{where}: is no curve of steps and values: {error}") from error
    if not all(map(math.isfinite, curve.values)) or list(curve.steps) != sorted(set(curve.steps)):
        raise UnreadableInputError(f"{where}: needs ascending steps and finite values")
    return curve


def _number(where: str, value: Any) -> float:
    spelled = isinstance(value, str) and value.strip().lower() in NON_FINITE
    if isinstance(value, bool) or not (isinstance(value, int | float) or spelled):
        raise UnreadableInputError(f"{where}: {value!r} is not a number; write null for NaN")
    try:
        return float(value)
    except OverflowError as error:
        raise UnreadableInputError(f"{where}: a whole number too large to be a value") from error


def _text(where: str, row: dict[str, Any], key: str) -> str:
    value = row.get(key)
    if value is not None and not isinstance(value, str):
        raise UnreadableInputError(f"{where}: {key}: {value!r} should be text")
    return value or ""


def _one_of(where: str, choices: type[Choice], row: dict[str, Any], key: str) -> Choice | None:
    value = row.get(key)
    if value is None:
        return None
    try:
        return choices(value)
    except ValueError as error:
        raise UnreadableInputError(f"{where}: {key}: {value!r} is not one of {', '.join(choices)}") from error


def _moment(where: str, value: Any) -> datetime:
    try:
        if isinstance(value, str):
            return as_utc(datetime.fromisoformat(value.strip().removesuffix(" UTC")))
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value, UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise UnreadableInputError(f"{where}: timestamp: {value!r} is not a time: {error}") from error
    raise UnreadableInputError(f"{where}: timestamp: {value!r} is not a time; write ISO 8601 or seconds since 1970")
