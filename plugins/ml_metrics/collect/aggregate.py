"""From series to metrics: which tags count, under which name, and by which strategies."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ml_metrics.collect.strategies import BY_TIME, BY_VALUE, NUMBERS
from ml_metrics.collect.untrusted_values import printable
from ml_metrics.config.collection import Strategy
from ml_metrics.config.patterns import matches
from ml_metrics.config.problems import did_you_mean
from ml_metrics.model import Metric, Series

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ml_metrics.config.collection import MetricCollectionConfig


@dataclass(frozen=True, slots=True)
class Tagged:
    """The series of a run under the names that its metrics get."""

    series: dict[str, Series]
    """By tag, with the run's name before it if the config says so."""
    warnings: tuple[str, ...]


def by_tag(sources: Mapping[str, Iterable[Series]], config: MetricCollectionConfig) -> Tagged:
    """Name the series. Without `use_run_name_prefix`, those of the same tag in several folders become one.

    Two sources are never mixed: where both know a tag, the earlier one counts.
    """
    tagged: dict[str, Series] = {}
    finder: dict[str, str] = {}
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
                    f"tag {tag!r} is given by {finder[tag]} and by {source}: the points of {finder[tag]} count"
                )
                continue
            if len(group) > 1 and is_wanted(tag, config):
                warnings.append(_merged(tag, group))
            tagged[tag], finder[tag] = _joined(tag, group), source
    return Tagged(tagged, tuple(warnings))


def aggregate(tagged: Tagged, config: MetricCollectionConfig) -> list[Metric]:
    """Every metric that the config asks for, by tag and strategy."""
    return [
        metric
        for tag, series in sorted(tagged.series.items())
        if is_wanted(tag, config)
        for metric in metrics_of(series, strategies_of(tag, config))
    ]


def is_wanted(tag: str, config: MetricCollectionConfig, *, included: bool = False) -> bool:
    """Whether a tag becomes metrics. To be ignored weighs more than to be included, by nature or by the config."""
    if any(matches(pattern, tag) for pattern in config.tags_to_ignore):
        return False
    return included or not config.include_tags or any(matches(pattern, tag) for pattern in config.include_tags)


def strategies_of(tag: str, config: MetricCollectionConfig) -> Sequence[Strategy]:
    """Those of the tag itself, else of the first pattern that means it, else the default ones; each once."""
    own = config.metric_to_aggregation_strategy
    chosen = own.get(tag) or next(
        (strategies for pattern, strategies in own.items() if matches(pattern, tag)),
        config.default_aggregation_strategies,
    )
    return tuple(dict.fromkeys(chosen))


def unused_patterns(tagged: Tagged, config: MetricCollectionConfig) -> list[str]:
    """A warning for each tag or pattern of the config that means no tag of the run: often a misprint."""
    named = {
        "metric_to_aggregation_strategy": tuple(config.metric_to_aggregation_strategy),
        "include_tags": config.include_tags,
    }
    return [
        f"{field}: {pattern!r} means no tag of this run{did_you_mean(pattern, tagged.series)}"
        for field, patterns in named.items()
        for pattern in patterns
        if tagged.series and not any(matches(pattern, tag) for tag in tagged.series)
    ]


def metrics_of(series: Series, strategies: Iterable[Strategy]) -> Iterator[Metric]:
    """The points of a tag, each strategy as one number."""
    is_finite = np.isfinite(series.value)
    points = len(series)
    non_finite = points - int(np.count_nonzero(is_finite))
    finite = series.value[is_finite] if non_finite else series.value
    for strategy in strategies:
        number: float = math.nan
        step = wall_time = None
        if strategy is Strategy.COUNT:
            number = float(points)
        elif strategy in BY_TIME or (strategy in BY_VALUE and finite.size):
            index = (BY_TIME.get(strategy) or BY_VALUE[strategy])(series)
            number, step, wall_time = (
                float(series.value[index]),
                int(series.step[index]),
                _known(float(series.wall_time[index])),
            )
        elif finite.size:
            number = NUMBERS[strategy](finite)
        yield Metric(f"{series.tag}_{strategy}", number, series.tag, strategy, step, wall_time, points, non_finite)


def _known(wall_time: float) -> float | None:
    """A time that a source could tell."""
    return wall_time if math.isfinite(wall_time) else None


def _merged(tag: str, group: list[Series]) -> str:
    return (
        f"tag {tag!r} was written in several folders ({', '.join(one.run for one in group)}); their points are "
        "aggregated together. Set use_run_name_prefix to keep them apart."
    )


def _joined(tag: str, group: list[Series]) -> Series:
    if len(group) == 1 and group[0].tag == tag:
        return group[0]
    return Series(
        group[0].run,
        tag,
        np.concatenate([one.step for one in group]),
        np.concatenate([one.wall_time for one in group]),
        np.concatenate([one.value for one in group]),
    )
