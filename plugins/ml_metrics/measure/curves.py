"""The curve of a tag: its values over the steps of a run, down-sampled so that the curves of runs are comparable."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ml_metrics.core.model import CURVE_SUFFIX, Metric, TagCurve
from ml_metrics.core.values import finite
from ml_metrics.measure.collected import is_wanted
from ml_metrics.measure.strategies import median

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from ml_metrics.config.collection import MetricCollectionConfig
    from ml_metrics.core.model import Series
    from ml_metrics.measure.aggregation import Tagged


CURVE = "curve"
"""The strategy of the metric `<tag>_curve`."""
SPREADS = "sd"
"""The unit of a distance from the envelope."""
GROUPS = 128
"""Into how many groups of equal width the steps of a run are divided at most."""
EARLY = 4
"""The groups of each doubling of the step at the beginning of a run, where values change fastest."""
MAX_CURVES = 200
"""The curves of one run that are kept. A curve takes about 3 kB of the warehouse."""


def curves_of(
    tagged: Tagged, config: MetricCollectionConfig, wanted: Callable[[str], bool], better_of: Callable[[str], str]
) -> tuple[dict[str, TagCurve], list[str]]:
    """By tag, and a warning if some are left out."""
    tags = [tag for tag in sorted(tagged.series) if wanted(tag) and is_wanted(tag, config, included=True)]
    curves = {tag: curve_of(tagged.series[tag], better_of(tag)) for tag in tags[:MAX_CURVES] if len(tagged.series[tag])}
    if len(tags) <= MAX_CURVES:
        return curves, []
    left_out = f"the curves of {len(tags) - MAX_CURVES} tags are not judged, from {tags[MAX_CURVES]!r} on"
    return curves, [f"{left_out}: a run has at most {MAX_CURVES} curves. Let `curve` match fewer tags."]


def curve_of(series: Series, better: str = "") -> TagCurve:
    """The curve of a series: for each group of steps, the median of its finite values at their median step.

    The order of the points does not matter. Steps that a restarted workload wrote again are in the same group.
    """
    groups = groups_of(series.step)
    order = np.lexsort((series.step, groups))
    cuts = np.flatnonzero(np.diff(groups[order])) + 1
    steps: list[int] = []
    values: list[float] = []
    non_finite: list[tuple[int, int, int]] = []
    for indexes in np.split(order, cuts):
        number = np.isfinite(series.value[indexes])
        if not number.all():
            bad = series.step[indexes[~number]]
            non_finite.append((int(bad[0]), int(bad[-1]), len(bad)))
        good = indexes[number]
        if good.size:
            steps.append(int(series.step[good[(len(good) - 1) // 2]]))
            values.append(float(f"{median(series.value[good]):.7g}"))
    return TagCurve(series.tag, tuple(steps), tuple(values), tuple(non_finite), better)


def groups_of(steps: NDArray[np.int64]) -> NDArray[np.int64]:
    """The group of each step, as its first step.

    Groups begin at the same steps in every run, whatever its length: one of a longer run is several of a shorter one.
    """
    size = np.abs(steps.astype(np.float64))
    width = max(0, math.ceil(math.log2((float(size.max(initial=0)) + 1) / GROUPS)))
    doublings = np.frexp(size)[1] - 1 - int(math.log2(EARLY))
    shift = np.clip(doublings, 0, width).astype(np.int64)
    return np.asarray((steps >> shift) << shift)


def metrics_of(curves: dict[str, TagCurve], tagged: Tagged) -> Iterator[Metric]:
    """Yield the metric of each curve. Its value, the distance from the envelope, is 0 until the judge computes it.

    Points that are not finite are in the curve, with their steps, because only those in the judged steps count.
    """
    for tag, curve in curves.items():
        series = tagged.series[tag]
        yield Metric(
            f"{tag}{CURVE_SUFFIX}",
            0.0 if curve.steps else math.nan,
            tag,
            CURVE,
            wall_time=finite(float(np.max(series.wall_time))),
            points=len(series),
            unit=SPREADS,
            better="lower",
        )
