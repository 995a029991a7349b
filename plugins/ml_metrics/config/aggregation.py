"""How the points of a tag become metrics: the strategies, and the window of points that they use."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, model_validator

from ml_metrics.config.strict import Strict

Count = Annotated[int, Field(strict=True, ge=0)]


class Strategy(StrEnum):
    """How the points of a tag are aggregated to one number."""

    FINAL = "final"
    MAX = "max"
    MIN = "min"
    AVERAGE = "average"
    MEDIAN = "median"
    P50 = "p50"
    P90 = "p90"
    P95 = "p95"
    P99 = "p99"
    STD = "std"
    TRIMMED_MEAN = "trimmed_mean"
    LAST_N_MEAN = "last_n_mean"
    FIRST = "first"
    COUNT = "count"


class Warmup(StrEnum):
    """Whether the warm-up of a tag is left out."""

    AUTO = "auto"
    NONE = "none"


class Steps(Strict):
    """The steps whose points count."""

    skip_first: Count = 0
    """How many of the steps that the tag has are left out at the beginning."""
    from_step: Count | None = Field(None, validation_alias="from")
    """The first step that counts."""
    to_step: Count | None = Field(None, validation_alias="to")
    """The last step that counts."""

    @model_validator(mode="after")
    def in_order(self) -> Self:
        """Reject a range without any step."""
        if self.from_step is not None and self.to_step is not None and self.from_step > self.to_step:
            raise ValueError(f"from: {self.from_step} is after to: {self.to_step}: no step is between them")
        return self

    def __str__(self) -> str:
        given = {"skip_first": self.skip_first or None, "from": self.from_step, "to": self.to_step}
        return ", ".join(f"{name}: {value}" for name, value in given.items() if value is not None)


class TagAggregation(Strict):
    """How the points of one tag, or of the tags that match a pattern, are aggregated."""

    strategies: tuple[Strategy, ...] = ()
    """The strategies. Default: `default_aggregation_strategies`."""
    steps: Steps | None = None
    """The steps whose points count, instead of those for all tags. `{}` is every step."""
    warmup: Warmup | None = None
    """`auto` or `none`, instead of the choice for all tags."""
    last_n: Annotated[int, Field(strict=True, ge=1)] = 10
    """The number of points of `last_n_mean`."""

    @model_validator(mode="after")
    def last_n_is_used(self) -> Self:
        """Reject a number of points that no strategy uses."""
        if "last_n" in self.model_fields_set and self.strategies and Strategy.LAST_N_MEAN not in self.strategies:
            raise ValueError(f"last_n is used by last_n_mean only, and `strategies` has {', '.join(self.strategies)}")
        return self
