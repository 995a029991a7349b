"""What the columns of a table mean, as a user states it in a small YAML file."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from ml_metrics.config.strict import Strict

Column = Annotated[str, Field(min_length=1)]


class MappedMetric(Strict):
    """One metric of a table with a column for each."""

    column: Column
    unit: str = ""
    better: Literal["higher", "lower", "neither", ""] = ""
    scale: float = 1.0
    """What the numbers of the column are multiplied by."""


class Mapping(Strict):
    """The columns of a table: one row for each run (`metrics`), or one for each value (`metric_column`)."""

    time_column: Column
    run_column: Column | None = None
    """What identifies a run. Default: its time."""
    test_column: Column | None = None
    status_column: Column | None = None
    """Texts: `success`, `failure`, `timeout` or `missed`."""
    owner_column: Column | None = None
    attributes: tuple[Column, ...] = ()
    """Columns that describe a run, such as its commit."""
    metrics: dict[Column, MappedMetric] = Field(default_factory=dict)
    metric_column: Column | None = None
    value_column: Column | None = None
    unit_column: Column | None = None
    better_column: Column | None = None
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] = ","

    @model_validator(mode="after")
    def one_shape(self) -> Self:
        """Require the columns of exactly one of the two shapes."""
        if bool(self.metrics) == bool(self.metric_column):
            raise ValueError(
                "give either `metrics`, for a row for each run, or `metric_column`, for a row for each value"
            )
        if (self.metric_column is None) != (self.value_column is None):
            raise ValueError("`metric_column` and `value_column` belong together")
        return self

    @property
    def columns(self) -> list[str]:
        """All columns that a table has to have."""
        names = (
            self.time_column, self.run_column, self.test_column, self.status_column, self.owner_column,
            self.metric_column, self.value_column, self.unit_column, self.better_column,
        )  # fmt: skip
        return [name for name in (*names, *self.attributes, *(one.column for one in self.metrics.values())) if name]
