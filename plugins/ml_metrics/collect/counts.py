"""How many points of a tag are finite numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from ml_metrics.model import Metric
    from ml_metrics.series import Series


class Counts(NamedTuple):
    """The number of points, of those that are NaN or infinite, and the step of the first of these."""

    points: int
    non_finite: int
    first_non_finite: int | None


def counts_of(series: Series, chosen: NDArray[np.intp] | None = None) -> Counts:
    """Return the counts of a tag, or of some of its points."""
    step, value = (series.step, series.value) if chosen is None else (series.step[chosen], series.value[chosen])
    is_finite = np.isfinite(value)
    non_finite = len(value) - int(np.count_nonzero(is_finite))
    return Counts(len(value), non_finite, int(step[is_finite.argmin()]) if non_finite else None)


def notes_on(metrics: Iterable[Metric]) -> Iterator[str]:
    """Yield a note for each tag with points that are not finite: no condition may cover its metrics."""
    yield from dict.fromkeys(metric.non_finite_text for metric in metrics if metric.non_finite)
