"""`metrics` of a collection config: what is known about metrics beside their names."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field

from ml_metrics.config.patterns import best_match
from ml_metrics.config.strict import Strict
from ml_metrics.kinds import HIGHER, LOWER, NEITHER, Kind, kind_of, without_strategy
from ml_metrics.series import Stated


class Better(StrEnum):
    """The direction in which a metric improves."""

    HIGHER = HIGHER
    LOWER = LOWER
    NEITHER = NEITHER
    """Neither: a change is never worse in itself."""


def _printable(unit: str) -> str:
    if not unit.isprintable() or unit != unit.strip():
        raise ValueError(f"{unit!r} is not a unit: write it as it stands behind a number, such as `tokens/s`")
    return unit


Unit = Annotated[str, Field(max_length=30), AfterValidator(_printable)]


class MetricFacts(Strict):
    """The unit of a metric, and the direction in which it improves."""

    unit: Unit | None = None
    """The unit of its values: `s`, `B` and `%` are scaled (12 min, 3.09 GB); others are shown as they are."""
    better: Better | None = None
    """Whether `higher` or `lower` values are better, or `neither`. `default` judges only the worse side."""


def known_about(metric: str, facts: Mapping[str, MetricFacts], stated: Stated | None = None) -> Kind:
    """Return what is known about a metric: the facts given for it or its tag, else what its file or name states."""
    kind = kind_of(metric)
    if stated is not None and not metric.endswith("_count"):
        better = kind.better if metric.endswith("_std") else stated.better or kind.better
        kind = Kind(stated.unit or kind.unit, better, kind.generated, kind.turned)
    if not facts:
        return kind
    tag = without_strategy(metric)
    own = best_match(facts, metric)
    key = own or best_match(facts, tag)
    if key is None or (own is None and metric == f"{tag}_count"):  # a number of points, whatever they measure
        return kind
    given = facts[key]
    unit = kind.unit if given.unit is None else given.unit
    is_spread = own is None and metric == f"{tag}_std"
    better = kind.better if given.better is None or is_spread else given.better.value
    return Kind(unit, better, kind.generated, kind.turned)
