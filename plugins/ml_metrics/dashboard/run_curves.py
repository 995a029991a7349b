"""The curves within runs, read from the event files of their run folders when a reader asks for them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from ml_metrics.charts.run_curves import run_curves_chart
from ml_metrics.dashboard.chart_data import charts_document
from ml_metrics.dashboard.query import BadQueryError, text
from ml_metrics.errors import MlMetricsError
from ml_metrics.limits import Allowance, Limits
from ml_metrics.log_lines import logger_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ml_metrics.run_folder import RunFolder
    from ml_metrics.series import Series
    from ml_metrics.storage import File

log = logger_of(__name__)

MAX_FILES, MAX_BYTES = 5000, 256 << 20
LIMITS = Limits(seconds=10, bytes_read=MAX_BYTES, points=2_000_000)
"""The limits of one request on the API server. Data that was read until then is shown, with a note."""
MAX_CURVES = 12
BUCKETS = 250
"""The buckets of steps of a curve: each keeps its least and its greatest value."""
MAX_TAGS = 500
Points = list[tuple[int, float]]


@dataclass(frozen=True, slots=True)
class RunSteps:
    """The scalar tags of one run, thinned, by their names; those of a subfolder begin with its name."""

    tags: dict[str, Points]
    notes: tuple[str, ...] = ()


def curves_of_runs(folders: Mapping[str, RunFolder | None], query: Mapping[str, str]) -> dict[str, Any]:
    """Return the curves of one run or of two as charts, with all tags and notes.

    Args:
        folders: the run folder of each run, by the name that the legend has; the first run decides about the tags.
        query: `tag` is a part of the names of the tags to draw.
    """
    part = text(query, "tag").casefold()
    found = {name: _read(folder) for name, folder in folders.items()}
    first = next(iter(found.values()))
    tags = sorted(first.tags, key=lambda tag: ("loss" not in tag.casefold(), tag))
    shown = [tag for tag in tags if part in tag.casefold()]
    charts = []
    for tag in shown[:MAX_CURVES]:
        lines = {name: run.tags[tag] for name, run in found.items() if run.tags.get(tag)}
        charts.append((tag, run_curves_chart(lines)))
    notes = [f"{name}: {note}" for name, run in found.items() for note in run.notes]
    if len(shown) > MAX_CURVES:
        notes.append(f"{len(shown):,} tags; the first {MAX_CURVES} are drawn. Name a part of a tag to see others.")
    return {**charts_document(charts, {}), "tags": tags[:MAX_TAGS], "notes": notes}


def thinned(steps: Sequence[int], values: Sequence[float], buckets: int = BUCKETS) -> Points:
    """Return the points of a curve, by step: all of a short one, else the extremes of equal parts of its steps.

    The first and the last point, and the least and the greatest value of each part, are kept: no peak is lost. Values
    that are not finite are left out.
    """
    points = sorted(
        (int(step), float(value)) for step, value in zip(steps, values, strict=True) if math.isfinite(value)
    )
    if len(points) <= 2 * buckets:
        return points
    start, reach = points[0][0], max(1, points[-1][0] - points[0][0] + 1)
    extremes: dict[int, tuple[tuple[int, float], tuple[int, float]]] = {}
    for point in points:
        bucket = (point[0] - start) * buckets // reach
        least, greatest = extremes.get(bucket, (point, point))
        extremes[bucket] = (min(least, point, key=_value), max(greatest, point, key=_value))
    kept = {points[0], points[-1], *(point for pair in extremes.values() for point in pair)}
    return sorted(kept)


def _value(point: tuple[int, float]) -> float:
    return point[1]


def has_curves(files: Iterable[File]) -> bool:
    """Whether some files of a run folder are event files."""
    from ml_metrics.events import is_event_file  # imports numpy

    return any(map(is_event_file, files))


def _read(folder: RunFolder | None) -> RunSteps:
    from ml_metrics.events import is_event_file, read_events  # imports numpy

    if folder is None:
        return RunSteps({}, ("the name of this test or run cannot be the name of a folder",))
    try:
        files = [file for file in islice(folder.files(), MAX_FILES) if is_event_file(file)]
        if not files:
            return RunSteps({}, ("its folder has no event files, or is not on this server",))
        events = read_events(files, supersede=True, allowance=Allowance(LIMITS))
    except (MlMetricsError, OSError) as error:
        log.warning("%s: its event files cannot be read: %s", folder.path, error)
        return RunSteps({}, ("its event files cannot be read; the log of the API server has the reason",))
    notes = (f"only the first {MAX_BYTES >> 20} MB were read",) if _size(files) > MAX_BYTES else ()
    return RunSteps(dict(_named(events.series)), notes)


def _size(files: Iterable[File]) -> int:
    return sum(file.size for file in files)


def _named(series: Iterable[Series]) -> Iterable[tuple[str, Points]]:
    for one in series:
        name = one.tag if one.run == "." else f"{one.run}/{one.tag}"
        if points := thinned(one.step.tolist(), one.value.tolist()):
            yield name, points


def the_other(query: Mapping[str, str], run: str) -> str:
    """Return the key of the run that is drawn beside a run, or an empty string."""
    other = text(query, "with")
    if other == run:
        raise BadQueryError("with is the run itself.")
    return other
