"""The past runs that a command reads, with the conditions of their test: from the warehouse, or from a file.

Every command that reads past runs takes the same arguments: the name of a test, or a file with its conditions; and
`--history FILE`, without which the runs are read from the warehouse.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from ml_metrics.config.conditions import RegressionTestConfig
from ml_metrics.config.document import SUFFIXES
from ml_metrics.config.loading import load_file, load_test, load_tests
from ml_metrics.core.errors import ConfigError, UnreadableInputError
from ml_metrics.core.model import CURVE_SUFFIX, SWEEP, JobStatus, Metric, Outcome, StoredMetric, TagCurve
from ml_metrics.core.settings import Settings
from ml_metrics.core.text import did_you_mean
from ml_metrics.core.values import as_utc
from ml_metrics.judge import Acceptance, CurvesOfRuns, Replay, history_needs, quotients, replay
from ml_metrics.judge.compare import ValueOrCurve, curve_of
from ml_metrics.store import storage
from ml_metrics.ui.cli.arguments import Arguments, Parser, UsageError, add_value, whole_number
from ml_metrics.ui.cli.chosen_warehouse import add_warehouse, open_chosen, require_test
from ml_metrics.ui.cli.output import warn
from ml_metrics.warehouse import Warehouse

DEFAULT_RUNS = 2_000
"""More than five years of nightly runs."""
MAX_RUNS = 100_000


@dataclass(frozen=True, slots=True)
class PastRuns:
    """The past runs of one test."""

    test: str
    """The name of the test; empty if neither the command line nor the file of the runs states it."""
    config: RegressionTestConfig
    """The conditions of the test; empty if they are unknown and the command does not need them."""
    rows: Sequence[StoredMetric]
    """Also those of the tests that `compare_to` names."""
    acceptances: Sequence[Acceptance] = ()
    attributes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    curves: CurvesOfRuns = field(default_factory=dict)
    """The curves of the tags that the conditions judge over their steps."""
    file: Path | None = None

    def by_metric(self) -> dict[str, list[StoredMetric]]:
        """The rows of the test itself, with the quotients of metrics that are judged relative to another."""
        found: dict[str, list[StoredMetric]] = defaultdict(list)
        for row in quotients(self.config, self.rows, self.test):
            if row.metric and row.test in {"", self.test}:
                found[row.metric].append(row)
        return dict(found)

    def reference_for(self, metric: str) -> str | None:
        condition = self.config.condition_for(metric)
        return None if condition is None else condition.relative_to

    def replayed(self) -> Replay:
        return replay(
            self.config,
            self.rows,
            test=self.test,
            acceptances=self.acceptances,
            attributes=self.attributes,
            curves=self.curves,
        )


def add_past_runs(parser: Parser) -> None:
    about = "a test, or a test file or metric config with its conditions"
    add_value(parser, "place", "TEST|CONFIG", about, nargs="?")
    about = "the past runs, as `ml-metrics history` prints them with --jsonl or --json; default: the warehouse"
    add_value(parser, "--history", "FILE", about)
    add_value(parser, "--test", "NAME", "the test's name, if CONFIG does not state it", str, default="")
    about = f"only the newest runs; default: all in the file, {DEFAULT_RUNS} of the warehouse"
    add_value(parser, "--runs", "N", about, whole_number(1, MAX_RUNS))
    add_warehouse(parser)


def past_runs(arguments: Arguments, *, config_required: bool = True) -> PastRuns:
    """Without `config_required`, the conditions may be unknown: no test file is there, or only `--history` is given."""
    test, config, file = _conditions(arguments, required=config_required)
    if arguments.history:
        test, rows = runs_in(arguments.history, test, config, file)
        judged = any(condition.curve is not None for condition in config.metric_success_conditions.values())
        curves = read_curves(arguments.history) if judged else {}
        return PastRuns(test, config, _newest(rows, arguments.runs, test), curves=curves, file=file)
    if not test:
        raise UsageError("give the name of a test, or --history FILE; `ml-metrics tests` lists the tests")
    limit = arguments.runs or DEFAULT_RUNS
    with open_chosen(arguments) as warehouse:
        require_test(warehouse, test)
        past = recorded_runs(warehouse, limit, test, config, file)
    if arguments.runs is None and len({row.run_key for row in past.rows if row.test == test}) == limit:
        warn(f"read the newest {limit} runs of {test}; --runs N reads more")
    return past


def conditions_in(place: str, name: str, *, name_required: bool = False) -> tuple[str, RegressionTestConfig, Path]:
    """The name may be empty if the file defines no test and none is required, because the runs state it."""
    loaded = load_file(place)
    if not name and len(loaded.tests) > 1:
        tests = ", ".join(test.name for test in loaded.tests)
        raise UsageError(f"{place}: defines several tests; choose one with --test: {tests}")
    for test in loaded.tests:
        if name in {"", test.name}:
            return test.name, test.regression_test_config, loaded.path
    if name_required and not name:
        raise UsageError(f"{place}: defines no test; --test NAME names the test whose runs to read")
    return name, loaded.regression_test_config, loaded.path


def runs_in(place: str, test: str, config: RegressionTestConfig, file: Path | None) -> tuple[str, list[StoredMetric]]:
    """A test without a name has that of the runs, or of the file with its conditions.

    Raises UsageError if all rows are of other tests: that is no empty history.
    """
    rows = read_history(place, test)
    found = {row.test for row in rows} - {""}
    names = ", ".join(sorted(found))
    if not test and len(found) > 1:
        raise UsageError(f"{place}: has runs of several tests; choose one with --test: {names}")
    test = test or next(iter(found), file.stem if file else "")
    if found and found.isdisjoint(history_needs(config, test).series):
        raise UsageError(f"{place}: has no row of test {test!r}; choose one of its tests with --test: {names}")
    return test, rows


def _conditions(arguments: Arguments, *, required: bool) -> tuple[str, RegressionTestConfig, Path | None]:
    place, name = arguments.place, arguments.test
    if place is None:
        if required:
            raise UsageError("give the name of a test, or a file with its conditions")
        return name, RegressionTestConfig(), None
    if place.endswith(SUFFIXES) or is_path(place):
        return conditions_in(place, name, name_required=not arguments.history)
    if name:
        raise UsageError(f"--test {name}: give it with a CONFIG; {place!r} is no file, so it is the name of a test")
    root = Settings.load().config_root
    try:
        test = load_test(root, place)
    except ConfigError as error:
        if not required:
            return place, RegressionTestConfig(), None
        near = did_you_mean(place, [test.name for test in load_tests(root).tests]) or ";"
        raise UsageError(
            f"the conditions of {place!r} are unknown: {error}{near} give a file with conditions: CONFIG --test NAME"
        ) from error
    return test.name, test.regression_test_config, Path(test.source) if test.source else None


def is_path(place: str) -> bool:
    try:
        return Path(place).is_file()
    except (OSError, ValueError):  # too long, or with a NUL
        return False


def _newest(rows: list[StoredMetric], runs: int | None, test: str) -> list[StoredMetric]:
    """Every row of other tests stays."""
    if runs is None:
        return rows
    ordered = sorted(rows, key=lambda row: row.timestamp)
    ended = {row.run_key: row.timestamp for row in ordered if row.test in {"", test}}
    kept = set(sorted(ended, key=lambda key: (ended[key], key))[-runs:])
    return [row for row in rows if row.test not in {"", test} or row.run_key in kept]


def recorded_runs(
    warehouse: Warehouse, limit: int, test: str, config: RegressionTestConfig, file: Path | None = None
) -> PastRuns:
    """The newest ones, with everything that they are judged by."""
    needs = replace(history_needs(config, test), window=0, recent=limit, earliest=None)
    rows, deployments = warehouse.metrics.history(needs), needs.deployments
    ends = {row.run_key: row.timestamp for row in rows}
    sweeps = sorted({row.metric for row in rows if row.metric.startswith(SWEEP) and config.names(row.metric)})
    with_curve = {row.run_key: row.timestamp for row in rows if row.metric.endswith((CURVE_SUFFIX, *sweeps))}
    tags = {row.metric.removesuffix(CURVE_SUFFIX) for row in rows if row.metric.endswith(CURVE_SUFFIX)}
    judged = sorted(filter(config.judges_curve, tags))
    conditions = map(config.condition_for, sweeps)
    traded = sorted({f"{SWEEP}{one.traded_for}" for one in conditions if one is not None and one.traded_for})
    return PastRuns(
        test,
        config,
        rows,
        warehouse.acceptances.of_history(needs),
        dict(warehouse.attributes(needs.names, ends, deployments=deployments)),
        warehouse.curves.judged_of_runs(
            sorted(with_curve), [*judged, *sweeps, *traded], tests=needs.names, ends=with_curve, deployments=deployments
        ),
        file,
    )


Choice = TypeVar("Choice", JobStatus, Outcome)
NON_FINITE = {"nan", "inf", "+inf", "-inf", "infinity", "+infinity", "-infinity"}
"""Spellings of non-finite numbers, which JSON does not have."""

EXPORTED = {"uuid": "run_key", "metric_name": "metric", "metric_value": "value"} | {
    name: name for name in ("timestamp", "job_status", "verdict", "non_finite", "trial")
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
    """The output of `ml-metrics collect --json`, or `{name: value}` with null for NaN."""
    document = _object(path, storage.read_bytes(path), ": the output of `collect --json`, or {name: value}")
    if not isinstance(document.get("metrics"), list):
        return Measured(tuple(_metric(path, name, {"value": value}) for name, value in document.items()), {})
    entries = enumerate(document["metrics"])
    metrics = tuple(_metric(f"{path}: metrics[{position}]", None, entry) for position, entry in entries)
    curves = _object_at(path, document, "curves", "tags and curves")
    missing, mixed = (_object_at(path, document, key, "names and reasons") for key in ("missing", "mixed"))
    return Measured(
        metrics,
        {name: str(reason) for name, reason in missing.items()},
        {tag: _curve(f"{path}: curves: {tag}", tag, curve) for tag, curve in curves.items()},
        {name: str(reason) for name, reason in mixed.items()},
    )


def _object_at(path: str, document: dict[str, Any], key: str, what: str) -> dict[str, Any]:
    given = document.get(key) or {}
    if not isinstance(given, dict):
        raise UnreadableInputError(f"{path}: {key}: should be an object of {what}")
    return given


def read_history(path: str, test: str = "") -> list[StoredMetric]:
    """Read JSON lines, one for each metric of each run, or a document of `ml-metrics history --json`.

    Each line needs `metric_name` and `metric_value`, or only `job_status` for a run without metrics. `timestamp` is ISO
    8601 or seconds since 1970; if all lines omit it, they are in order of time. Lines without `uuid` and with the same
    time are one run. The default of `job_status` is `success`; a missing `verdict` is unknown. Lines of trials (with
    a `trial`, as in the table `metric_history`) are left out.
    """
    return [point for _, _, point in _points(path, test)]


def read_curves(path: str) -> dict[tuple[str, str], TagCurve]:
    """By run key and tag, from the lines of such a file: `curve` in a line for a metric `<tag>_curve`."""
    return {
        (point.run_key, tag): _curve(f"{where}: curve", tag, row["curve"])
        for where, row, point in _points(path, "")
        if row.get("curve") is not None and (tag := point.metric.removesuffix(CURVE_SUFFIX)) != point.metric
    }


def read_text(path: str) -> str:
    try:
        return storage.read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableInputError(f"{path}: is not UTF-8 text: {error.reason}") from error


def read_repeats(path: str) -> dict[str, list[ValueOrCurve]]:
    """`{metric: [values]}`, oldest value first, with null for a run that did not measure the metric.

    A list of `[x, y]` in place of a value is a curve.
    """
    document = _object(path, storage.read_bytes(path), ": {metric: [values]}", object_pairs_hook=_each_once)
    return {metric: _values(f"{path}: {metric}", metric, values) for metric, values in document.items()}


def _points(path: str, test: str) -> Iterator[tuple[str, dict[str, Any], StoredMetric]]:
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
    exported = _exported(path)
    if exported is not None:
        yield from ((number, f"{path}: row {number}", row) for number, row in enumerate(exported, start=1))
        return
    for number, line in enumerate(storage.read_bytes(path).removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        if line.strip():
            yield number, f"{path}:{number}", _object(f"{path}:{number}", line)


def _exported(path: str) -> list[dict[str, Any]] | None:
    """Those of a document of `ml-metrics history --json`, oldest first; None for any other file."""
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


def _object(where: str, content: bytes, what: str = "", **options: Any) -> dict[str, Any]:
    try:
        found = json.loads(content.decode("utf-8-sig"), **options)
    except UnicodeDecodeError as error:
        raise UnreadableInputError(f"{where}: is not UTF-8 text: {error.reason}") from error
    except (ValueError, RecursionError) as error:
        raise UnreadableInputError(f"{where}: is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise UnreadableInputError(f"{where}: should hold one JSON object{what}")
    return found


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
        rerun=_text(where, row, "rerun") or None,
    )


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} occurs twice in one object")
    return found


def _values(where: str, metric: str, values: Any) -> list[ValueOrCurve]:
    listed = values if isinstance(values, list) else [values]
    return [
        math.nan if value is None else curve_of(metric, value) or _number(f"{where}[{place}]", value)
        for place, value in enumerate(listed)
    ]


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
