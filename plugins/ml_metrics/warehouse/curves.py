"""The stored curves of runs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from ml_metrics.errors import WarehouseError
from ml_metrics.model import CurveBand, TagCurve
from ml_metrics.warehouse.deployment import OF_DEPLOYMENT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ml_metrics.warehouse.database import Database

Found = TypeVar("Found")

OF_RUNS = f"""
SELECT uuid, tag, curve
FROM curve_history
WHERE {OF_DEPLOYMENT} AND uuid IN :runs AND tag IN :tags
"""  # noqa: S608  (constants)

OF_RUN = f"""
SELECT uuid, tag, curve, band
FROM curve_history
WHERE {OF_DEPLOYMENT} AND uuid = :run
ORDER BY tag
"""  # noqa: S608  (constants)


@dataclass(frozen=True, slots=True)
class StoredCurves:
    """Queries for curves."""

    database: Database

    def of_runs(
        self, run_keys: Sequence[str], tags: Sequence[str], deployments: Sequence[str] = ()
    ) -> dict[tuple[str, str], TagCurve]:
        """Return the curves of some tags in some runs, by run key and tag. Some may be of other deployments."""
        if not run_keys or not tags:
            return {}
        databases = self.database.with_others(deployments)
        rows = [row for one in databases for row in one.query(OF_RUNS, runs=list(run_keys), tags=list(tags))]
        return {(row["uuid"], row["tag"]): _curve(row["uuid"], row["tag"], row["curve"]) for row in rows}

    def of_run(self, run_key: str) -> list[tuple[TagCurve, CurveBand | None]]:
        """Return the curves of one run by tag, each with the envelope that it was judged by, if it was."""
        rows = self.database.query(OF_RUN, run=run_key)
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
