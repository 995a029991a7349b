"""Sweeps: results that a program wrote for one setting after the other become curves over that setting.

Files state many settings and not which of them was varied. It is the one that differs; those that differ besides, at
one x, tell curves apart. What is in no file may be in its name: `conc16.json`, `SERVE--max_num_seqs=4/run=0.json`.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ml_metrics.config.collection import known_about
from ml_metrics.core.kinds import NEITHER
from ml_metrics.core.model import FAILED, SATURATED, SWEEP, Metric, Stated, Sweep, SweepPoint
from ml_metrics.core.units import PERCENT
from ml_metrics.core.values import MAX_TAG_BYTES, storable_name
from ml_metrics.measure.text import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from ml_metrics.config.collection import MetricCollectionConfig

OF_SWEEP = "sweep"
"""The strategy of the metric `curve/<name>`, whose value the judge computes."""
MAX_POINTS = 50_000
"""The points of all curves of a run that are kept."""
MAX_SERIES = 2_000
ACHIEVED = 0.9
"""A point that achieved less than this share of the requested rate is saturated."""
FILE = "file"
"""The setting that stands for what the name of a file says beside numbers."""
NUMBER_IN_NAME = re.compile(r"([A-Za-z][A-Za-z_]*?)?[-_=]*(?<![\d.])(\d{1,9}(?:\.\d+)?)(?![\d.]*\d)")
REPEATS = frozenset({"run", "rep", "repeat", "trial", "iter", "attempt", "part", "seed", "stage", "v"})
"""Numbers in names that only count files."""
DATE_DIGITS = 6
MEANS = {
    **dict.fromkeys(("c", "conc", "concurrency", "users"), ("concurrency", "max_concurrency")),
    **dict.fromkeys(("r", "qps", "rps", "rate", "request_rate"), ("request_rate", "requested_rate")),
}
"""What the words before numbers in names mean, where a file does not state it."""


class Value(NamedTuple):
    """One y of a measurement."""

    y: float | None
    unit: str = ""
    better: str = ""
    spread: float | None = None

    @classmethod
    def of(cls, y: float | None, stated: Stated) -> Value:
        return cls(y, stated.unit, stated.better)


@dataclass(slots=True)
class Measurement:
    """What was measured with some settings."""

    file: str
    settings: dict[str, Any]
    values: Mapping[str, Value]
    samples: int | None = None
    failed: bool = False
    achieved: float | None = None
    """What was achieved of the requested rate."""
    stated: frozenset[str] = field(init=False)
    """The settings that the file states, unlike those that its name tells."""

    def __post_init__(self) -> None:
        self.stated = frozenset(self.settings)


@dataclass(frozen=True, slots=True)
class Axis:
    """What the sweeps of a format can be over."""

    names: tuple[str, ...]
    """The settings that can be x, the most likely first."""
    units: Mapping[str, str] = field(default_factory=dict)
    rates: tuple[str, ...] = ()
    """Those that are a rate, which `achieved` is compared with."""
    by_file: bool = False
    """Whether a file holds whole curves, so that several files are several curves."""


def sweeps_of(
    measurements: Sequence[Measurement], axis: Axis, named_by: Sequence[str] = (), *, of_one: bool = True
) -> list[Sweep]:
    """The curves that some measurements of one format are.

    If nothing was varied they have a single point, which `of_one` allows: a file that is not read otherwise is kept.
    """
    for one in measurements:
        if axis.by_file:
            one.settings.setdefault(FILE, stem_of(one.file))
        else:
            numbers, words = name_parts(one.file)
            numbers = {
                next((x for x in MEANS.get(word, ()) if x in axis.names), word): numbers[word] for word in numbers
            }
            one.settings = {**numbers, FILE: words, **one.settings}
    files = dict.fromkeys(one.file for one in measurements) if axis.by_file else [None]
    by_x: dict[str, list[Measurement]] = defaultdict(list)
    for file in files:
        together = [one for one in measurements if file in {None, one.file}]
        x_name = _x_of(_varied(together), axis, together) or (_stated_x(together, axis) if of_one else None)
        if x_name is not None:
            by_x[x_name] += together
    found = [sweep for x_name, several in by_x.items() for sweep in _over(x_name, several, axis, named_by)]
    if len(by_x) > 1:  # a file over the prompt, another over the depth
        found = [replace(sweep, name=f"{sweep.name} over {sweep.x_name}") for sweep in found]
    return found


def _over(x_name: str, measurements: Sequence[Measurement], axis: Axis, named_by: Sequence[str]) -> list[Sweep]:
    placed = [(x, one) for one in measurements if (x := number(one.settings.get(x_name))) is not None]
    names = [name for name in _varied([one for _, one in placed]) if name != x_name]
    telling = list(named_by) or _telling(placed, names, by_file=axis.by_file)
    groups: dict[tuple[Any, ...], list[tuple[float, Measurement]]] = defaultdict(list)
    for x, one in placed:
        groups[tuple(key(one.settings.get(name)) for name in telling)].append((x, one))
    common = _common([str(one.settings.get(FILE, "")) for _, one in placed]) if FILE in telling else (0, 0)
    sweeps: list[Sweep] = []
    for group in groups.values():
        group.sort(key=lambda one: one[0])
        label = _label(group[0][1], telling, common)
        sweeps += _curves(group, label, x_name, axis)
    return sweeps


def _curves(group: Sequence[tuple[float, Measurement]], label: str, x_name: str, axis: Axis) -> Iterator[Sweep]:
    for name in dict.fromkeys(name for _, one in group for name in one.values):
        points, known = [], Value(None)
        for x, one in group:
            value = one.values.get(name)
            if value is None:
                continue
            known = value if known.y is None else known
            late = x_name in axis.rates and one.achieved is not None and one.achieved < ACHIEVED * x
            mark = FAILED if one.failed else SATURATED if late else ""
            y = value.y if value.y is not None and math.isfinite(value.y) else None
            points.append(SweepPoint(x, y, one.samples, value.spread, mark))
        if any(point.y is not None for point in points):
            full = storable_name(f"{label}/{name}" if label else name, MAX_TAG_BYTES)
            yield Sweep(full, x_name, tuple(points), axis.units.get(x_name, ""), known.unit, known.better)


def stem_of(file: str) -> str:
    folder, slash, name = file.rpartition("/")
    return f"{folder}{slash}{name.rpartition('.')[0] or name}"


def name_parts(file: str) -> tuple[dict[str, float], str]:
    """The numbers in the name of a file by the word before each, and its words."""
    stem = stem_of(file)
    numbers: dict[str, float] = {}
    for found in NUMBER_IN_NAME.finditer(stem):
        word = (found[1] or "").strip("_").lower()
        if word and word not in REPEATS and len(found[2]) < DATE_DIGITS:
            numbers[word] = float(found[2])
    return numbers, re.sub(r"[\d.]+", "", stem).strip("-_= ")


def number(value: Any) -> float | None:
    """A finite number, also one in a text; None of anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


def key(value: Any) -> Any:
    """A value that can be compared with others: 4 and "4" are one setting."""
    found = number(value)
    if found is not None:
        return found
    return value if isinstance(value, str | None) else json.dumps(value, sort_keys=True, default=str)


def _varied(measurements: Sequence[Measurement]) -> dict[str, set[Any]]:
    """By setting that differs: its values."""
    names = dict.fromkeys(name for one in measurements for name in one.settings)
    values = {name: {key(one.settings.get(name)) for one in measurements} for name in names}
    return {name: found for name, found in values.items() if len(found) > 1}


def _x_of(varied: Mapping[str, set[Any]], axis: Axis, measurements: Sequence[Measurement]) -> str | None:
    """The first of the format's settings that differs, unless another has more than twice as many values."""
    counts = {name: len([each for each in found if isinstance(each, float)]) for name, found in varied.items()}
    chosen = ""
    for name in axis.names:
        if counts.get(name, 0) > max(1, 2 * counts.get(chosen, 0)):
            chosen = name
    if chosen:
        return chosen
    stated = frozenset(name for one in measurements for name in one.stated)
    in_names = [name for name in varied if name not in stated and counts[name] > 1]
    return max(in_names, key=counts.__getitem__, default=None)


def _stated_x(measurements: Sequence[Measurement], axis: Axis) -> str | None:
    settings = [name for one in measurements for name in one.settings if number(one.settings[name]) is not None]
    return next((name for name in axis.names if name in settings), None)


def _telling(placed: Sequence[tuple[float, Measurement]], names: Sequence[str], *, by_file: bool) -> list[str]:
    """The settings that tell curves apart: those that differ at one x. What follows from x or from others does not.

    Where a file holds whole curves, texts that differ do so at any x.
    """
    chosen: list[str] = []
    ordered = sorted(names, key=lambda name: name == FILE)  # the name of a file is the last resort
    for name in ordered:
        at_any = by_file and any(isinstance(key(one.settings.get(name)), str) for _, one in placed)
        seen: dict[tuple[Any, ...], set[Any]] = defaultdict(set)
        for x, one in placed:
            at = (0.0 if at_any else x, *(key(one.settings.get(other)) for other in chosen))
            seen[at].add(key(one.settings.get(name)))
        if any(len(found) > 1 for found in seen.values()):
            chosen.append(name)
    return chosen


def _common(names: Sequence[str]) -> tuple[int, int]:
    """How much all names have in common at the beginning and at the end, in whole words."""

    def whole_words(texts: Sequence[str]) -> int:
        equal = next((at for at, letters in enumerate(zip(*texts, strict=False)) if len(set(letters)) > 1), None)
        same = min(texts, key=len) if equal is None else texts[0][:equal]
        return max(same.rfind(mark) for mark in "-_/.") + 1

    begin = whole_words(names)
    return begin, whole_words([name[begin:][::-1] for name in names])


def _label(one: Measurement, telling: Sequence[str], common: tuple[int, int]) -> str:
    parts = []
    for name in telling:
        value = one.settings.get(name)
        if value is None:
            continue
        if name == FILE:
            text = str(value)
            parts.append(text[common[0] : len(text) - common[1]])
        elif isinstance(value, str) and number(value) is None:
            parts.append(value.strip().rpartition("/")[2])
        else:
            parts.append(f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}")
    return ",".join(filter(None, parts))


def within_limits(sweeps: Sequence[Sweep]) -> tuple[tuple[Sweep, ...], list[str]]:
    """The curves with distinct names, as many as a run can have, and a warning if some are left out."""
    kept: dict[str, Sweep] = {}
    room = MAX_POINTS
    left_out = []
    for one in sweeps:
        room -= len(one.points)
        if one.name in kept or room < 0 or len(kept) == MAX_SERIES:
            left_out.append(quoted(one.name))
        else:
            kept[one.name] = one
    if not left_out:
        return tuple(kept.values()), []
    why = f"a run has at most {MAX_SERIES:,} with {MAX_POINTS:,} points together, each of another name"
    return tuple(kept.values()), [f"{len(left_out)} curves are left out, from {left_out[0]} on: {why}"]


def known_sweep(sweep: Sweep, config: MetricCollectionConfig) -> Sweep:
    """A curve with what the test file states about the metric of its name."""
    known = known_about(sweep.name, config.metrics, Stated(sweep.unit, sweep.better))
    return replace(sweep, unit=known.unit, better="" if known.better == NEITHER else known.better)


def sweep_metrics(sweeps: Iterable[Sweep], judged: Callable[[str], bool]) -> Iterator[Metric]:
    """The metric of each curve that is judged. Its value is 100 % until the judge compares it with those before."""
    for one in sweeps:
        if judged(name := f"{SWEEP}{one.name}"):
            points = [point for point in one.points if point.y is not None and point.mark != FAILED]
            value = 100.0 if points else math.nan
            yield Metric(name, value, one.name, OF_SWEEP, points=len(one.points), unit=PERCENT, better=one.better)
