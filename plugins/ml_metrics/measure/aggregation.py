"""Aggregating series into metrics: which tags count, their names, and their strategies."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ml_metrics.config.collection import Strategy, TagAggregation, known_about
from ml_metrics.config.patterns import best_match, matches
from ml_metrics.core.kinds import is_generated, kind_of_metric, without_strategy
from ml_metrics.core.model import CURVE_SUFFIX, Metric, Series
from ml_metrics.core.text import did_you_mean
from ml_metrics.core.values import MAX_TAG_BYTES, finite, storable_name
from ml_metrics.measure.collected import STEP_TIMES, is_wanted
from ml_metrics.measure.strategies import BY_TIME, BY_VALUE, NUMBERS, latest, mean
from ml_metrics.measure.text import quoted, shortened_list
from ml_metrics.measure.windows import window_of, without_warm_up

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    from ml_metrics.config.collection import MetricCollectionConfig, MetricFacts
    from ml_metrics.core.limits import Allowance


class Counts(NamedTuple):
    """The number of points, of those that are NaN or infinite, and the step of the first of these."""

    points: int
    non_finite: int
    first_non_finite: int | None


def counts_of(series: Series, chosen: NDArray[np.intp] | None = None) -> Counts:
    step, value = (series.step, series.value) if chosen is None else (series.step[chosen], series.value[chosen])
    is_finite = np.isfinite(value)
    non_finite = len(value) - int(np.count_nonzero(is_finite))
    return Counts(len(value), non_finite, int(step[is_finite.argmin()]) if non_finite else None)


def notes_on(metrics: Iterable[Metric]) -> Iterator[str]:
    """Yield a note for each tag with points that are not finite: no condition may cover its metrics."""
    yield from dict.fromkeys(metric.non_finite_text for metric in metrics if metric.non_finite)


LONGEST_SIMILAR, MOST_SIMILAR = 200, 1_000


@dataclass(frozen=True, slots=True)
class Tagged:
    """The series of a run, under the names that their metrics will have."""

    series: dict[str, Series]
    """By tag, with the run's name as a prefix if the config requires it."""
    warnings: tuple[str, ...]
    mixed: dict[str, str]
    """By tag of several series whose points are aggregated together: which ones, for the reasons of verdicts."""


def by_tag(sources: Mapping[str, Iterable[Series]], config: MetricCollectionConfig) -> Tagged:
    """Name the series. Without `use_run_name_prefix`, the series of one tag in several folders are merged.

    Series of different sources are never merged: if two sources have a tag, the earlier source counts.
    """
    tagged: dict[str, Series] = {}
    source_of: dict[str, str] = {}
    mixed: dict[str, str] = {}
    warnings = []
    for source, found in sources.items():
        groups: dict[str, list[Series]] = {}
        given: dict[str, str] = {}
        for series in found:
            prefixed = config.use_run_name_prefix and series.run != "."
            tag = f"{series.run}/{series.tag}" if prefixed else series.tag
            stored = storable_name(tag, MAX_TAG_BYTES)
            if given.setdefault(stored, tag) != tag:
                warnings.append(f"several tags are named {quoted(stored)}: their points are aggregated together")
            groups.setdefault(stored, []).append(series)
        for tag, group in groups.items():
            if tag in tagged:
                warnings.append(
                    f"tag {quoted(tag)} is in two sources, {source_of[tag]} and {source}: "
                    f"the points of {source_of[tag]} count"
                )
                continue
            folders = dict.fromkeys(one.run for one in group)
            if len(folders) > 1 and is_wanted(tag, config):
                several = f"several folders ({shortened_list(list(folders))})"
                warnings.append(
                    f"tag {quoted(tag)} was written in {several}; their points are aggregated together. "
                    "Set use_run_name_prefix to separate them."
                )
                mixed[tag] = f"it mixes the points of {several}, which use_run_name_prefix separates"
            elif len(group) > 1:
                mixed[tag] = f"it mixes the points of {len(group)} files, which file_name_prefix separates"
            tagged[tag], source_of[tag] = _joined(tag, group), source
    return Tagged(tagged, tuple(warnings), mixed)


@dataclass(frozen=True, slots=True)
class Aggregated:
    """The metrics of all tags."""

    metrics: list[Metric]
    warnings: list[str]
    notes: list[str]
    missing: dict[str, str]
    """By name: why a metric has no value."""


def aggregate(tagged: Tagged, config: MetricCollectionConfig, allowance: Allowance) -> Aggregated:
    """By tag and strategy; of as many tags as are allowed."""
    wanted = sorted(tag for tag in tagged.series if is_wanted(tag, config))
    kept = allowance.first_ones(wanted, "tags")
    return aggregate_tags({tag: tagged.series[tag] for tag in kept}, config)


def aggregate_tags(
    series_of: Mapping[str, Series], config: MetricCollectionConfig, sources: Iterable[Series] = ()
) -> Aggregated:
    """All tags count. `sources` are the tags that they were computed from."""
    result = Aggregated([], [], [], {})
    windows, facts = {}, config.facts
    are_chosen = "default_aggregation_strategies" in config.model_fields_set
    of_repeats = config.default_aggregation_strategies if are_chosen else (Strategy.MEDIAN,)
    chosen: dict[str | None, TagAggregation] = {}
    for tag, series in series_of.items():
        key = best_match(config.metric_to_aggregation_strategy, tag)
        if key not in chosen:
            chosen[key] = aggregation_of(tag, config)
        own = chosen[key]
        windows[tag] = window = window_of(series, own.steps or config.steps, own.warmup or config.warmup, sources)
        if not window.empty:
            strategies = of_repeats if key is None and series.stated.repeats else own.strategies
            result.metrics.extend(metrics_of(window.series, strategies, own.last_n, facts))
        elif own.steps is not None:
            result.missing.update({f"{tag}_{strategy}": window.empty for strategy in own.strategies})
        else:
            result.warnings.append(f"tag {quoted(tag)} has no metrics: {window.empty}")
    result.notes.extend(window.warm_up for window in windows.values() if window.warm_up)
    result.notes.extend(without_warm_up(windows))
    return result


def aggregation_of(tag: str, config: MetricCollectionConfig) -> TagAggregation:
    """How a tag is aggregated: as the tag itself or the most particular pattern says, else by the defaults."""
    own = config.metric_to_aggregation_strategy
    key = best_match(own, tag)
    chosen = TagAggregation() if key is None else own[key]
    if not isinstance(chosen, TagAggregation):
        chosen = TagAggregation(strategies=chosen)
    strategies = tuple(dict.fromkeys(chosen.strategies or config.default_aggregation_strategies))
    return chosen.model_copy(update={"strategies": strategies})


def made_by_name(names: Iterable[str], tagged: Tagged, config: MetricCollectionConfig) -> Iterator[Metric]:
    """Metrics whose names, such as `loss_p95`, state their tag and strategy.

    What the goodput log knows of step times counts before a tag `step_time`.
    """
    for name in names:
        tag = without_strategy(name)
        series = tagged.series.get(tag)
        is_made = name in config.expressions or name.endswith(CURVE_SUFFIX)
        if series is None or tag == name or is_made or not is_wanted(tag, config):
            continue
        own = aggregation_of(tag, config)
        window = window_of(series, own.steps or config.steps, own.warmup or config.warmup)
        strategy = Strategy(name.removeprefix(f"{tag}_"))
        if not window.empty:
            for metric in metrics_of(window.series, [strategy], own.last_n, config.facts):
                yield replace(metric, strategy=STEP_TIMES) if is_generated(name) else metric


def unused_patterns(tagged: Tagged, config: MetricCollectionConfig) -> list[str]:
    """A warning for each tag or pattern of the config that matches no tag of the run; it is often misspelt."""
    named = {
        "metric_to_aggregation_strategy": tuple(config.metric_to_aggregation_strategy),
        "include_tags": config.include_tags,
    }
    similar = [tag for tag in tagged.series if len(tag) <= LONGEST_SIMILAR][:MOST_SIMILAR]
    unprefixed = {tag.rpartition("/")[2]: tag for tag in similar} if config.use_run_name_prefix else {}

    def why(pattern: str) -> str:
        if prefixed := next((tag for own, tag in unprefixed.items() if matches(pattern, own)), None):
            return f": with use_run_name_prefix, tags begin with their folder, for example {quoted(prefixed)}"
        return did_you_mean(pattern, similar)

    return [
        f"{field}: {pattern!r} matches no tag of this run{why(pattern)}"
        for field, patterns in named.items()
        for pattern in patterns
        if tagged.series and not any(matches(pattern, tag) for tag in (*tagged.series, *config.expressions))
    ]


def metrics_of(
    series: Series, strategies: Iterable[Strategy], last_n: int = 10, facts: Mapping[str, MetricFacts] | None = None
) -> Iterator[Metric]:
    counts = counts_of(series)
    values = series.value[np.isfinite(series.value)] if counts.non_finite else series.value
    for strategy in strategies:
        number: float = math.nan
        step, wall_time, own = None, None, counts
        if strategy is Strategy.COUNT:
            number = float(len(series))
        elif strategy is Strategy.LAST_N_MEAN:
            chosen = latest(series, last_n)
            number, own = _mean_of_finite(series.value[chosen]), counts_of(series, chosen)
        elif strategy in BY_TIME or (strategy in BY_VALUE and values.size):
            index = (BY_TIME.get(strategy) or BY_VALUE[strategy])(series)
            number, step, wall_time = (
                float(series.value[index]),
                int(series.step[index]),
                finite(float(series.wall_time[index])),
            )
        elif values.size:
            number = NUMBERS[strategy](values)
        name = f"{series.tag}_{strategy}"
        is_stated = series.stated.unit or series.stated.better
        if facts or is_stated:
            kind = known_about(name, facts or {}, series.stated if is_stated else None)
        else:
            kind = kind_of_metric(series.tag, strategy)
        yield Metric(name, number, series.tag, strategy, step, wall_time, *own, kind.unit, kind.better)


def _mean_of_finite(values: NDArray[np.float64]) -> float:
    values = values[np.isfinite(values)]
    return mean(values) if values.size else math.nan


def _joined(tag: str, group: list[Series]) -> Series:
    if len(group) == 1 and group[0].tag == tag:
        return group[0]
    columns = (np.concatenate([getattr(one, name) for one in group]) for name in ("step", "wall_time", "value"))
    return Series(group[0].run, tag, *columns, stated=group[0].stated)
