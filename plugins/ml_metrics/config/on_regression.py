"""`on_regression` of a test: the search that a broken metric starts by itself."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from ml_metrics.config.strict import Strict

BISECT = "bisect"


class OwnSearch(Strict):
    """The search for the version that broke a metric, by trials of the test."""

    max_runs: int = Field(40, ge=1, le=1_000)
    """The budget of each search."""
    parameter: str = Field("image", min_length=1)
    """What differs between the versions: `image`, or a parameter of the test."""
    effect: float = Field(2.0, gt=0, le=1_000)
    """The smallest change that matters, in percent."""


class OnRegression(Strict):
    """What a metric out of bounds starts."""

    bisect: OwnSearch
    """The search for the version that broke it. The word `bisect` alone has the default of each option."""


def _on_regression(value: Any) -> Any:
    """Accept `bisect` alone."""
    return {BISECT: {}} if value == BISECT else value


OnRegressionField = Annotated[OnRegression | None, BeforeValidator(_on_regression)]
