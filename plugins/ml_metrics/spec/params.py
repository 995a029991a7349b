"""Parameters of a test: what a person may change when starting a run by hand."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from ml_metrics.spec.strict import Strict


class Parameter(Strict):
    """One field of the form in which a run is started. All but `default` are keywords of JSON Schema."""

    default: Any = None
    type: str | tuple[str, ...] | None = None
    title: str | None = None
    description: str | None = None
    enum: tuple[Any, ...] | None = None
    minimum: float | None = None
    maximum: float | None = None
    min_length: int | None = Field(None, ge=0, alias="minLength")
    max_length: int | None = Field(None, ge=0, alias="maxLength")
    pattern: str | None = None
    format: str | None = None
    examples: tuple[Any, ...] | None = None
    section: str | None = None
    """The heading under which the form shows it."""

    def schema_keywords(self) -> dict[str, Any]:
        """All that was said about it but the default, for `airflow.sdk.Param`."""
        said = self.model_dump(exclude={"default"}, exclude_none=True, by_alias=True)
        return {key: list(value) if isinstance(value, tuple) else value for key, value in said.items()}


def _parameter(value: Any) -> Any:
    """A default alone is a parameter, too."""
    if isinstance(value, Parameter) or (isinstance(value, dict) and "default" in value):
        return value
    return {"default": value}


Params = dict[str, Annotated[Parameter, BeforeValidator(_parameter)]]
