"""The stored curves of runs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from ml_metrics.errors import WarehouseError
from ml_metrics.model import CurveBand, TagCurve
from ml_metrics.values import as_utc
from ml_metrics.warehouse.deployment import OF_DEPLOYMENT
from ml_metrics.warehouse.record import DAY

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from ml_metrics.warehouse.database import Database
    from ml_metrics.warehouse.record import Place

Found = TypeVar("Found")

OF_RUNS = f"""
SELECT uuid, tag, curve
FROM curve_history
WHERE {OF_DEPLOYMENT} AND uuid IN :runs AND tag IN :tags AND test_name IN :tests
  AND timestamp >= :since
"""  # noqa: S608  (constants)

OF_RUN = f"""
SELECT uuid, tag, curve, band
FROM curve_history
WHERE {OF_DEPLOYMENT} AND uuid = :run AND test_name = :test AND timestamp >= :since AND timestamp < :until
ORDER BY tag
"""  # noqa: S608  (constants)


@dataclass(frozen=True, slots=True)
class StoredCurves:
    """Queries for curves."""

    database: Database

    def of_runs(
        self,
        run_keys: Sequence[str],
        tags: Sequence[str],
        *,
        tests: Sequence[str],
        ends: Mapping[str, datetime],
        deployments: Sequence[str] = (),
    ) -> dict[tuple[str, str], TagCurve]:
        """Return the curves of some tags in some runs, by run key and tag. Some may be of other deployments.

        `ends` has the times at which the runs stopped, and maybe those of others; `tests` are the tests of the runs.
        """
        known = [ends[key] for key in run_keys if key in ends]
        if not known or not tags:
            return {}
        named = {"runs": list(run_keys), "tags": list(tags), "tests": list(tests), "since": as_utc(min(known)) - DAY}
        rows = [row for one in self.database.with_others(deployments) for row in one.query(OF_RUNS, **named)]
        return {(row["uuid"], row["tag"]): _curve(row["uuid"], row["tag"], row["curve"]) for row in rows}

    def of_run(self, run: Place) -> list[tuple[TagCurve, CurveBand | None]]:
        """Return the curves of one run by tag, each with the envelope that it was judged by, if it was."""
        run_key = run.run_key
        rows = self.database.query(OF_RUN, **{name: run.span[name] for name in ("run", "test", "since", "until")})
        return [(_curve(run_key, row["tag"], row["curve"]), _band(run_key, row["tag"], row["band"])) for row in rows]


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
