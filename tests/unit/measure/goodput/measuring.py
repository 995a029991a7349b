"""Reports of entries in memory."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ml_metrics.measure.goodput.build import analyse, build_report
from ml_metrics.measure.goodput.log import Entries

if TYPE_CHECKING:
    from ml_metrics.measure.goodput import GoodputReport


def measured(entries: list[dict[str, Any]], *, until: float | None = None, **options: Any) -> GoodputReport:
    return build_report(analyse(Entries.of(entries), until=until), files=1, **options)


def close(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-6)


def all_time(found: GoodputReport) -> float:
    """The sum of productive time and all badput that counts."""
    counted = sum(value for name, value in found.badput_seconds.items() if name != "data_loading_async")
    return found.productive_seconds + counted + sum(found.custom_badput_seconds.values())
