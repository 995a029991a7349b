"""Which names become metrics, and the units and directions of metrics."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ml_metrics.config.aggregation import Strategy
from ml_metrics.config.metric_facts import known_about
from ml_metrics.config.patterns import matches_any
from ml_metrics.values import storable_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ml_metrics.config.collection import MetricCollectionConfig
    from ml_metrics.model import Metric


def is_wanted(tag: str, config: MetricCollectionConfig, *, included: bool = False) -> bool:
    """Whether a tag becomes metrics. `tags_to_ignore` overrides `include_tags` and `included`."""
    if matches_any(config.tags_to_ignore, tag):
        return False
    return included or not config.include_tags or matches_any(config.include_tags, tag)


def described(metrics: Iterable[Metric], config: MetricCollectionConfig) -> Iterator[Metric]:
    """Yield the metrics with what the config or their names tell about them, where their source did not.

    Metrics that a strategy made of a tag have their facts already.
    """
    for metric in metrics:
        if isinstance(metric.strategy, Strategy):
            yield metric
            continue
        kind = known_about(metric.name, config.facts)
        yield replace(metric, unit=metric.unit or kind.unit, better=metric.better or kind.better)


def generated(metrics: Iterable[Metric], config: MetricCollectionConfig) -> Iterator[Metric]:
    """Yield the metrics that the package adds to a run by itself, without those that the config ignores."""
    named = (replace(metric, name=storable_name(metric.name)) for metric in metrics)
    return described((metric for metric in named if is_wanted(metric.name, config, included=True)), config)
