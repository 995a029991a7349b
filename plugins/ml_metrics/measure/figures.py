"""Numbers made from curves over a load, a size or another setting: capacity at objectives, peak, half of the peak."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from ml_metrics.core.kinds import HIGHER, LOWER
from ml_metrics.core.model import FAILED, Metric
from ml_metrics.core.text import did_you_mean
from ml_metrics.measure.source import COMPUTED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ml_metrics.config.collection import FigureOfCurves, MetricCollectionConfig, Objective
    from ml_metrics.core.model import Sweep


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
    sweep = _curve(figure.peak or figure.peak_at or figure.half_peak_at or "", by_name)
    points = sweep.measured
    best = min if sweep.better == LOWER else max
    at = best(points, key=points.__getitem__)
    if figure.peak is not None:
        return Metric(name, points[at], name, COMPUTED, unit=sweep.unit, better=sweep.better), ""
    if figure.peak_at is not None:
        return Metric(name, at, name, COMPUTED, unit=sweep.x_unit), ""
    half = points[at] / 2
    if next(iter(points.values())) >= half:
        raise NoFigureError(f"{sweep.name} is above half of its peak from its first point on: begin at a smaller x")
    x = next(_crossing(a, b, half - points[a], half - points[b]) for a, b in pairwise(points) if points[b] >= half)
    return Metric(name, x, name, COMPUTED, unit=sweep.x_unit, better=LOWER), ""


def capacity(curves: Mapping[str, Sweep], objectives: Mapping[str, Objective]) -> tuple[float, str]:
    """The greatest x up to which all objectives are kept, interpolated between two points, and a note if there is one.

    An x at which every repeat of a curve failed keeps no objective.
    """
    kept: list[tuple[float, str]] = []
    beyond = True
    for name, sweep in curves.items():
        points, limit = sweep.measured, objectives[name]
        failed = {point.x for point in sweep.points if point.mark == FAILED} - set(points)
        distances = {x: 1.0 if x in failed else limit.distance(points[x]) for x in sorted({*points, *failed})}
        first = next(iter(distances))
        if distances[first] > 0:
            raise NoFigureError(
                f"not reached: {name} breaks its objective at {first:g} {sweep.x_name}, the least there is"
            )
        broken = next(((a, b) for a, b in pairwise(distances) if distances[b] > 0), None)
        if broken is None:
            kept.append((max(distances), name))
            continue
        a, b = broken
        x = a if b in failed else _crossing(a, b, distances[a], distances[b])
        kept.append((x, name))
        beyond = False
    x, name = min(kept)
    return x, f"beyond the sweep: all objectives are kept up to its end, {x:g}" if beyond else f"{name} limits it"


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
