"""The stored curves of runs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ml_metrics.core.errors import WarehouseError
from ml_metrics.core.kinds import kind_of
from ml_metrics.core.model import BROKEN, SWEEP, CurveBand, Sweep, SweepPoint, TagCurve
from ml_metrics.core.values import as_utc
from ml_metrics.warehouse.database import OF_DEPLOYMENT, of_deployment
from ml_metrics.warehouse.record import DAY, MAX_POINT_DISTANCE
from ml_metrics.warehouse.tables import VERDICT_IS_BROKEN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from ml_metrics.warehouse.database import Database
    from ml_metrics.warehouse.record import Place

    Names = Sequence[str]
    Ends = Mapping[str, datetime]

Found = TypeVar("Found")

_RUNS = "uuid IN :runs AND {} IN :tags AND test_name IN :tests AND timestamp >= :since"
_RUN = "uuid = :run AND test_name = :test AND timestamp >= :since AND timestamp < :until"
_POINTS = "uuid, curve, x_name, x_unit, unit, better, x, y, samples, spread, mark"

OF_RUNS = f"SELECT uuid, tag, curve FROM curve_history WHERE {OF_DEPLOYMENT} AND {_RUNS.format('tag')}"

OF_RUN = f"SELECT uuid, tag, curve, band FROM curve_history WHERE {OF_DEPLOYMENT} AND {_RUN} ORDER BY tag"


SWEEPS_OF_RUNS = (
    f"SELECT {_POINTS} FROM curve_points WHERE {OF_DEPLOYMENT} AND {_RUNS.format('curve')} ORDER BY uuid, curve, place"
)

SWEEPS_OF_RUN = f"SELECT {_POINTS} FROM curve_points WHERE {OF_DEPLOYMENT} AND {_RUN} ORDER BY curve, place"

VALUES = f"""
SELECT test_name, metric_name, metric_value, verdict, unit
FROM (
  SELECT metric.test_name, metric.metric_name, metric.metric_value, metric.verdict, metric.unit, metric.timestamp,
    metric.uuid,
    ROW_NUMBER() OVER (PARTITION BY metric.test_name ORDER BY metric.timestamp DESC, metric.uuid DESC) AS ago
  FROM (
    SELECT test_name, metric_name,
      ROW_NUMBER() OVER (
        PARTITION BY test_name ORDER BY CASE WHEN {VERDICT_IS_BROKEN} THEN 0 ELSE 1 END, metric_name
      ) AS place
    FROM metric_history
    WHERE {OF_DEPLOYMENT} AND uuid IN :runs AND test_name IN :tests AND timestamp >= :scan_from
      AND verdict IS NOT NULL AND metric_name <> 'goodput' AND metric_name NOT LIKE 'badput_%_percent'
  ) AS judged
  JOIN metric_history AS metric
    ON metric.test_name = judged.test_name AND metric.metric_name = judged.metric_name
  WHERE judged.place = 1 AND {of_deployment("metric")} AND metric.test_name IN :tests
    AND metric.timestamp >= :scan_from AND metric.trial IS NULL AND metric.metric_value IS NOT NULL
) AS found
WHERE ago <= :most
ORDER BY test_name, ago DESC
"""
"""The metric that failed in the newest run, else the first by name with a condition; parts of its time are neither."""


class SmallCurve(NamedTuple):
    """The newest values of a metric, oldest first."""

    metric: str
    unit: str
    values: tuple[float, ...]
    broken: tuple[int, ...]
    """The places of those that broke their condition."""


@dataclass(frozen=True, slots=True)
class StoredCurves:
    """Queries for curves. `ends` has the times at which runs stopped, and `tests` the tests of the runs."""

    database: Database

    def of_runs(
        self, run_keys: Names, tags: Names, *, tests: Names, ends: Ends, deployments: Names = ()
    ) -> dict[tuple[str, str], TagCurve]:
        """The curves of some tags in some runs, by run key and tag. Some runs may be of other deployments."""
        rows = self._rows(OF_RUNS, tags, run_keys, tests, ends, deployments)
        return {(row["uuid"], row["tag"]): _curve(row["uuid"], row["tag"], row["curve"]) for row in rows}

    def sweeps_of_runs(
        self, run_keys: Names, names: Names, *, tests: Names, ends: Ends, deployments: Names = ()
    ) -> dict[tuple[str, str], Sweep]:
        """Curves over a load, a size or another setting, by run key and name."""
        rows = self._rows(SWEEPS_OF_RUNS, names, run_keys, tests, ends, deployments)
        return {(run_key, sweep.name): sweep for run_key, sweep in _sweeps(rows)}

    def judged_of_runs(
        self, run_keys: Names, tags: Names, *, tests: Names, ends: Ends, deployments: Names = ()
    ) -> dict[tuple[str, str], TagCurve | Sweep]:
        """Both, as the judge names them: a sweep by its metric."""
        names = [tag.removeprefix(SWEEP) for tag in tags if tag.startswith(SWEEP)]
        others = [tag for tag in tags if not tag.startswith(SWEEP)]
        sweeps = self.sweeps_of_runs(run_keys, names, tests=tests, ends=ends, deployments=deployments)
        found = self.of_runs(run_keys, others, tests=tests, ends=ends, deployments=deployments)
        return {**found, **{(run_key, f"{SWEEP}{name}"): sweep for (run_key, name), sweep in sweeps.items()}}

    def _rows(
        self, query: str, names: Names, run_keys: Names, tests: Names, ends: Ends, deployments: Names
    ) -> list[dict[str, Any]]:
        known = [ends[key] for key in run_keys if key in ends]
        if not known or not names:
            return []
        since = as_utc(min(known)) - DAY
        named = {"runs": list(run_keys), "tags": list(names), "tests": list(tests), "since": since}
        return [row for one in self.database.with_others(deployments) for row in one.query(query, **named)]

    def sweeps_of(self, run: Place) -> list[Sweep]:
        return [sweep for _, sweep in _sweeps(self.database.query(SWEEPS_OF_RUN, **run.span))]

    def of_run(self, run: Place) -> list[tuple[TagCurve, CurveBand | None]]:
        """By tag, each with the envelope that it was judged by, if it was."""
        return [
            (_curve(run.run_key, row["tag"], row["curve"]), _band(run.run_key, row["tag"], row["band"]))
            for row in self.database.query(OF_RUN, **run.span)
        ]

    def small(self, runs: Mapping[str, tuple[str, datetime]], since: datetime, most: int) -> dict[str, SmallCurve]:
        """The metric that matters in each run, with the newest `most` values of its test since a time, by test.

        `runs` has the test and the end of each run. A value whose point was written before that time may be among them.
        """
        if not runs:
            return {}
        which = {"tests": sorted({test for test, _ in runs.values()}), "runs": sorted(runs), "most": most}
        rows = self.database.query(VALUES, scan_from=since - MAX_POINT_DISTANCE, **which)
        return {test: _small_curve(list(one)) for test, one in groupby(rows, key=lambda row: str(row["test_name"]))}


def _sweeps(rows: Iterable[dict[str, Any]]) -> Iterator[tuple[str, Sweep]]:
    for (run_key, name), points in groupby(rows, key=lambda row: (str(row["uuid"]), str(row["curve"]))):
        each = list(points)
        about = {key: each[0][key] or "" for key in ("x_name", "x_unit", "unit", "better")}
        found = (SweepPoint(row["x"], row["y"], row["samples"], row["spread"], row["mark"] or "") for row in each)
        yield run_key, Sweep(name=name, points=tuple(found), **about)


def _curve(run_key: str, tag: str, text: str) -> TagCurve:
    return _read(partial(TagCurve.from_document, tag), text, f"run {run_key}: curve_history: the curve of {tag!r}")


def _band(run_key: str, tag: str, text: str | None) -> CurveBand | None:
    where = f"run {run_key}: curve_history: the band of {tag!r}"
    return None if text is None else _read(CurveBand.from_document, text, where)


def _read(made: Callable[[dict[str, Any]], Found], text: str, where: str) -> Found:
    try:
        return made(json.loads(text))
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise WarehouseError(f"{where} is unreadable: {error}") from error


def _small_curve(rows: list[dict[str, Any]]) -> SmallCurve:
    metric, unit = rows[-1]["metric_name"], rows[-1]["unit"]
    places = tuple(place for place, row in enumerate(rows) if row["verdict"] in BROKEN)
    values = tuple(row["metric_value"] for row in rows)
    return SmallCurve(metric, kind_of(metric).unit if unit is None else unit, values, places)
