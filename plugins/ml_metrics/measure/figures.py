"""Numbers made from curves over a load, a size or another setting: capacity at objectives, peak, knee, latency, ..."""

from __future__ import annotations

import math
from itertools import pairwise
from statistics import stdev
from typing import TYPE_CHECKING

from ml_metrics.core.kinds import HIGHER, LOWER
from ml_metrics.core.model import FAILED, Metric, knee_of
from ml_metrics.core.text import did_you_mean
from ml_metrics.core.units import PERCENT
from ml_metrics.measure.source import COMPUTED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ml_metrics.config.collection import AreaOfCurve, FigureOfCurves, MetricCollectionConfig, Objective
    from ml_metrics.core.model import Sweep, SweepPoint


WIDE = 8.0
"""From which quotient of its ends on distances along x are those of its logarithm."""


class NoFigureError(ValueError):
    """A run has no such figure, and why."""


def figures_of(
    sweeps: Sequence[Sweep], config: MetricCollectionConfig
) -> tuple[list[Metric], dict[str, str], list[str]]:
    """The figures that a config asks for, why some are missing, and notes."""
    by_name = {one.name: one for one in sweeps}
    found, missing, notes = [], {}, []
    for name, figure in config.figures.items():
        try:
            metric, note = _figure(name, figure, by_name)
        except NoFigureError as error:
            missing[name] = str(error)
            continue
        found.append(metric)
        notes += [f"{name}: {note}"] if note else []
    return found, missing, notes


def _figure(name: str, figure: FigureOfCurves, by_name: Mapping[str, Sweep]) -> tuple[Metric, str]:
    if figure.capacity is not None:
        curves = {each: _curve(each, by_name) for each in figure.capacity}
        first = next(iter(curves.values()))
        x, note = capacity(curves, figure.capacity)
        return Metric(name, x, name, COMPUTED, unit=first.x_unit, better=HIGHER), note
    if figure.value is not None:
        load, sweep = (_curve(each, by_name) for each in (figure.value.where, figure.value.of))
        x = _reaches(load, figure.value.reaches)
        return Metric(name, _at(sweep, x), name, COMPUTED, unit=sweep.unit, better=sweep.better), ""
    if figure.area is not None:
        sweep = _curve(figure.area.of, by_name)
        return Metric(name, _area(sweep, figure.area), name, COMPUTED, unit=PERCENT, better=sweep.better), ""
    kind, of = next((kind, of) for kind in OF_ONE if (of := getattr(figure, kind)) is not None)
    y, unit, better = OF_ONE[kind](_curve(of, by_name))
    return Metric(name, y, name, COMPUTED, unit=unit, better=better), ""


def _peak(sweep: Sweep) -> tuple[float, float]:
    points = sweep.measured
    x = (min if sweep.better == LOWER else max)(points, key=points.__getitem__)
    return x, points[x]


def _half_peak(sweep: Sweep) -> float:
    half = _peak(sweep)[1] / 2
    if next(iter(sweep.measured.values())) >= half:
        raise NoFigureError(f"{sweep.name} is above half of its peak from its first point on: begin at a smaller x")
    return _reaches(sweep, half)


def _knee(sweep: Sweep) -> float:
    x, y = list(sweep.measured), list(sweep.measured.values())
    is_wide = x[0] > 0 and x[-1] >= WIDE * x[0]
    knee = knee_of([math.log(each) for each in x] if is_wide else x, y)
    if knee is None:
        raise NoFigureError(f"{sweep.name} is nearly a straight line")
    return x[knee]


def _bandwidth(sweep: Sweep) -> float:
    per_x = _latency_and_slope(sweep)[1]
    if per_x <= 0:
        raise NoFigureError(f"{sweep.name} does not grow with {sweep.x_name}")
    return 1 / per_x


OF_ONE: dict[str, Callable[[Sweep], tuple[float, str, str]]] = {
    "peak": lambda one: (_peak(one)[1], one.unit, one.better),
    "peak_at": lambda one: (_peak(one)[0], one.x_unit, ""),
    "half_peak_at": lambda one: (_half_peak(one), one.x_unit, LOWER),
    "knee_at": lambda one: (_knee(one), one.x_unit, ""),
    "latency": lambda one: (_latency_and_slope(one)[0], one.unit, LOWER),
    "bandwidth": lambda one: (_bandwidth(one), f"{one.x_unit or one.x_name}/{one.unit}", HIGHER),
}
"""The figures of one curve: a value, its unit and direction."""


def _area(sweep: Sweep, area: AreaOfCurve) -> float:
    points = sweep.measured
    inside = [(x, y) for x, y in area.reference if min(points) <= x <= max(points) and y > 0]
    shares = [math.log(found / y) for x, y in inside if (found := _at(sweep, x)) > 0]
    if not shares:
        raise NoFigureError(f"{sweep.name} and its reference have no x in common")
    return 100 * math.exp(sum(shares) / len(shares))


def _latency_and_slope(sweep: Sweep) -> tuple[float, float]:
    """Fit time = latency + size / bandwidth, with errors that are shares of the time."""
    points = [(x, y) for x, y in sweep.measured.items() if y > 0]
    w, wx, wxx = (sum(x**power / y**2 for x, y in points) for power in range(3))
    v, vx = (sum(x**power / y for x, y in points) for power in range(2))
    if (size := w * wxx - wx * wx) <= 0:
        raise NoFigureError(f"{sweep.name} has fewer than two points above 0")
    return (wxx * v - wx * vx) / size, (w * vx - wx * v) / size


def _reaches(sweep: Sweep, y: float) -> float:
    """The smallest x at which a curve reaches a value, interpolated."""
    points = sweep.measured
    if next(iter(points.values())) >= y:
        return next(iter(points))
    for a, b in pairwise(points):
        if points[b] >= y:
            return _crossing(a, b, y - points[a], y - points[b])
    raise NoFigureError(f"{sweep.name} does not reach {y:g}: its greatest value is {max(points.values()):g}")


def _at(sweep: Sweep, x: float) -> float:
    points = sweep.measured
    if x in points:
        return points[x]
    for a, b in pairwise(points):
        if a < x < b:
            return points[a] + (points[b] - points[a]) * (x - a) / (b - a)
    raise NoFigureError(f"{sweep.name} was not measured around {x:g} {sweep.x_name}")


def capacity(curves: Mapping[str, Sweep], objectives: Mapping[str, Objective]) -> tuple[float, str]:
    """The greatest x up to which all objectives are kept, interpolated between two points, and notes.

    An x at which every repeat of a curve failed keeps no objective. Where points have a spread, two errors more and
    less give an interval.
    """
    ends = {errors: [_end(curves[name], objectives[name], errors) for name in curves] for errors in (0, 2, -2)}
    for (x, is_reached, _), (name, sweep) in zip(ends[0], curves.items(), strict=True):
        if not is_reached:
            raise NoFigureError(f"not reached: {name} breaks its objective at {x:g} {sweep.x_name}, the least there is")
    x, _, is_beyond = min(ends[0])
    low, high = (min(ends[errors])[0] for errors in (2, -2))
    between = f"; between {low:g} and {high:g} by the spread of its points" if low < high else ""
    if is_beyond:
        return x, f"beyond the sweep: all objectives are kept up to its end, {x:g}{between}"
    return x, f"{next(name for name, end in zip(curves, ends[0], strict=True) if end[0] == x)} limits it{between}"


def _end(sweep: Sweep, limit: Objective, errors: float) -> tuple[float, bool, bool]:
    """Where an objective stops to be kept, whether it ever is, and whether it is up to the end of the curve."""
    points, repeats = sweep.measured, {x: [one for one in sweep.points if one.x == x] for x in sweep.measured}
    failed = {point.x for point in sweep.points if point.mark == FAILED} - set(points)
    distances = dict.fromkeys(failed, 1.0)
    for x, y in points.items():
        error = errors * _error(repeats[x])
        distances[x] = (max if errors > 0 else min)(limit.distance(y - error), limit.distance(y + error))
    xs = sorted(distances)
    if distances[xs[0]] > 0:
        return xs[0], False, False
    for a, b in pairwise(xs):
        if distances[b] > 0:
            return a if b in failed else _crossing(a, b, distances[a], distances[b]), True, False
    return xs[-1], True, True


def _error(repeats: Sequence[SweepPoint]) -> float:
    """The standard error of a point, of its repeats or as its file states their spread; 0 if that is unknown."""
    ys = [one.y for one in repeats if one.y is not None and one.mark != FAILED]
    if len(ys) > 1:
        return stdev(ys) / math.sqrt(len(ys))
    one = repeats[0]
    return one.spread / math.sqrt(one.samples) if one.spread and one.samples else 0.0


def _crossing(a: float, b: float, before: float, after: float) -> float:
    """The x between two points at which a line between them is 0."""
    return a + (b - a) * before / (before - after) if before != after else b


def _curve(name: str, by_name: Mapping[str, Sweep]) -> Sweep:
    sweep = by_name.get(name)
    if sweep is None:
        raise NoFigureError(f"the run has no curve {name!r}{did_you_mean(name, by_name)}")
    if not sweep.measured:
        raise NoFigureError(f"no point of the curve {name!r} was measured")
    return sweep
