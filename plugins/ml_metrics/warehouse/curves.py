"""The stored curves of runs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ml_metrics.errors import WarehouseError
from ml_metrics.model import TagCurve

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ml_metrics.warehouse.database import Database

OF_RUNS = """
SELECT uuid, tag, curve
FROM curve_history
WHERE uuid IN :runs AND tag IN :tags
"""


@dataclass(frozen=True, slots=True)
class StoredCurves:
    """Queries for curves."""

    database: Database

    def of_runs(self, run_keys: Sequence[str], tags: Sequence[str]) -> dict[tuple[str, str], TagCurve]:
        """Return the curves of some tags in some runs, by run key and tag."""
        if not run_keys or not tags:
            return {}
        rows = self.database.query(OF_RUNS, runs=list(run_keys), tags=list(tags))
        return {(row["uuid"], row["tag"]): _curve(row["uuid"], row["tag"], row["curve"]) for row in rows}


def _curve(run_key: str, tag: str, text: str) -> TagCurve:
    try:
        return TagCurve.from_document(tag, json.loads(text))
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise WarehouseError(f"run {run_key}: curve_history: the curve of {tag!r} is unreadable: {error}") from error
