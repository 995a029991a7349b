"""`on_regression` of a test: the search that a broken metric starts by itself."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, SerializerFunctionWrapHandler, model_serializer

from ml_metrics.config.strict import Strict

BISECT = "bisect"


class OnRegression(Strict):
    """The search for the version that broke a metric, by trials of the test."""

    max_runs: int = Field(40, ge=1, le=1_000)
    """The budget of each search."""
    parameter: str = Field("image", min_length=1)
    """What differs between the versions: `image`, or a parameter of the test."""
    effect: float = Field(2.0, gt=0, le=1_000)
    """The smallest change that matters, in percent."""

    @model_serializer(mode="wrap")
    def _below_its_word(self, fields: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Return the form in which a test file has it."""
        return {BISECT: fields(self)}


def _on_regression(value: Any) -> Any:
    """Accept `bisect` alone, and its options below that word."""
    if value is None or isinstance(value, OnRegression):
        return value
    if value == BISECT:
        return {}
    if isinstance(value, dict) and set(value) == {BISECT}:
        return value[BISECT] or {}
    raise ValueError("write `bisect`, or its options as in {bisect: {max_runs: 40}}")


OnRegressionField = Annotated[OnRegression | None, BeforeValidator(_on_regression)]
