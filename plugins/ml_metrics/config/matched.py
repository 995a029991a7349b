"""What the names and patterns of a config match among the tags and metrics of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ml_metrics.config.patterns import best_match, matches
from ml_metrics.config.problems import did_you_mean
from ml_metrics.config.regression import DEFAULT
from ml_metrics.kinds import without_strategy

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from ml_metrics.config.collection import MetricCollectionConfig
    from ml_metrics.config.regression import RegressionTestConfig

COLLECTION, REGRESSION = "metric_collection_config", "regression_test_config"


@dataclass(frozen=True, slots=True)
class Matched:
    """A name or pattern of a config, and what it matches in a run."""

    key: tuple[str, ...]
    """The keys that lead to it, for example `regression_test_config`, `required_metrics`."""
    pattern: str
    place: str | int
    """Its place below the keys: the pattern itself, or its index in a list."""
    names: tuple[str, ...]
    """The tags or metrics for which it counts: of several patterns only the most particular one does."""
    needed: bool
    """Whether a run without a match fails."""
    near: str = ""
    """A hint at a similar name, if nothing matches."""

    @property
    def where(self) -> str:
        """The last of the keys."""
        return self.key[-1]


def matched(
    collection: MetricCollectionConfig,
    regression: RegressionTestConfig,
    tags: Collection[str],
    metrics: Collection[str],
) -> list[Matched]:
    """Return every name and pattern of a config with what it matches, in the order of the config.

    `tags` has every tag of the run, also those that are not collected; `metrics` has what the run produced.
    """
    aggregated = {tag: best_match(collection.metric_to_aggregation_strategy, tag) for tag in tags}
    known = {
        name: best_match(collection.metrics, name) or best_match(collection.metrics, without_strategy(name))
        for name in metrics
    }
    judged = {name: regression.key_for(name) for name in metrics if regression.condition_for(name) is not None}
    strategies = (COLLECTION, "metric_to_aggregation_strategy")
    conditions = (REGRESSION, "metric_success_conditions")
    rules = regression.metric_success_conditions
    optional = {key for key, condition in rules.items() if condition.optional or key == DEFAULT}
    return [
        *_chosen(strategies, collection.metric_to_aggregation_strategy, aggregated),
        *_all((COLLECTION, "tags_to_ignore"), collection.tags_to_ignore, tags),
        *_all((COLLECTION, "include_tags"), collection.include_tags, tags),
        *_chosen((COLLECTION, "metrics"), collection.metrics, known),
        *_chosen(conditions, rules, judged, needed={key for key in rules if key not in optional}),
        *_all((REGRESSION, "required_metrics"), regression.required_metrics, metrics, needed=True),
        *_all((REGRESSION, "metric_subset_to_alert"), regression.metric_subset_to_alert, metrics),
    ]


def _chosen(
    key: tuple[str, ...], patterns: Iterable[str], best: dict[str, str | None], needed: Collection[str] = ()
) -> Iterator[Matched]:
    for pattern in patterns:
        names = tuple(sorted(name for name, chosen in best.items() if chosen == pattern))
        near = "" if names or pattern == DEFAULT else did_you_mean(pattern, best)
        yield Matched(key, pattern, pattern, names, pattern in needed, near)


def _all(
    key: tuple[str, ...], patterns: Iterable[str], names: Collection[str], *, needed: bool = False
) -> Iterator[Matched]:
    for index, pattern in enumerate(patterns):
        found = tuple(sorted(name for name in names if matches(pattern, name)))
        yield Matched(key, pattern, index, found, needed, "" if found else did_you_mean(pattern, names))
