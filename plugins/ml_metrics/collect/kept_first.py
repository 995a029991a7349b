"""Which tags and metrics are kept first when a run has more of them than it may."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from ml_metrics.collect.aggregate import aggregation_of
from ml_metrics.collect.source import COMPUTED
from ml_metrics.config.formula import formula
from ml_metrics.model import CURVE_SUFFIX
from ml_metrics.values import MAX_TAG_BYTES, storable_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ml_metrics.config.collection import MetricCollectionConfig
    from ml_metrics.limits import Allowance
    from ml_metrics.model import Metric

REMEMBERED = 10_000
"""For how many tags the answer is remembered."""


class KeptFirst:
    """What a config needs: metrics that are judged or required, and tags that it names.

    Args:
        config: What is collected.
        judged: Whether a metric is judged or required.
    """

    def __init__(self, config: MetricCollectionConfig, judged: Callable[[str], bool]) -> None:
        self._config = config
        self._judged = judged
        named = set(config.metric_to_aggregation_strategy)
        if config.time_to_accuracy:
            named.add(config.time_to_accuracy.accuracy_tag)
        for one in config.computed.values():
            named.update(reference.name for reference in formula(one.expression).references)
        self._named = frozenset(named)
        self.tag = lru_cache(REMEMBERED)(self._tag)

    def _tag(self, tag: str) -> bool:
        """Whether a tag is kept first."""
        tag = storable_name(tag, MAX_TAG_BYTES)
        strategies = aggregation_of(tag, self._config).strategies
        names = (tag, f"{tag}{CURVE_SUFFIX}", *(f"{tag}_{strategy}" for strategy in strategies))
        return any(name in self._named or self._judged(name) for name in names)

    def of(self, metrics: Mapping[str, Metric], allowance: Allowance) -> dict[str, Metric]:
        """Return as many metrics as a run may have."""

        def is_first(name: str) -> bool:
            return metrics[name].strategy == COMPUTED or name in self._config.computed or self._judged(name)

        kept = allowance.first_ones(tuple(metrics), "metrics", is_first)
        return {name: metrics[name] for name in kept}
