"""Aggregating series into metrics: which tags count, their names, and their strategies."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ml_metrics.collect.strategies import BY_TIME, BY_VALUE, NUMBERS
from ml_metrics.collect.untrusted_values import printable
from ml_metrics.config.collection import Strategy
from ml_metrics.config.patterns import best_match, matches, matches_any
from ml_metrics.config.problems import did_you_mean
from ml_metrics.model import Metric, Series
from ml_metrics.values import finite

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ml_metrics.config.collection import MetricCollectionConfig


@dataclass(frozen=True, slots=True)
class Tagged:
    """The series of a run, under the names that their metrics will have."""

    series: dict[str, Series]
    """By tag, with the run's name as a prefix if the config requires it."""
    warnings: tuple[str, ...]


def by_tag(sources: Mapping[str, Iterable[Series]], config: MetricCollectionConfig) -> Tagged:
    """Name the series. Without `use_run_name_prefix`, the series of one tag in several folders are merged.

    Series of different sources are never merged: if two sources have a tag, the earlier source counts.
    """
    tagged: dict[str, Series] = {}
    source_of: dict[str, str] = {}
    warnings = []
    for source, found in sources.items():
        groups: dict[str, list[Series]] = {}
        for series in found:
            prefixed = config.use_run_name_prefix and series.run != "."
            tag = f"{series.run}/{series.tag}" if prefixed else series.tag
            groups.setdefault(printable(tag), []).append(series)
        for tag, group in groups.items():
            if tag in tagged:
                warnings.append(
                    f"tag {tag!r} is in two sources, {source_of[tag]} and {source}: "
                    f"the points of {source_of[tag]} count"
                )
                continue
            if len(group) > 1 and is_wanted(tag, config):
                warnings.append(
                    f"tag {tag!r} was written in several folders ({', '.join(one.run for one in group)}); their points "
                    "are aggregated together. Set use_run_name_prefix to separate them."
                )
            tagged[tag], source_of[tag] = _joined(tag, group), source
    return Tagged(tagged, tuple(warnings))


def aggregate(tagged: Tagged, config: MetricCollectionConfig) -> list[Metric]:
    """Return all metrics that the config selects, by tag and strategy."""
    return [
        metric
        for tag, series in sorted(tagged.series.items())
        if is_wanted(tag, config)
        for metric in metrics_of(series, strategies_of(tag, config))
    ]


def is_wanted(tag: str, config: MetricCollectionConfig, *, included: bool = False) -> bool:
    """Whether a tag becomes metrics. `tags_to_ignore` overrides `include_tags` and `included`."""
    if matches_any(config.tags_to_ignore, tag):
        return False
    return included or not config.include_tags or matches_any(config.include_tags, tag)


def strategies_of(tag: str, config: MetricCollectionConfig) -> Sequence[Strategy]:
    """Return the strategies of the most particular name or pattern that matches the tag, else the default ones."""
    own = config.metric_to_aggregation_strategy
    key = best_match(own, tag)
    return tuple(dict.fromkeys(config.default_aggregation_strategies if key is None else own[key]))


def unused_patterns(tagged: Tagged, config: MetricCollectionConfig) -> list[str]:
    """Return a warning for each tag or pattern of the config that matches no tag of the run; it is often misspelt."""
    named = {
        "metric_to_aggregation_strategy": tuple(config.metric_to_aggregation_strategy),
        "include_tags": config.include_tags,
    }
    return [
        f"{field}: {pattern!r} matches no tag of this run{did_you_mean(pattern, tagged.series)}"
        for field, patterns in named.items()
        for pattern in patterns
        if tagged.series and not any(matches(pattern, tag) for tag in tagged.series)
    ]


def metrics_of(series: Series, strategies: Iterable[Strategy]) -> Iterator[Metric]:
    """Aggregate the points of a tag into one metric for each strategy."""
    is_finite = np.isfinite(series.value)
    points = len(series)
    non_finite = points - int(np.count_nonzero(is_finite))
    values = series.value[is_finite] if non_finite else series.value
    for strategy in strategies:
        number: float = math.nan
        step = wall_time = None
        if strategy is Strategy.COUNT:
            number = float(points)
        elif strategy in BY_TIME or (strategy in BY_VALUE and values.size):
            index = (BY_TIME.get(strategy) or BY_VALUE[strategy])(series)
            number, step, wall_time = (
                float(series.value[index]),
                int(series.step[index]),
                finite(float(series.wall_time[index])),
            )
        elif values.size:
            number = NUMBERS[strategy](values)
        yield Metric(f"{series.tag}_{strategy}", number, series.tag, strategy, step, wall_time, points, non_finite)


def _joined(tag: str, group: list[Series]) -> Series:
    if len(group) == 1 and group[0].tag == tag:
        return group[0]
    columns = (np.concatenate([getattr(one, name) for one in group]) for name in ("step", "wall_time", "value"))
    return Series(group[0].run, tag, *columns)
